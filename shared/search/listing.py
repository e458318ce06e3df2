"""Documents that pass a filter, newest first, page by page.

What a cursor into a ranking remembers: marks of the hits that were shown.

The next page is taken from the ranking as it is by then, without these: whatever comes or goes in
between, nothing is shown twice and nothing is lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

from pydantic import StringConstraints, TypeAdapter

from shared.index.searchable import DocumentT
from shared.index.vector_index import date_cursor
from shared.search.filter_plan import plan_filters, prefilter, unknown_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.index.vector_index import DateCursor
    from shared.search.corpus import DatedCorpus, DocumentReader
    from shared.search.filter_plan import FacetFilter, Selection

_DIGITS: Final = 8
"""Hexadecimal digits of a mark: among 200 ids, two share one once in 200,000 times."""
FINGERPRINTS: Final = TypeAdapter(
    list[Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")]]
)
"""The marks of all that was shown."""


def hit_fingerprint(name: str) -> str:
    """What a cursor remembers of a hit."""
    return hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


async def fetch_passing(
    names: Sequence[str],
    limit: int,
    selection: Selection,
    documents: DocumentReader[DocumentT],
    known: Mapping[str, DocumentT] = _NOTHING,
) -> tuple[list[DocumentT], int]:
    """The first documents that pass: one round trip, and a few more where some are gone since.

    Of a source that was just deleted many are: what is read then doubles from trip to trip.

    Args:
        names: Their ids, in order.
        limit: How many are wanted.
        selection: What they must pass.
        documents: To read them from.
        known: Those that were read before and pass.

    Returns:
        The documents, and how many of the names had to be looked at.
    """
    found: list[DocumentT] = []
    looked = trips = 0
    while len(found) < limit and looked < len(names):
        width = (limit - len(found)) << max(trips - 1, 0)
        block = names[looked : looked + width]
        read = await documents.get_all([name for name in block if name not in known])
        present = {each.id: each for each in read if selection.admits(each)}
        present |= known
        passed = [(place, name) for place, name in enumerate(block, 1) if name in present]
        taken = passed[: limit - len(found)]
        found += [present[name] for _, name in taken]
        looked += taken[-1][0] if len(found) == limit else len(block)
        trips += 1
    return found, looked


MAX_EXAMINED: Final = 300
"""Documents that are read at most to fill a page, where the lists cannot tell which pass."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[DocumentT]):
    """A page of documents.

    Attributes:
        documents: The newest first.
        places: Where each of them stands.
        next: Where the next page begins; None if this was the last.
        unknown: The filters of which no document bears a value, each with that value.
    """

    documents: list[DocumentT]
    places: list[DateCursor] = field(default_factory=list)
    next: DateCursor | None = None
    unknown: tuple[tuple[FacetFilter, str], ...] = ()


async def list_newest(
    selection: Selection, limit: int, after: DateCursor | None, corpus: DatedCorpus[DocumentT]
) -> Listing[DocumentT]:
    """List what passes: two round trips, or one where only a stretch of time was asked for."""
    if selection.span.empty:
        return Listing([])
    if not selection.groups:
        return await _walk(selection, (), limit, after, corpus)
    lists = await corpus.lists.read([], selection.facets)
    planned = plan_filters(selection, lists.facets)
    if planned.exact and planned.dates is not None:
        page = await _page(selection, planned.dates, limit, after, corpus)
    else:
        facets = prefilter([group.facets for group in selection.groups], lists.facets).facets
        page = await _walk(selection, facets, limit, after, corpus)
    return replace(page, unknown=tuple(unknown_values(selection, lists)))


async def _page(
    selection: Selection,
    dates: dict[str, int],
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """The lists know all that passes: only the page itself is read."""
    every = sorted(((date, name) for name, date in dates.items()), reverse=True)
    rest = [each for each in every if after is None or each < after]
    names = [name for _, name in rest]
    documents, looked = await fetch_passing(names, limit, selection, corpus.documents)
    places = [(dates[each.id], each.id) for each in documents]
    return Listing(documents, places, rest[looked - 1] if looked < len(rest) else None)


async def _walk(
    selection: Selection,
    facets: tuple[str, ...],
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """Let the server list by date, and keep what passes. A page may be short, but it goes on."""
    wanted = limit + 1 if len(selection.groups) <= 1 else MAX_EXAMINED
    found = await corpus.documents.newest(wanted, facets, selection.span, after)
    documents = [each for each in found if selection.admits(each)]
    places = [date_cursor(each) for each in documents[:limit]]
    if len(documents) > limit:
        return Listing(documents[:limit], places, places[-1])
    return Listing(documents, places, date_cursor(found[-1]) if len(found) == wanted else None)
