"""`chunks/{chunk_id}`: passages listed by their place in a source or by their date, and counted.

A deleted chunk that waits for the index to forget it has no date, no source and no facets: it is
neither listed nor counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter

from shared.clock import from_microseconds, microseconds
from shared.domain.facet import HAS_CARD, Facet
from shared.periods import ALWAYS
from shared.store import chunk_documents as documents
from shared.store.chunk_documents import COLLECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.domain.chunk import Chunk
    from shared.periods import Span
    from shared.store.database import Database

    Place = tuple[int, str]
    """Where a chunk stands among all by date: microseconds since 1970, and its id."""

_DOWN: Final = BaseQuery.DESCENDING


class ChunkLists:
    """Lists chunks, and counts them."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def of_source(self, source_id: str, limit: int, first: int = 1) -> list[Chunk]:
        """The chunks of a source in their order, from the position `first`. One round trip."""
        query = of_source_query(self._database.client, source_id, limit, first)
        return await self._chunks(query)

    async def positions(self, chunk_ids: Sequence[str]) -> dict[str, int]:
        """Where those chunks that exist stand in their sources. One round trip."""
        references = [self._database.document(COLLECTION, name) for name in chunk_ids]
        snapshots = await self._database.get_all(references, ["position"])
        data = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return {name: fields["position"] for name, fields in data.items() if fields}

    async def newest(
        self,
        limit: int,
        facets: Sequence[str] = (),
        span: Span = ALWAYS,
        after: Place | None = None,
    ) -> list[Chunk]:
        """Chunks, those of the latest date first. One round trip.

        Args:
            limit: How many.
            facets: The ids of at most 30 facets, one of which they bear, as far as they are
                indexed; none: any chunk.
            span: The days of their dates.
            after: Where the last chunk that was seen stands.
        """
        query = newest_query(self._database.client, limit, facets, span, after)
        return await self._chunks(query)

    async def count(self, span: Span = ALWAYS) -> int:
        """How many chunks have their date in these days. One round trip."""
        return await self._database.count(dated_query(self._database.client, span))

    async def count_bearing(self, facet: Facet) -> int:
        """How many chunks bear a facet, as far as they are indexed. One round trip."""
        return await self._database.count(bearing_query(self._database.client, facet))

    async def _chunks(self, query: AsyncQuery) -> list[Chunk]:
        snapshots = await self._database.find(query.select(documents.READ_FIELDS))
        return [documents.to_chunk(each.id, each.to_dict() or {}) for each in snapshots]


def place(chunk: Chunk) -> Place:
    """Where a chunk that was listed by date stands."""
    return microseconds(chunk.dated_at) if chunk.dated_at else 0, chunk.chunk_id


def of_source_query(client: AsyncClient, source_id: str, limit: int, first: int) -> AsyncQuery:
    """The chunks of a source from a position on."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter("source_id", "==", source_id))
        .where(filter=FieldFilter("position", ">=", first))
        .order_by("position")
        .limit(limit)
    )


def newest_query(
    client: AsyncClient, limit: int, facets: Sequence[str], span: Span, after: Place | None
) -> AsyncQuery:
    """Chunks by date, downwards."""
    query = dated_query(client, span).order_by("dated_at", direction=_DOWN)
    query = query.order_by("__name__", direction=_DOWN)
    if facets:
        query = query.where(filter=FieldFilter("facets", "array_contains_any", list(facets)))
    if after:
        moment, name = from_microseconds(after[0]), client.collection(COLLECTION).document(after[1])
        query = query.start_after({"dated_at": moment, "__name__": name})
    return query.limit(limit)


def dated_query(client: AsyncClient, span: Span) -> AsyncQuery:
    """The chunks whose date lies in these days."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter("dated_at", ">=", span.start))
        .where(filter=FieldFilter("dated_at", "<=", span.end))
    )


def bearing_query(client: AsyncClient, facet: Facet) -> AsyncQuery:
    """The chunks that bear a facet."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("facets", "array_contains", facet.id)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield of_source_query(client, "a", 1, 1)
    for facets in ([], [HAS_CARD.id, "tag:a"]):
        yield newest_query(client, 1, facets, ALWAYS, None)
        yield newest_query(client, 1, facets, ALWAYS, (0, "a"))
    yield dated_query(client, ALWAYS)
    yield bearing_query(client, HAS_CARD)
