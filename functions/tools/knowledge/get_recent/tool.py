"""Show what was read recently."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, TypeAdapter

from functions.tools.knowledge.get_recent.activity import Activity, activity_of
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

EMPTY: Final = "The knowledge base is empty. The owner adds texts with `carrel ingest PATH`."
_Day = Annotated[int, Field(ge=date.min.toordinal(), le=date.max.toordinal())]
_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId, _Day])
"""The shape of a cursor: the date and the id of a page's last passage, and the first day of the
period."""


class In(Arguments):
    """A period."""

    period: Period = Field(
        default=Period.LAST_7_DAYS,
        description="Days in UTC; last_month and last_year are the previous calendar month and"
        " year.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="Maximum number of passages.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the previous page, with the same period."
    )


class Out(Result):
    """The newest passages of a period, and its activity."""

    period: Period = Field(description="The requested period.")
    first_day: str = Field(description="Its first day: YYYY-MM-DD.")
    last_day: str = Field(description="Its last day.")
    chunks: list[Passage] = Field(description="Passages of the period, newest first.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")
    activity: Activity | None = Field(description="On the first page only.")
    message: str | None = Field(description="What to know if there is no passage.")


async def get_recent(args: In, ctx: Context) -> Out:
    """List what is new: two round trips, one with a cursor, three if nothing is in the period.

    Besides limit + 1 chunks, it reads the postings of each month of the period and up to 100
    sources, and has the period's chunks counted.
    """
    span = period_dates(args.period, ctx.clock())
    after = None
    if position := decode_cursor(args, args.cursor, _POSITION):
        *after, first_day = position
        # Midnight may have passed between two pages: the period stays that of the first page.
        span = replace(span, first=date.fromordinal(first_day))
    chunks, activity = await asyncio.gather(
        Chunks(ctx.database).newest(
            args.limit + 1, span=span, after=tuple(after) if after else None
        ),
        _activity(args, span, ctx),
    )
    page = fit_page([passage(Passage, chunk) for chunk in chunks[: args.limit]])
    end = date_cursor(chunks[len(page) - 1]) if len(page) < len(chunks) else None
    return Out(
        period=args.period,
        first_day=span.first.isoformat(),
        last_day=span.last.isoformat(),
        chunks=page,
        next_cursor=encode_cursor(args, [*end, span.first.toordinal()]) if end else None,
        activity=activity,
        message=None if page or args.cursor else await _empty_message(ctx),
    )


async def _activity(args: In, span: DateSpan, ctx: Context) -> Activity | None:
    if args.cursor:
        return None
    return await activity_of(span, ctx, by_month=args.period is Period.LAST_YEAR)


async def _empty_message(ctx: Context) -> str:
    newest = await Chunks(ctx.database).newest(1)
    if not newest or not newest[0].dated_at:
        return EMPTY
    day = f"{newest[0].dated_at:%Y-%m-%d}"
    return (
        f"No passage is in this period. The newest is of {day}: call search_kb without a query and"
        " with filters.date_range to list passages of any days."
    )


TOOL = Tool(
    name="get_recent",
    title="Get recent reading",
    description=(
        "Show what the owner read or highlighted lately: the newest passages of a period, and"
        " counts by day, source and author. Use it for questions about time, such as what is new,"
        " last week's reading, or a weekly review. For a subject, use search_kb, which takes dates"
        " too; for totals of the whole base, get_stats."
    ),
    input=In,
    output=Out,
    run=get_recent,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    links=Links(items="chunks", uri="carrel://chunk/{chunk_id}", name="title"),
)
