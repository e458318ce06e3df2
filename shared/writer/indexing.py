"""Loads the chunks that wait for the index job, and indexes them.

A commit stores the indexed state of some chunks (the field `indexed`, which says what the postings
contain of a chunk) and the changes to the postings, on the condition that no chunk was edited since
it was read. The postings and the indexed states therefore always agree, a repeated run finds
nothing to do, and other writers may change the same postings at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.groups import ExtractionGroups
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Delete, Set, Update, Write
from shared.index.indexed_state import NOT_INDEXED, read_indexed_state
from shared.index.on_request import find_level_by_ids, is_on_request
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import KNOWLEDGE, LAYOUT
from shared.knowledge import chunk_repository
from shared.knowledge.map_repository import Maps
from shared.knowledge.queue import due_query
from shared.text.terms import ANALYZER_VERSION
from shared.writer.chunk_changes import build_indexed_fields
from shared.writer.commits import Change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.index.indexed_state import IndexedState
    from shared.knowledge.chunk import Chunk

STEP: Final = "index"
"""The step that is pending on a chunk until it is indexed, or removed from the index."""
INDEX_VERSION: Final = {"analysis": ANALYZER_VERSION, "layout": LAYOUT}
"""The versions of text analysis and of the index's layout. If the index was built with other
versions, all chunks are indexed again."""
REQUEUE_BATCH_SIZE: Final = 400
"""The number of chunks that are queued again in one commit."""
_FIELDS: Final = (
    *("indexed", "extracted", "deleted_at", "replaced_by", "tries"),
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
        extracted: The groups of its extractions, by extraction id.
        replaced_by: The id of the chunk that has another text of its highlight, if it was deleted.
    """

    chunk_id: str
    chunk: Chunk | None
    indexed: IndexedState
    tries: int
    update_time: Any
    fault: str = ""
    extracted: Mapping[str, str] = field(default_factory=dict)
    replaced_by: str | None = None

    @property
    def loses_derived(self) -> bool:
        """Whether its extractions and its point on the map go: deleted, or newly on request."""
        if self.chunk is None:
            return True
        was_on_request = not self.indexed.facets or find_level_by_ids(self.indexed.facets)
        return not was_on_request and is_on_request(self.chunk.category, self.chunk.tags)


@dataclass(frozen=True, slots=True)
class IndexChange(Change):
    """The change of a chunk that waited to be indexed, with its postings."""

    pending: ChunkToIndex = field(kw_only=True)


def plan_indexing(chunk: ChunkToIndex, state: IndexedState) -> IndexChange:
    """Plan how a chunk gets another state in the index.

    Args:
        state: Its terms and facets from now on, or `NOT_INDEXED` for a deleted chunk. That also
            loses its document.
    """
    reference = Reference(chunk_repository.COLLECTION, chunk.chunk_id)
    fields = build_indexed_fields(state)
    write: Write
    if chunk.chunk is None:
        write = Delete(reference, chunk.update_time)
    else:
        update = fields | chunk_repository.build_step_done(STEP)
        if chunk.loses_derived:
            update |= {"extracted": DELETE_FIELD}
        write = Update(reference, update, chunk.update_time)
    difference = IndexDifference(chunk.chunk_id, chunk.indexed, state)
    return IndexChange("indexed", write, 1 + len(fields["facets"]), difference, pending=chunk)


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

        The commit also deletes the documents of deleted chunks, and the extractions and points on
        the map of these and of chunks newly on request. Extractions cost up to three round trips,
        and points one.

        Raises:
            WriteConflict: A chunk was edited since it was read. Nothing was written.
        """
        leaving = [change.pending for change in changes if change.pending.loses_derived]
        extraction_ids = [name for chunk in leaving for name in chunk.extracted]
        writes = [
            *(change.write for change in changes),
            *build_postings_writes(
                KNOWLEDGE, [change.difference for change in changes if change.difference]
            ),
            *await ExtractionGroups(self._database).build_deletion_writes(extraction_ids),
            *await Maps(self._database).build_removal_writes([chunk.chunk_id for chunk in leaving]),
        ]
        await self._database.commit(writes)

    async def load_version(self) -> dict[str, int]:
        """Load the INDEX_VERSION with which the index was built. It is empty without an index."""
        snapshot = await self._database.get(Reference(*KNOWLEDGE.totals), [*INDEX_VERSION])
        return snapshot.fields

    async def save_version(self, version: Mapping[str, int]) -> None:
        """Store the INDEX_VERSION with which the index is built from now on."""
        reference, data = Reference(*KNOWLEDGE.totals), dict(version)
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
            replaced_by=data.get("replaced_by"),
        )
    except (KeyError, TypeError) as error:
        fault = f"the document is malformed: {error!r}"
        return ChunkToIndex(snapshot.id, None, NOT_INDEXED, tries, snapshot.update_time, fault)
