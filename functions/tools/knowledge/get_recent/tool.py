"""List the newest passages of a period, and count its passages."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from functions.tools.knowledge.get_recent.activity import Activity, count_activity
from shared.core.caller import Tier
from shared.core.dates import DateSpan, Period, load_time_zone, parse_days, resolve_period
from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.index.vector_index import make_date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.copies import find_page_end, fold
from shared.knowledge.notes_about import load_annotations
from shared.knowledge.source_repository import Sources
from shared.knowledge.views import (
    AnnotatedPassage,
    LinkedSource,
    format_passage,
    format_title,
    to_copies,
    to_passage,
)
from shared.links.repository import SavedLinks
from shared.runtime.pagination import (
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import PERIODS, DayText, DocumentId, PeriodName, Result, ZoneName
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from shared.links.model import Link
    from shared.runtime.context import Context

MAX_LINKS: Final = 5
"""The maximum number of saved links on the first page."""
MAX_ADDED: Final = 5
"""The maximum number of added sources on the first page."""
_DAY: Final = timedelta(days=1)
_YEAR: Final = 365 * _DAY
_MAX_DAILY: Final = 92 * _DAY
"""In a longer period, passages are counted by month."""
_Ordinal = Annotated[int, Field(ge=date.min.toordinal(), le=date.max.toordinal())]
"""A day as a number, see `date.toordinal`."""
_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId, _Ordinal, _Ordinal])
"""The shape of a cursor's position: the date and the id of a page's last passage, and the first and
the last day of the period."""


def explain_empty() -> str:
    """Say how texts get into an empty knowledge base."""
    return f"The knowledge base is empty. The owner adds texts with `{carrel('ingest PATH')}`."


class In(PagedArguments):
    """A period and a page of its passages."""

    period: PeriodName = Field(
        default=Period.LAST_7_DAYS,
        description=PERIODS,
    )
    after: DayText | None = Field(default=None, description="Or after a day, oldest first.")
    before: DayText | None = Field(default=None, description="Or before a day: YYYY-MM-DD.")
    time_zone: ZoneName | None = Field(
        default=None,
        description="Such as Europe/Berlin.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="Maximum number of passages.")


class RecentLink(Result):
    """A link that was saved with save_link."""

    url: str = Field(description="Its address.")
    source_id: str = Field(description="The id of the source made from its page; for get_source.")
    state: Literal["waiting", "stored", "failed"] = Field(
        description="failed: it was given up after five attempts. save_link tries again."
    )
    requested: str = Field(description="When it was saved: an ISO 8601 time in UTC.")
    error: str | None = Field(description="Why its page could not be stored, the last time.")
    title: str | None = Field(description="The title that the user gave, if any.")


class AddedSources(Result):
    """Sources that were added in a period, whatever the dates of their passages."""

    total: int = Field(description="How many there are.")
    newest: list[LinkedSource] = Field(description="The five that were added last.")


class Out(Result):
    """The newest passages of a period, and its counts."""

    message: str | None = Field(
        description="Why the list is empty, and what to do next. Missing if there are passages."
    )
    first_day: str = Field(description="The first day of the period: YYYY-MM-DD.")
    last_day: str = Field(description="The last day of the period: YYYY-MM-DD.")
    time_zone: str = Field(description="The time zone of these days.")
    activity: Activity | None = Field(
        description="Counts of the period's passages. Returned on the first page only."
    )
    added: AddedSources | None = Field(
        description="The sources that were added in the period, if there are any. On the first page"
        " only."
    )
    links: list[RecentLink] | None = Field(
        description="The five links that were saved last with save_link, in any period, newest"
        " first. Returned to users who are signed in, on the first page only, if there are any."
    )
    chunks: list[AnnotatedPassage] = Field(
        description="The passages, newest first; with only after, oldest first."
    )
    next_cursor: str | None = Field(description="For the next page; missing on the last.")


async def get_recent(args: In, ctx: Context) -> Out:
    """List the newest passages of a period.

    The first page costs three round trips. It reads limit + 1 chunks, notes about them, the index
    entries of each month (its postings), up to 25 sources and 5 links. Every other page costs two
    round trips, and reads only the chunks and the notes.
    """
    time_zone = args.time_zone or ctx.settings.time_zone
    zone = load_time_zone(time_zone)
    span = _resolve_span(args, ctx.clock(), zone)
    after = None
    if position := decode_cursor(args, args.cursor, _POSITION):
        dated_at, chunk_id, first_day, last_day = position
        after = dated_at, chunk_id
        # Every page keeps the first page's period, even if midnight has passed since.
        span = DateSpan(date.fromordinal(first_day), date.fromordinal(last_day), zone)
    chunks, activity, added, links = await asyncio.gather(
        Chunks(ctx.database).load_newest(
            args.limit + 1,
            span=span,
            after=after,
            oldest_first=bool(args.after and not args.before),
        ),
        _count_activity(args, span, ctx),
        _load_added(args, span, ctx),
        _load_links(args, ctx),
    )
    copies = fold(chunk for chunk in chunks[: args.limit] if not chunk.is_kept_out)
    listed = [chunk for chunk in chunks if chunk.id in copies]
    annotations = await load_annotations(listed, zone, ctx.database, copies)
    recent_links = [_to_recent_link(link) for link in links]
    page = fit_page(
        [
            to_passage(
                AnnotatedPassage,
                chunk,
                zone,
                also_in=to_copies(copies[chunk.id]),
                **annotations[chunk.chunk_id],
            )
            for chunk in listed
        ],
        args.max_tokens,
        other_parts=[*recent_links, *filter(None, [activity, added])],
    )
    next_cursor = None
    if last := find_page_end(chunks, listed, len(page), args.limit):
        days = span.first.toordinal(), span.last.toordinal()
        next_cursor = encode_cursor(args, [*make_date_cursor(last), *days])
    return Out(
        first_day=span.first.isoformat(),
        last_day=span.last.isoformat(),
        time_zone=time_zone,
        chunks=page,
        next_cursor=next_cursor,
        activity=activity,
        added=added,
        links=recent_links or None,
        message=None if page or args.cursor else await _explain_empty(zone, ctx),
    )


def _resolve_span(args: In, now: datetime, zone: tzinfo) -> DateSpan:
    """Return the days of the period, or up to a year after or before the given day.

    Raises:
        InvalidInput: No days are between `after` and `before`, or more than a year is.
    """
    after = parse_days(args.after, zone).last if args.after else None
    before = parse_days(args.before, zone).first if args.before else None
    try:
        if before:
            span = DateSpan(after + _DAY if after else before - _YEAR, before - _DAY, zone)
        elif after:
            span = DateSpan(after + _DAY, after + _YEAR, zone)
        else:
            return resolve_period(args.period, now, zone)
    except OverflowError:  # the first or the last year of the calendar
        span = DateSpan(zone=zone)
    if not timedelta() <= span.last - span.first <= _YEAR:
        message = "There must be at least one day, and at most a year, between after and before."
        raise InvalidInput(message, details={"after": "too early or too late for before"})
    return span


async def _count_activity(args: In, span: DateSpan, ctx: Context) -> Activity | None:
    if args.cursor:
        return None
    return await count_activity(span, ctx, by_month=span.last - span.first > _MAX_DAILY)


async def _load_added(args: In, span: DateSpan, ctx: Context) -> AddedSources | None:
    if args.cursor:
        return None
    total, newest = await Sources(ctx.database).list_added(span, MAX_ADDED)
    listed = [LinkedSource.of(source) for source in newest if not source.is_kept_out]
    return AddedSources(total=total, newest=listed) if listed else None


async def _load_links(args: In, ctx: Context) -> Sequence[Link]:
    # Anonymous callers get no links, because an address is not public before its page is stored.
    if args.cursor or ctx.caller.user_id is None:
        return ()
    return await SavedLinks(ctx.database).list_newest(MAX_LINKS)


def _to_recent_link(link: Link) -> RecentLink:
    return RecentLink.of(
        link, state=link.state.value, requested=f"{link.requested_at:%Y-%m-%dT%H:%M:%SZ}"
    )


async def _explain_empty(zone: tzinfo, ctx: Context) -> str:
    """Say why no passage is listed, and how to find others."""
    newest = await Chunks(ctx.database).load_newest(1)
    if not newest:
        return explain_empty()
    day = newest[0].format_day(zone)
    if day is None:
        return "No passage has a date. To browse call list_sources."
    return (
        f"No passage is dated in this period. The newest is from {day}."
        " To see others, pass after or before."
    )


def format_result(out: Out) -> str:
    """Return the passages and counts as text."""
    paragraphs = [out.message] if out.message else []
    if out.activity:
        paragraphs.append(_format_activity(out, out.activity))
    if out.added:
        paragraphs.append(_format_added(out.added))
    if out.links:
        paragraphs.append("\n".join(map(_format_link, out.links)))
    paragraphs += [f"- {format_passage(passage, [passage.snippet])}" for passage in out.chunks]
    if out.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {out.next_cursor}")
    return "\n\n".join(paragraphs)


def _format_activity(out: Out, activity: Activity) -> str:
    days = [f"{entry.date} ({entry.chunks})" for entry in activity.timeline]
    sources = [
        f"{format_title(source.title, source.author)} ({source.chunks}, ID {source.source_id})"
        for source in activity.top_sources
    ]
    authors = [f"{author.author} ({author.chunks})" for author in activity.top_authors]
    counts = {"By date": days, "By source": sources, "By author": authors}
    partial = " Not all of them are counted below yet." if activity.partial else ""
    period = f"from {out.first_day} to {out.last_day} ({out.time_zone})"
    return "\n".join(
        [
            f"Passages {period}: {activity.total}.{partial}",
            *(f"{name}: {'; '.join(entries)}" for name, entries in counts.items() if entries),
        ]
    )


def _format_added(added: AddedSources) -> str:
    sources = "; ".join(f"{source.title} (ID {source.source_id})" for source in added.newest)
    return f"Sources added in this period: {added.total}. The newest: {sources}"


def _format_link(link: RecentLink) -> str:
    reason = f": {link.error}" if link.error else ""
    facts = f"{link.requested}, ID {link.source_id}"
    return f"Saved link {link.url} ({facts}): {link.state}{reason}"


TOOL = Tool(
    name="get_recent",
    title="Get the newest passages",
    description=(
        "List the newest passages, counted by day, source and author, and the links that"
        " save_link queued. For a subject use search_kb."
    ),
    input=In,
    output=Out,
    run=get_recent,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
