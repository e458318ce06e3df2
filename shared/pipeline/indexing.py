"""Pending chunks of the index job, and the writes that index them.

There is one writer, under the lease of the job. A commit sets the indexed state of some chunks
(field `indexed`: what the postings have of a chunk) and changes the postings, on the condition that
no chunk was edited since it was read. So a commit happens completely or not at all, and repeating a
run finds nothing left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption

from shared.core.dates import utc_now
from shared.extractions.extracted_chunks import removal_writes
from shared.index.bm25 import CAP
from shared.index.facets import vector_index_entries
from shared.index.indexed_state import NOT_INDEXED, read_indexed_state
from shared.index.posting_changes import (
    SLACK,
    IndexDifference,
    PostingsTruncation,
    postings_changes,
    postings_write,
    totals_writes,
)
from shared.index.postings import KNOWLEDGE, LAYOUT
from shared.index.stored_vector import COMPACT, COMPACT_FIELDS, load_compact
from shared.knowledge import chunk_repository as documents
from shared.knowledge.queue import due_query
from shared.text.terms import ANALYZER_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.types import WriteResult

    from shared.firestore.database import Database, Write
    from shared.index.indexed_state import IndexedState
    from shared.index.posting_changes import PostingsChange
    from shared.index.postings import PostingsRef
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.queue import ExtractionSummaries

STEP: Final = "index"
INDEX_VERSION: Final = {"analysis": ANALYZER_VERSION, "layout": LAYOUT}
"""The version of text analysis, and of what this job stores. If the index was made with another
version, all chunks are indexed again."""
REQUEUED: Final = 400
"""This many chunks are queued again in one commit."""
_FIELDS: Final = (
    *("indexed", "extracted", "deleted_at", "tries"),
    *COMPACT_FIELDS,
    *documents.READ_FIELDS,
)


@dataclass(frozen=True, slots=True)
class ChunkToIndex:
    """A chunk that waits to be indexed, as it was read.

    Attributes:
        chunk: The chunk; None if it was deleted and is only to be removed from the index.
        indexed: What the postings have of it so far.
        tries: How often indexing it failed.
        fault: What is wrong with its document, if that is malformed.
        extracted: Its extractions, which are deleted with it.
        compact_vector: Its compact vector, if it has a vector but no compact one.
    """

    chunk_id: str
    chunk: Chunk | None
    indexed: IndexedState
    tries: int
    update_time: Any
    fault: str = ""
    extracted: ExtractionSummaries = field(default_factory=dict)
    compact_vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The new indexed state of a chunk.

    Attributes:
        pending: The chunk as it was read.
        state: Its terms and facets now; `NOT_INDEXED` for a deleted chunk.
    """

    pending: ChunkToIndex
    state: IndexedState

    @property
    def difference(self) -> IndexDifference:
        """The difference between the former and the new state."""
        return IndexDifference(self.pending.chunk_id, self.pending.indexed, self.state)


class Indexing:
    """Loads chunks that wait to be indexed, and writes their postings.

    Attributes:
        truncation: Truncates overlong postings.
    """

    def __init__(self, database: Database, cap: int = CAP, slack: int = SLACK) -> None:
        """Use this database, and truncate postings of more than `cap + slack` entries."""
        self.truncation = PostingsTruncation(database, KNOWLEDGE, cap, slack)
        self._database = database

    async def pending(self, now: datetime, limit: int) -> list[ChunkToIndex]:
        """Load chunks that wait to be indexed, deleted ones included."""
        query = due_query(self._database.client, STEP, now, limit).select(_FIELDS)
        snapshots = await self._database.find(query)
        fields = {snapshot.id: _fields(snapshot) for snapshot in snapshots}
        incomplete = {name: data for name, data in fields.items() if COMPACT not in data}
        vectors = await load_compact(incomplete, documents.COLLECTION, self._database)
        return [
            replace(_to_pending(snapshot), compact_vector=vectors.get(snapshot.id))
            for snapshot in snapshots
        ]

    async def apply(self, changes: Sequence[IndexChange]) -> list[PostingsRef]:
        """Change the postings and the indexed states of the chunks, in one commit.

        Returns:
            The postings that are overlong now.

        Raises:
            WriteConflict: A chunk was edited since it was read. Nothing was written.
        """
        differences = [change.difference for change in changes]
        postings = postings_changes(KNOWLEDGE, differences)
        emptied = await self._emptied(postings)
        writes = [self._state_write(change) for change in changes]
        writes += [self._postings_write(ref, postings[ref], emptied) for ref in postings]
        writes += totals_writes(self._database, KNOWLEDGE, differences)
        for change in changes:
            if change.pending.chunk is None:
                writes += removal_writes(self._database, change.pending.extracted)
        results = await self._database.commit(writes)
        lengths = zip(postings, results[len(changes) :], strict=False)
        return [ref for ref, result in lengths if _length(result) >= self.truncation.max_entries]

    async def version(self) -> dict[str, int]:
        """Load the INDEX_VERSION that the index was made with. It is empty if the index is."""
        snapshot = await self._database.get(self._reference(KNOWLEDGE.totals), [*INDEX_VERSION])
        return _fields(snapshot)

    async def stamp(self, version: Mapping[str, int]) -> None:
        """Store the INDEX_VERSION that the index is made with from now on."""
        reference, data = self._reference(KNOWLEDGE.totals), dict(version)
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def requeue(self, now: datetime) -> int:
        """Queue every chunk to be indexed again; return how many there are.

        Compact vectors are removed and made again, since an earlier release that ran in the
        meantime changed vectors without them.
        """
        last, count = "", 0
        while True:
            query = ids_query(self._database.client, last)
            ids = [snapshot.id for snapshot in await self._database.find(query)]
            count += await self._database.commit_skipping_conflicts(
                [self._requeue(chunk_id, now) for chunk_id in ids]
            )
            if len(ids) < REQUEUED:
                return count
            last = ids[-1]

    async def _emptied(self, postings: Mapping[PostingsRef, PostingsChange]) -> set[PostingsRef]:
        """Return the postings that no chunk will be left in, among those that shrink.

        One round trip.
        """
        shrinking = {self._reference(ref).path: ref for ref in postings if postings[ref].df < 0}
        references = [self._database.client.document(path) for path in shrinking]
        snapshots = await self._database.get_all(references, ["df"])
        former = {snapshot.reference.path: _fields(snapshot).get("df", 0) for snapshot in snapshots}
        # Missing postings count as empty: a removal must not create them.
        return {
            ref for path, ref in shrinking.items() if former.get(path, 0) + postings[ref].df <= 0
        }

    def _state_write(self, change: IndexChange) -> Write:
        reference = self._database.document(documents.COLLECTION, change.pending.chunk_id)
        option = LastUpdateOption(change.pending.update_time)
        if change.pending.chunk is None:
            return lambda batch: batch.delete(reference, option)
        data = _state_update(change)
        return lambda batch: batch.update(reference, data, option)

    def _postings_write(
        self, ref: PostingsRef, change: PostingsChange, emptied: set[PostingsRef]
    ) -> Write:
        if ref not in emptied:
            return postings_write(self._database, ref, change)
        reference = self._reference(ref)
        return lambda batch: batch.delete(reference)

    def _requeue(self, chunk_id: str, now: datetime) -> Write:
        reference = self._database.document(documents.COLLECTION, chunk_id)
        change = {f"pending.{STEP}": now, COMPACT: DELETE_FIELD}
        return lambda batch: batch.update(reference, change)

    def _reference(self, ref: PostingsRef) -> AsyncDocumentReference:
        return self._database.document(*ref)


def ids_query(client: AsyncClient, after: str) -> AsyncQuery:
    """Return the ids of chunks after `after`, in order."""
    query = client.collection(documents.COLLECTION).order_by("__name__").select([])
    start = client.collection(documents.COLLECTION).document(after) if after else None
    return (query.start_after({"__name__": start}) if start else query).limit(REQUEUED)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query this file can build, for the proof that each has its index."""
    yield due_query(client, STEP, utc_now(), 1)
    yield ids_query(client, "a")


def _state_update(change: IndexChange) -> dict[str, Any]:
    vector = change.pending.compact_vector
    return {
        "indexed": change.state.document(),
        "facets": vector_index_entries(change.state.facets),
        **({COMPACT: vector} if vector else {}),
        **documents.step_done(STEP),
    }


def _to_pending(snapshot: DocumentSnapshot[Any]) -> ChunkToIndex:
    data = _fields(snapshot)
    tries = (data.get("tries") or {}).get(STEP, 0)
    try:
        chunk = None if "deleted_at" in data else documents.to_chunk(snapshot.id, data)
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


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}


def _length(result: WriteResult) -> int:
    """The number of entries of postings after a write: the last sum that the server returns."""
    sums = result.transform_results
    return sums[-1].integer_value if sums else 0
