"""How much came in, when, and of what: counted from lists that the index keeps."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from shared.core.dates import DateSpan
from shared.index.facets import Facet, Kind
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.chunk import source_id_of
from shared.knowledge.chunk_repository import ChunkLists
from shared.knowledge.source_repository import Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.index.bm25 import Postings
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

    Months = Mapping[str, Postings]
    """By month, as YYYY-MM, the dates of its chunks; a month without chunks has no list."""

MOST_SOURCES: Final = 100
"""How many sources are read to learn their authors."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What came in during a span of days.

    Attributes:
        total: How many chunks came in.
        timeline: How many chunks each day had, or each month, that had any, as far as they are
            indexed.
        sources: The sources with the most chunks, most first, and how many.
        authors: The same for authors.
        partial: Whether the others do not add up to the total: what came in or went since the last
            indexing is not counted; of a month with more chunks than its list takes, sources and
            authors count the newest; and authors are those of the 100 busiest sources.
    """

    total: int
    timeline: Mapping[str, int]
    sources: list[tuple[StoredSource, int]]
    authors: list[tuple[str, int]]
    partial: bool


async def activity(span: DateSpan, ctx: Context, *, by_month: bool) -> Activity:
    """Count what came in: two round trips, at most 14 lists, one count and 100 sources.

    A day or month that its list does not cover, since the list was cut, is counted by the database.
    """
    facets = [Facet(Kind.MONTH, month) for month in span.months]
    lists, total = await asyncio.gather(
        InvertedIndex(ctx.database, KNOWLEDGE).read([], facets),
        ChunkLists(ctx.database).count(span),
    )
    months = {facet.key: postings for facet, postings in lists.facets.items()}
    units = _months_of(span) if by_month else _days_of(span)
    per_source = _per_source(months, span)
    busiest = dict(_most_first(per_source)[:MOST_SOURCES])
    counts, sources = await asyncio.gather(
        asyncio.gather(*(_count(unit, months, ctx) for unit in units.values())),
        Sources(ctx.database).get_all(list(busiest)),
    )
    authors = Counter[str]()
    for source in sources:
        if source.author:
            authors[source.author] += busiest[source.source_id]
    return Activity(
        total=total,
        timeline={name: count for name, count in zip(units, counts, strict=True) if count},
        sources=[(source, busiest[source.source_id]) for source in sources],
        authors=_most_first(authors),
        partial=sum(counts) != total
        or len(per_source) > MOST_SOURCES
        or not all(_covers(months, unit) for unit in units.values()),
    )


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _days_of(span: DateSpan) -> dict[str, DateSpan]:
    count = (span.last - span.first).days + 1
    days = [span.first + timedelta(days=n) for n in range(count)]
    return {day.isoformat(): DateSpan(day, day) for day in days}


def _months_of(span: DateSpan) -> dict[str, DateSpan]:
    return {month: span & _month(month) for month in span.months}


def _month(name: str) -> DateSpan:
    first = date.fromisoformat(f"{name}-01")
    following = (first + timedelta(days=31)).replace(day=1)
    return DateSpan(first, following - timedelta(days=1))


def _covers(months: Months, unit: DateSpan) -> bool:
    """Whether the list of the month that a day, or a month, lies in misses none of its chunks."""
    postings = months.get(unit.months[0])
    return postings is None or postings.complete or postings.since <= unit.microseconds.start


async def _count(unit: DateSpan, months: Months, ctx: Context) -> int:
    if not _covers(months, unit):
        return await ChunkLists(ctx.database).count(unit)
    postings = months.get(unit.months[0])
    wanted = unit.microseconds
    return sum(entry in wanted for entry in postings.entries.values()) if postings else 0


def _per_source(months: Months, span: DateSpan) -> Counter[str]:
    """How many chunks each source has in a span, as far as the lists go."""
    wanted = span.microseconds
    return Counter(
        source_id_of(chunk_id)
        for postings in months.values()
        for chunk_id, entry in postings.entries.items()
        if entry in wanted and (postings.complete or entry >= postings.since)
    )
