"""`chunks/{chunk_id}`: passages listed by their place in a source, and counted.

A deleted chunk that waits for the index to forget it has no date, no source and no facets: it is
neither listed nor counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import ALWAYS
from shared.index.facets import HAS_CARD, Facet
from shared.index.vector_index import dated_query
from shared.store import chunk_documents as documents
from shared.store.chunk_documents import COLLECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.core.dates import Span
    from shared.domain.chunk import Chunk
    from shared.firestore.database import Database


class ChunkLists:
    """Lists chunks, and counts them."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def of_source(self, source_id: str, limit: int, first: int = 1) -> list[Chunk]:
        """The chunks of a source in their order, from the position `first`. One round trip."""
        query = of_source_query(self._database.client, source_id, limit, first)
        snapshots = await self._database.find(query.select(documents.READ_FIELDS))
        return [documents.to_chunk(each.id, each.to_dict() or {}) for each in snapshots]

    async def positions(self, chunk_ids: Sequence[str]) -> dict[str, int]:
        """Where those chunks that exist stand in their sources. One round trip."""
        references = [self._database.document(COLLECTION, name) for name in chunk_ids]
        snapshots = await self._database.get_all(references, ["position"])
        data = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return {name: fields["position"] for name, fields in data.items() if fields}

    async def count(self, span: Span = ALWAYS) -> int:
        """How many chunks have their date in these days. One round trip."""
        query = dated_query(self._database.collection(COLLECTION), span)
        return await self._database.count(query)

    async def count_bearing(self, facet: Facet) -> int:
        """How many chunks bear a facet, as far as they are indexed. One round trip."""
        return await self._database.count(bearing_query(self._database.client, facet))


def of_source_query(client: AsyncClient, source_id: str, limit: int, first: int) -> AsyncQuery:
    """The chunks of a source from a position on."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter("source_id", "==", source_id))
        .where(filter=FieldFilter("position", ">=", first))
        .order_by("position")
        .limit(limit)
    )


def bearing_query(client: AsyncClient, facet: Facet) -> AsyncQuery:
    """The chunks that bear a facet."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("facets", "array_contains", facet.id)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield of_source_query(client, "a", 1, 1)
    yield dated_query(client.collection(COLLECTION), ALWAYS)
    yield bearing_query(client, HAS_CARD)
