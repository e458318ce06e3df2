"""Documents without a question: those that pass the filters, the newest first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic

from shared.index.searchable import DocumentT
from shared.index.vector_index import place
from shared.search.passing import passing
from shared.search.plan import plan, prefilter
from shared.search.selection import unknown

if TYPE_CHECKING:
    from shared.index.vector_index import Place
    from shared.search.corpus import DatedCorpus
    from shared.search.selection import Group, Selection


EXAMINED: Final = 300
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
    places: list[Place] = field(default_factory=list)
    next: Place | None = None
    unknown: tuple[tuple[Group, str], ...] = ()


async def newest(
    selection: Selection, limit: int, after: Place | None, corpus: DatedCorpus[DocumentT]
) -> Listing[DocumentT]:
    """List what passes: two round trips, or one where only a stretch of time was asked for."""
    if selection.span.empty:
        return Listing([])
    if not selection.groups:
        return await _walk(selection, (), limit, after, corpus)
    lists = await corpus.lists.read([], selection.facets)
    planned = plan(selection, lists.facets)
    if planned.exact and planned.dates is not None:
        page = await _page(selection, planned.dates, limit, after, corpus)
    else:
        facets = prefilter([group.facets for group in selection.groups], lists.facets).facets
        page = await _walk(selection, facets, limit, after, corpus)
    return replace(page, unknown=tuple(unknown(selection, lists)))


async def _page(
    selection: Selection,
    dates: dict[str, int],
    limit: int,
    after: Place | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """The lists know all that passes: only the page itself is read."""
    every = sorted(((date, name) for name, date in dates.items()), reverse=True)
    rest = [each for each in every if after is None or each < after]
    names = [name for _, name in rest]
    documents, looked = await passing(names, limit, selection, corpus.documents)
    places = [(dates[each.id], each.id) for each in documents]
    return Listing(documents, places, rest[looked - 1] if looked < len(rest) else None)


async def _walk(
    selection: Selection,
    facets: tuple[str, ...],
    limit: int,
    after: Place | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """Let the server list by date, and keep what passes. A page may be short, but it goes on."""
    wanted = limit + 1 if len(selection.groups) <= 1 else EXAMINED
    found = await corpus.documents.newest(wanted, facets, selection.span, after)
    documents = [each for each in found if selection.admits(each)]
    places = [place(each) for each in documents[:limit]]
    if len(documents) > limit:
        return Listing(documents[:limit], places, places[-1])
    return Listing(documents, places, place(found[-1]) if len(found) == wanted else None)
