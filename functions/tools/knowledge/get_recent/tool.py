"""See what was read lately."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, TypeAdapter

from functions.tools.knowledge.get_recent.activity import activity
from shared.core.caller import Tier
from shared.core.dates import Period, period_dates
from shared.index.vector_index import date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.views import Passage, passage
from shared.runtime.pagination import (
    CursorMoment,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Links, Tool

if TYPE_CHECKING:
    from shared.core.dates import DateSpan
    from shared.runtime.context import Context

EMPTY: Final = "There is nothing here yet. The owner puts texts in with `carrel ingest PATH`."
TOP: Final = 5
"""How many sources and authors are named."""
_Day = Annotated[int, Field(ge=date.min.toordinal(), le=date.max.toordinal())]
_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId, _Day])
"""The date and the id of the last passage that was shown, and the first day of the walk."""


class In(Arguments):
    """Since when, and how much."""

    period: Period = Field(
        default=Period.LAST_7_DAYS,
        description="Days of UTC; last_month and last_year are those of the calendar.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="How many passages at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, with the same period."
    )


class Stretch(Result):
    """A day, or a month of last_year."""

    date: str = Field(description="YYYY-MM-DD, or YYYY-MM for last_year.")
    chunks: int = Field(description="How many passages have their date in it.")


class TopSource(Result):
    """A source with passages of the period."""

    source_id: str = Field(description="Its id, for get_source.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Who wrote it, if known.")
    chunks: int = Field(description="How many of its passages are of the period.")


class TopAuthor(Result):
    """An author with passages of the period."""

    author: str = Field(description="The author.")
    chunks: int = Field(description="How many of their passages are of the period.")


class Activity(Result):
    """What bears a date of the period."""

    total: int = Field(description="How many passages are of the period.")
    timeline: list[Stretch] = Field(
        description="Passages by day, by month for last_year; days without any are left out."
    )
    top_sources: list[TopSource] = Field(description="Where most of them are from, at most five.")
    top_authors: list[TopAuthor] = Field(description="Who wrote most of them, at most five.")
    partial: bool = Field(
        description="Whether timeline and tops do not add up to total: passages put in or deleted a"
        " moment ago are counted once they are indexed, and of a period with very many passages the"
        " tops count the newest."
    )


class Out(Result):
    """The newest passages of a period, and its activity."""

    period: Period = Field(description="The period asked for.")
    first_day: str = Field(description="Its first day: YYYY-MM-DD.")
    last_day: str = Field(description="Its last day.")
    chunks: list[Passage] = Field(description="Passages of the period, the latest first.")
    next_cursor: str | None = Field(description="Where the passages go on; missing at their end.")
    activity: Activity | None = Field(description="Left out of all pages but the first.")
    message: str | None = Field(description="What to know when there is no passage.")


async def get_recent(args: In, ctx: Context) -> Out:
    """List what is new: two round trips, one with a cursor, and three where there is nothing.

    Beside limit + 1 chunks it reads one list for each month of the period and up to 100 sources,
    and has the period's chunks counted.
    """
    span = period_dates(args.period, ctx.clock())
    after = None
    if position := decode_cursor(args, args.cursor, _POSITION):
        *_, first = position  # the first day of the walk, though midnight may have passed
        after = position[:2]
        span = replace(span, first=date.fromordinal(first))
    chunks, summary = await asyncio.gather(
        Chunks(ctx.database).newest(args.limit + 1, span=span, after=after),
        _activity(args, span, ctx),
    )
    passages = fit_page([passage(Passage, chunk) for chunk in chunks[: args.limit]])
    end = date_cursor(chunks[len(passages) - 1]) if len(passages) < len(chunks) else None
    return Out(
        period=args.period,
        first_day=span.first.isoformat(),
        last_day=span.last.isoformat(),
        chunks=passages,
        next_cursor=encode_cursor(args, [*end, span.first.toordinal()]) if end else None,
        activity=summary,
        message=None if passages or args.cursor else await _nothing(ctx),
    )


async def _activity(args: In, span: DateSpan, ctx: Context) -> Activity | None:
    if args.cursor:
        return None
    found = await activity(span, ctx, by_month=args.period is Period.LAST_YEAR)
    return Activity(
        total=found.total,
        timeline=[Stretch(date=name, chunks=count) for name, count in found.timeline.items()],
        top_sources=[
            TopSource(
                source_id=source.source_id, title=source.title, author=source.author, chunks=count
            )
            for source, count in found.sources[:TOP]
        ],
        top_authors=[TopAuthor(author=name, chunks=count) for name, count in found.authors[:TOP]],
        partial=found.partial,
    )


async def _nothing(ctx: Context) -> str:
    newest = await Chunks(ctx.database).newest(1)
    if not newest or not newest[0].dated_at:
        return EMPTY
    day = f"{newest[0].dated_at:%Y-%m-%d}"
    return (
        f"No passage is of this period. The newest is of {day}: call search_kb without a query and"
        " with filters.date_range to list passages of any days."
    )


TOOL = Tool(
    name="get_recent",
    title="Get what is new",
    description=(
        "See what the owner read or highlighted lately: the newest passages of a period, how many"
        " are of which day, and of which sources and authors. Use it for questions about time"
        " (what is new, what did I read last week, a weekly review). For passages about a subject,"
        " of a period or not, use search_kb; for totals of the whole base, get_stats."
    ),
    input=In,
    output=Out,
    run=get_recent,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    links=Links(items="chunks", uri="carrel://chunk/{chunk_id}", name="title"),
)
