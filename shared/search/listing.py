"""Lists documents that pass filters, newest first, and pages through rankings.

A cursor into a ranking contains the number of hits on earlier pages, and the fingerprint of the
last of them. For the next page, the search runs again and continues after that hit, wherever it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

from pydantic import StringConstraints, TypeAdapter

from shared.index.searchable import DocumentT
from shared.index.vector_index import make_date_cursor
from shared.runtime.pagination import CursorCount
from shared.search.filter_plan import choose_prefilter, find_unknown_values, plan_filters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.index.vector_index import DateCursor
    from shared.search.corpus import DatedCorpus, DocumentReader
    from shared.search.filter_plan import FacetFilter, Selection

_DIGITS: Final = 8
"""The length of a fingerprint in hexadecimal digits."""
RankPosition = tuple[
    CursorCount, Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")]
]
"""The position in a ranking's cursor: the number of hits on earlier pages, and a short hash of the
id of the last of them."""
RANK_POSITION: Final = TypeAdapter(RankPosition)
MAX_EXAMINED: Final = 300
"""The maximum number of documents read for a page if the postings do not show which pass."""
_NO_DOCUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})


def make_rank_position(ids: Sequence[str], count: int) -> RankPosition:
    """Return the position after the first `count` hits of a ranking."""
    return count, _fingerprint(ids[count - 1])


def find_start(ids: Sequence[str], position: RankPosition | None) -> int:
    """Return the index of the first hit after a position.

    If the last hit before it is gone, that is the number of hits on earlier pages.
    """
    if position is None:
        return 0
    count, fingerprint = position
    indexes = (index for index, name in enumerate(ids) if _fingerprint(name) == fingerprint)
    return next(indexes, count - 1) + 1


def _fingerprint(document_id: str) -> str:
    return hashlib.sha256(document_id.encode()).hexdigest()[:_DIGITS]


async def fetch_passing(
    ids: Sequence[str],
    limit: int,
    selection: Selection,
    documents: DocumentReader[DocumentT],
    already_read: Mapping[str, DocumentT] = _NO_DOCUMENTS,
) -> tuple[list[DocumentT], int]:
    """Fetch the first documents that pass the filters.

    Costs one round trip, and more if some documents no longer exist. After a source is deleted,
    many are missing at once, so each further round trip reads twice as many documents.

    Args:
        ids: The documents' ids, in order.
        already_read: Passing documents that need not be read again, by id.

    Returns:
        The documents, and how many of the ids were examined.
    """
    passing_documents: list[DocumentT] = []
    examined_count = trips = 0
    while len(passing_documents) < limit and examined_count < len(ids):
        block_size = (limit - len(passing_documents)) << max(trips - 1, 0)
        block = ids[examined_count : examined_count + block_size]
        documents_read = await documents.get_all(
            [document_id for document_id in block if document_id not in already_read]
        )
        passing_by_id = {
            document.id: document for document in documents_read if selection.admits(document)
        }
        passing_by_id |= already_read
        hits = [
            (count, document_id)
            for count, document_id in enumerate(block, 1)
            if document_id in passing_by_id
        ]
        hits = hits[: limit - len(passing_documents)]
        passing_documents += [passing_by_id[document_id] for _, document_id in hits]
        if len(passing_documents) < limit:
            examined_count += len(block)
        else:  # The ids after the last hit of a full page are left for the next page.
            count_to_last_hit, _ = hits[-1]
            examined_count += count_to_last_hit
        trips += 1
    return passing_documents, examined_count


@dataclass(frozen=True, slots=True)
class Listing(Generic[DocumentT]):
    """A page of documents.

    Attributes:
        documents: The documents, newest first.
        next: The cursor of the next page; None on the last page.
        unknown: The filter values that no document has, each with its filter.
        total: The number of documents on all pages, or None if postings do not show it.
    """

    documents: list[DocumentT]
    cursors: list[DateCursor] = field(default_factory=list)
    next: DateCursor | None = None
    unknown: tuple[tuple[FacetFilter, str], ...] = ()
    total: int | None = None


async def list_newest(
    selection: Selection, limit: int, after: DateCursor | None, corpus: DatedCorpus[DocumentT]
) -> Listing[DocumentT]:
    """List the documents that pass the selection, newest first.

    Costs two round trips, or one if the selection is only a span.
    """
    if selection.span.is_empty:
        return Listing([])
    if not selection.filters and selection.only is None:
        return await _scan(selection, (), limit, after, corpus)
    postings = await corpus.index.read([], selection.facets)
    plan = plan_filters(selection, postings.facets)
    if plan.is_exact and plan.dates is not None:
        page = await _read_page(plan.dates, selection, limit, after, corpus)
    else:
        facets = choose_prefilter(selection.required, postings.facets).facets
        page = await _scan(selection, facets, limit, after, corpus)
        if plan.is_exact:  # The filters only exclude.
            page = replace(page, total=postings.totals.documents - len(plan.excluded_ids))
    return replace(page, unknown=tuple(find_unknown_values(selection, postings)))


async def _read_page(
    dates: dict[str, int],
    selection: Selection,
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """Read a page of the documents that the postings list, without reading any other documents."""
    cursors = sorted(((date, document_id) for document_id, date in dates.items()), reverse=True)
    remaining_cursors = [cursor for cursor in cursors if after is None or cursor < after]
    ids = [document_id for _, document_id in remaining_cursors]
    documents, examined_count = await fetch_passing(ids, limit, selection, corpus.documents)
    return Listing(
        documents,
        [(dates[document.id], document.id) for document in documents],
        remaining_cursors[examined_count - 1] if examined_count < len(remaining_cursors) else None,
        total=len(dates),
    )


async def _scan(
    selection: Selection,
    facets: tuple[str, ...],
    limit: int,
    after: DateCursor | None,
    corpus: DatedCorpus[DocumentT],
) -> Listing[DocumentT]:
    """Read documents by date, and drop those that do not pass. The page may be short."""
    # The server applies only one filter. Most documents that it returns may fail the others.
    count = limit + 1 if len(selection.filters) <= 1 else MAX_EXAMINED
    examined = await corpus.documents.load_newest(count, facets, selection.span, after)
    may_be_more = len(examined) == count < MAX_EXAMINED
    if may_be_more and not facets and not any(map(selection.admits, examined)):
        # The server cannot apply the filter, and none of the newest documents pass: look further.
        count = MAX_EXAMINED
        examined = await corpus.documents.load_newest(count, facets, selection.span, after)
    documents = [document for document in examined if selection.admits(document)]
    cursors = [make_date_cursor(document) for document in documents[:limit]]
    if len(documents) > limit:
        return Listing(documents[:limit], cursors, cursors[-1])
    next_cursor = make_date_cursor(examined[-1]) if len(examined) == count else None
    return Listing(documents, cursors, next_cursor)
