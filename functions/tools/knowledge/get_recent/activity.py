"""Counts the passages of a period by day, source and author.

It reads the inverted index, in which the postings of a month list its chunks with their dates. A
chunk is a passage as it is stored.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.dates import DateSpan, parse_days
from shared.core.ids import parse_source_id
from shared.index.facets import Facet, Kind
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.index.bm25 import Postings
    from shared.runtime.context import Context

    PostingsByMonth = Mapping[str, Postings]
    """The postings with the dates of a month's chunks, by month (YYYY-MM).

    A month without chunks is missing."""

MAX_SOURCES: Final = 20
"""The maximum number of sources that are read for their titles and authors."""
MAX_TOP_ENTRIES: Final = 5
"""The maximum number of sources, and of authors, in the result."""


class TimelineEntry(Result):
    """The passages of a day, or of a month if the period is long."""

    date: str = Field(description="YYYY-MM-DD, or YYYY-MM.")
    chunks: int = Field(description="How many passages are dated in this day or month.")


class TopSource(Result):
    """A source with passages in the period."""

    source_id: str = Field(description="Its id, for get_source.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Who wrote it, if known.")
    chunks: int = Field(description="How many of its passages are in the period.")


class TopAuthor(Result):
    """An author with passages in the period."""

    author: str = Field(description="The author.")
    chunks: int = Field(description="How many of their passages are in the period.")


class Activity(Result):
    """The number of passages in a period, by day, source and author."""

    total: int = Field(description="How many passages are in the period.")
    timeline: list[TimelineEntry] = Field(
        description="Passages by day, or by month beyond 92 days, without empty ones."
    )
    top_sources: list[TopSource] = Field(
        description="Up to five sources with the most passages in the period, at least two each."
    )
    top_authors: list[TopAuthor] = Field(
        description="The five authors with the most passages in the period."
    )
    partial: bool = Field(
        description="Whether timeline, top_sources and top_authors may not add up to total. Recent"
        " changes are missing until they are indexed. In a period with very many passages,"
        " top_sources and top_authors count only the newest; in one with many sources, top_authors"
        f" counts only the {MAX_SOURCES} sources with the most passages."
    )


async def count_activity(span: DateSpan, ctx: Context, *, by_month: bool) -> Activity:
    """Count the passages of a span.

    Costs two round trips, with one read for each month and source. The database counts the total
    if the postings cannot: while passages wait to be indexed, or where postings are truncated and
    their numbers by day, which are of UTC, do not help.
    """
    facets = [Facet(Kind.MONTH, month) for month in span.months]
    postings, is_indexed = await asyncio.gather(
        InvertedIndex(ctx.database, KNOWLEDGE).read([], facets),
        ChunkQueue(ctx.database).is_done("index"),
    )
    postings_by_month = {facet.key: of_month for facet, of_month in postings.facets.items()}
    units = _split_by_month(span) if by_month else _split_by_day(span)
    is_complete = all(_is_complete(postings_by_month, unit) for unit in units.values())
    is_utc = span.zone is UTC
    count = _count_by_stored_days if is_utc else _count_by_dates
    counts = count(list(units.values()), postings_by_month)
    counts_by_source = _count_by_source(postings_by_month, span)
    top_counts = dict(_sort_by_count(counts_by_source)[:MAX_SOURCES])
    total, sources = await asyncio.gather(
        _count_total(span, sum(counts) if is_indexed and (is_utc or is_complete) else None, ctx),
        Sources(ctx.database).get_all(list(top_counts)),
    )
    counts_by_author = Counter[str]()
    for source in sources:
        if source.author:
            counts_by_author[source.author] += top_counts[source.source_id]
    return Activity(
        total=total,
        timeline=[
            TimelineEntry(date=name, chunks=count)
            for name, count in zip(units, counts, strict=True)
            if count
        ],
        top_sources=[
            TopSource.of(source, chunks=top_counts[source.source_id])
            for source in sources
            if top_counts[source.source_id] > 1
        ][:MAX_TOP_ENTRIES],
        top_authors=[
            TopAuthor(author=name, chunks=count)
            for name, count in _sort_by_count(counts_by_author)[:MAX_TOP_ENTRIES]
        ],
        partial=sum(counts) != total or len(counts_by_source) > MAX_SOURCES or not is_complete,
    )


async def _count_total(span: DateSpan, indexed_count: int | None, ctx: Context) -> int:
    """Return the count from the index. If it is None, let the database count."""
    return await Chunks(ctx.database).count(span) if indexed_count is None else indexed_count


def _sort_by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _split_by_day(span: DateSpan) -> dict[str, DateSpan]:
    count = (span.last - span.first).days + 1
    days = [span.first + timedelta(days=number) for number in range(count)]
    return {day.isoformat(): DateSpan(day, day, span.zone) for day in days}


def _split_by_month(span: DateSpan) -> dict[str, DateSpan]:
    months = replace(span, zone=UTC).months  # those of the calendar, in which the days are
    return {month: span & parse_days(month, span.zone) for month in months}


def _is_complete(postings_by_month: PostingsByMonth, unit: DateSpan) -> bool:
    """Return whether the postings contain all chunks of a day or a month.

    The postings of a month with very many chunks are truncated to the newest.
    """
    return all(
        postings.is_complete or postings.since <= unit.microseconds.start
        for month in unit.months
        if (postings := postings_by_month.get(month))
    )


def _count_by_stored_days(
    units: Sequence[DateSpan], postings_by_month: PostingsByMonth
) -> list[int]:
    """Count the indexed chunks of days or months of UTC, also where postings are truncated."""
    counts = []
    for unit in units:
        postings = postings_by_month.get(unit.months[0])
        days = postings.days if postings else {}
        first, last = unit.first.isoformat(), unit.last.isoformat()
        counts.append(sum(count for day, count in days.items() if first <= day <= last))
    return counts


def _count_by_dates(units: Sequence[DateSpan], postings_by_month: PostingsByMonth) -> list[int]:
    """Count the chunks of consecutive days or months of any time zone."""
    starts = [unit.microseconds.start for unit in units]
    stop = units[-1].microseconds.stop
    counts = [0] * len(units)
    for postings in postings_by_month.values():
        for timestamp in postings.entries.values():
            if starts[0] <= timestamp < stop:
                counts[bisect_right(starts, timestamp) - 1] += 1
    return counts


def _count_by_source(postings_by_month: PostingsByMonth, span: DateSpan) -> Counter[str]:
    """Count the chunks of each source in a span, from postings that may be truncated."""
    timestamps = span.microseconds
    return Counter(
        parse_source_id(chunk_id)
        for postings in postings_by_month.values()
        for chunk_id, timestamp in postings.entries.items()
        if timestamp in timestamps and (postings.is_complete or timestamp >= postings.since)
    )
