"""Loads the chunks that wait for the index job, and indexes them.

A commit stores the indexed state of some chunks (the field `indexed`, which says what the postings
contain of a chunk) and the changes to the postings, on the condition that no chunk was edited since
it was read. The postings and the indexed states therefore always agree, a repeated run finds
nothing to do, and other writers may change the same postings at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.extracted_chunks import build_removal_writes
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Delete, Set, Update, Write
from shared.index.facets import select_vector_index_facets
from shared.index.indexed_state import NOT_INDEXED, read_indexed_state
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import KNOWLEDGE, LAYOUT
from shared.knowledge import chunk_repository
from shared.knowledge.map_repository import Maps
from shared.knowledge.queue import due_query
from shared.text.terms import ANALYZER_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import PostingsRef
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.queue import ExtractionSummaries

STEP: Final = "index"
"""The step that is pending on a chunk until it is indexed, or removed from the index."""
INDEX_VERSION: Final = {"analysis": ANALYZER_VERSION, "layout": LAYOUT}
"""The versions of text analysis and of the index's layout. If the index was built with other
versions, all chunks are indexed again."""
REQUEUE_BATCH_SIZE: Final = 400
"""The number of chunks that are queued again in one commit."""
_FIELDS: Final = (
    *("indexed", "extracted", "deleted_at", "tries"),
    *chunk_repository.READ_FIELDS,
)


@dataclass(frozen=True, slots=True)
class ChunkToIndex:
    """A chunk that waits to be indexed, at the time of a read.

    Attributes:
        chunk: The chunk. None if it was deleted and must be removed from the index.
        indexed: What the postings contain of it.
        update_time: The time of its last write before the read.
        fault: What is wrong with its document, if the document is malformed.
        extracted: What it stores of its extractions, which are deleted together with the chunk.
    """

    chunk_id: str
    chunk: Chunk | None
    indexed: IndexedState
    tries: int
    update_time: Any
    fault: str = ""
    extracted: ExtractionSummaries = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The new indexed state of a chunk.

    Attributes:
        state: The new terms and facets, or `NOT_INDEXED` for a deleted chunk.
    """

    pending: ChunkToIndex
    state: IndexedState

    @property
    def difference(self) -> IndexDifference:
        """The difference between the previous and the new state."""
        return IndexDifference(self.pending.chunk_id, self.pending.indexed, self.state)


class Indexing:
    """Loads chunks that wait to be indexed, and writes their postings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_pending(self, now: datetime, limit: int) -> list[ChunkToIndex]:
        """Load chunks that wait to be indexed, including deleted ones, the longest waiting first.

        Costs one round trip.
        """
        query = due_query(STEP, now, limit).select(_FIELDS)
        snapshots = await self._database.find(query)
        return list(map(_to_pending, snapshots))

    async def apply(self, changes: Sequence[IndexChange]) -> None:
        """Store the indexed states of chunks and the changes to the postings, in one commit.

        The commit also deletes the documents of deleted chunks, their extractions, and their points
        on the map. The points cost a round trip.

        Raises:
            WriteConflict: A chunk was edited since it was read. Nothing was written.
        """
        writes = [self._build_state_write(change) for change in changes]
        differences = [change.difference for change in changes]
        writes += build_postings_writes(KNOWLEDGE, differences)
        deleted = [change.pending for change in changes if change.pending.chunk is None]
        for chunk in deleted:
            writes += build_removal_writes(chunk.extracted)
        writes += await Maps(self._database).build_removal_writes(
            [chunk.chunk_id for chunk in deleted]
        )
        await self._database.commit(writes)

    async def load_version(self) -> dict[str, int]:
        """Load the INDEX_VERSION with which the index was built. It is empty without an index."""
        snapshot = await self._database.get(self._get_reference(KNOWLEDGE.totals), [*INDEX_VERSION])
        return snapshot.fields

    async def save_version(self, version: Mapping[str, int]) -> None:
        """Store the INDEX_VERSION with which the index is built from now on."""
        reference, data = self._get_reference(KNOWLEDGE.totals), dict(version)
        await self._database.commit([Set(reference, data, merge=True)])

    async def requeue(self, now: datetime) -> int:
        """Queue every chunk to be indexed again. Return the number of chunks.

        Costs a read and a write for each chunk. Indexing it later costs as much again, and a write
        for each of the postings that change. If the run is killed, the next run begins again.
        """
        count = 0
        query = Query(chunk_repository.COLLECTION).order_by("__name__").select([])
        async for page in self._database.iterate(query, REQUEUE_BATCH_SIZE):
            count += await self._database.commit_skipping_conflicts(
                [Update(chunk.reference, {f"pending.{STEP}": now}) for chunk in page]
            )
        return count

    def _build_state_write(self, change: IndexChange) -> Write:
        reference = Reference(chunk_repository.COLLECTION, change.pending.chunk_id)
        if change.pending.chunk is None:
            return Delete(reference, change.pending.update_time)
        data = _build_state_update(change)
        return Update(reference, data, change.pending.update_time)

    def _get_reference(self, ref: PostingsRef) -> Reference:
        return Reference(*ref)


def _build_state_update(change: IndexChange) -> dict[str, Any]:
    return {
        "indexed": change.state.to_document(),
        "facets": select_vector_index_facets(change.state.facets),
        **chunk_repository.build_step_done(STEP),
    }


def _to_pending(snapshot: Document) -> ChunkToIndex:
    data = snapshot.fields
    tries = (data.get("tries") or {}).get(STEP, 0)
    try:
        chunk = None if "deleted_at" in data else chunk_repository.to_chunk(snapshot.id, data)
        extracted = data.get("extracted") or {}
        return ChunkToIndex(
            snapshot.id,
            chunk,
            read_indexed_state(data),
            tries,
            snapshot.update_time,
            extracted=extracted,
        )
    except (KeyError, TypeError) as error:
        fault = f"the document is malformed: {error!r}"
        return ChunkToIndex(snapshot.id, None, NOT_INDEXED, tries, snapshot.update_time, fault)
