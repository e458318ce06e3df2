"""Documents that pass a filter, newest first, and the pages of a ranking.

The cursor into a ranking holds fingerprints of the hits on earlier pages. The next page is the
ranking at that time without these hits, so no hit is repeated or lost when documents change between
two pages.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

from pydantic import StringConstraints, TypeAdapter

from shared.index.searchable import DocumentT
from shared.index.vector_index import date_cursor
from shared.search.filter_plan import plan_filters, smallest_prefilter, unknown_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.index.vector_index import DateCursor
    from shared.search.corpus import DatedCorpus, DocumentReader
    from shared.search.filter_plan import FacetFilter, Selection

_DIGITS: Final = 8
"""Hexadecimal digits of a fingerprint: among 200 ids, two collide once in 200,000 times."""
FINGERPRINTS: Final = TypeAdapter(
    list[Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")]]
)
"""The shape of a cursor into a ranking: the fingerprints of all hits on earlier pages."""
MAX_EXAMINED: Final = 300
"""Documents that are read at most to fill a page where the postings cannot tell which pass."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def hit_fingerprint(document_id: str) -> str:
    """Return the fingerprint of a hit for a cursor."""
    return hashlib.sha256(document_id.encode()).hexdigest()[:_DIGITS]


async def fetch_passing(
    ids: Sequence[str],
    limit: int,
    selection: Selection,
    documents: DocumentReader[DocumentT],
    already_read: Mapping[str, DocumentT] = _NOTHING,
) -> tuple[list[DocumentT], int]:
    """Fetch the first documents that pass the filters.

    One round trip, and more where documents are gone. Many are after a source was deleted, so the
    number of documents read doubles from one round trip to the next.

    Args:
        ids: The documents' ids, in order.
        limit: How many documents to return.
        selection: The filters.
        documents: The reader of the documents.
        already_read: Documents that were read before and pass, by id.

    Returns:
        The documents, and how many of the ids were examined.
    """
    passing: list[DocumentT] = []
    examined = trips = 0
    while len(passing) < limit and examined < len(ids):
        width = (limit - len(passing)) << max(trips - 1, 0)
        block = ids[examined : examined + width]
        read = await documents.get_all([name for name in block if name not in already_read])
        by_id = {document.id: document for document in read if selection.admits(document)}
        by_id |= already_read
        hits = [(count, name) for count, name in enumerate(block, 1) if name in by_id]
        hits = hits[: limit - len(passing)]
        passing += [by_id[name] for _, name in hits]
        examined += hits[-1][0] if len(passing) == limit else len(block)
        trips += 1
    return passing, examined


@dataclass(frozen=True, slots=True)
class Listing(Generic[DocumentT]):
    """A page of documents.

    Attributes:
        documents: The documents, the newest first.
        cursors: The cursor of each document.
        next: Where the next page begins; None on the last page.
        unknown: Each filter value that no document has, with its filter.
    """

    documents: list[DocumentT]
    cursors: list[DateCursor] = field(default_factory=list)
    next: DateCursor | None = None
    unknown: tuple[tuple[FacetFilter, str], ...] = ()


async def list_newest(
    selection: Selection, limit: int, after: DateCursor | None, corpus: DatedCorpus[DocumentT]
) -> Listing[DocumentT]:
    """List the documents that pass.

    Costs two round trips, or one if the only filter is a span.
    """
    if selection.span.empty:
        return Listing([])
    if not selection.filters:
        return await _scan(selection, (), limit, after, corpus)
    postings = await corpus.index.read([], selection.facets)
    plan = plan_filters(selection, postings.facets)
    if plan.exact and plan.dates is not None:
        page = await _page_of(plan.dates, selection, limit, after, corpus)
    else:
        filters = [filter_.facets for filter_ in selection.filters]
        facets = smallest_prefilter(filters, postings.facets).facets
        page = await _scan(selection, facets, limit, after, corpus)
    return replace(page, unknown=tuple(unknown_values(selection, postings)))


async def _page_of(
    dates: dict[str, int],
    selection: Selection,
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """Read only the page itself. The postings contain every document that passes."""
    cursors = sorted(((date, name) for name, date in dates.items()), reverse=True)
    rest = [cursor for cursor in cursors if after is None or cursor < after]
    ids = [name for _, name in rest]
    documents, examined = await fetch_passing(ids, limit, selection, corpus.documents)
    return Listing(
        documents,
        [(dates[document.id], document.id) for document in documents],
        rest[examined - 1] if examined < len(rest) else None,
    )


async def _scan(
    selection: Selection,
    facets: tuple[str, ...],
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """List by date on the server, and drop documents that do not pass. A page may be short."""
    count = limit + 1 if len(selection.filters) <= 1 else MAX_EXAMINED
    examined = await corpus.documents.newest(count, facets, selection.span, after)
    may_be_more = len(examined) == count < MAX_EXAMINED
    if may_be_more and not facets and not any(map(selection.admits, examined)):
        # The server cannot apply the filter, and the newest documents do not pass.
        count = MAX_EXAMINED
        examined = await corpus.documents.newest(count, facets, selection.span, after)
    documents = [document for document in examined if selection.admits(document)]
    cursors = [date_cursor(document) for document in documents[:limit]]
    if len(documents) > limit:
        return Listing(documents[:limit], cursors, cursors[-1])
    next_cursor = date_cursor(examined[-1]) if len(examined) == count else None
    return Listing(documents, cursors, next_cursor)
