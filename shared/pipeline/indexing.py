"""What the index job does: chunks that wait for it, and the lists as they become by them.

There is one writer, under its lease. A commit holds the marks of some chunks (`indexed`: what the
lists know of a chunk) and what these chunks change in the lists, each mark on the condition that
its chunk was not edited since it was read. So all of it happened or nothing did, and a repeat finds
nothing left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption

from shared.core.dates import utc_now
from shared.extractions.extracted_chunks import removal_writes
from shared.index.bm25 import CAP
from shared.index.facets import id_facet
from shared.index.indexed_state import NOT_INDEXED, read_indexed_state
from shared.index.posting_changes import (
    SLACK,
    IndexDifference,
    PostingsTruncation,
    postings_changes,
    postings_write,
    totals_writes,
)
from shared.index.postings import KNOWLEDGE
from shared.knowledge import chunk_repository as documents
from shared.knowledge.queue import due_query

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
REQUEUED: Final = 400
"""Chunks that are put back into the queue in one commit."""
_FIELDS: Final = ("indexed", "extracted", "deleted_at", "tries", *documents.READ_FIELDS)


@dataclass(frozen=True, slots=True)
class ChunkToIndex:
    """A chunk that waits to be indexed, as it was read.

    Attributes:
        chunk: The chunk; None if it was deleted and is only to be taken out.
        indexed: What the lists know of it so far.
        tries: How often it could not be indexed.
        fault: What is wrong with its document, if that cannot be read.
        extracted: The extractions that hang on it, and go with it.
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
    """What the lists are to know of a chunk from now on.

    Attributes:
        waiting: The chunk as it was read.
        wanted: What its terms and facets are now; `NOT_INDEXED` for one that was deleted.
    """

    waiting: ChunkToIndex
    wanted: IndexedState

    @property
    def difference(self) -> IndexDifference:
        """What the lists are to learn."""
        return IndexDifference(self.waiting.chunk_id, self.waiting.indexed, self.wanted)


class Indexing:
    """Hands out chunks that wait to be indexed, and changes the lists.

    Attributes:
        long_lists: Cuts lists that have grown too long.
    """

    def __init__(self, database: Database, cap: int = CAP, slack: int = SLACK) -> None:
        """Keep them in this database, and lists no longer than `cap + slack` for long."""
        self.long_lists = PostingsTruncation(database, KNOWLEDGE, cap, slack)
        self._database = database

    async def pending(self, now: datetime, limit: int) -> list[ChunkToIndex]:
        """Chunks that wait to be indexed, deleted ones too."""
        query = due_query(self._database.client, STEP, now, limit).select(_FIELDS)
        return [_waiting(snapshot) for snapshot in await self._database.find(query)]

    async def apply(self, changes: Sequence[IndexChange]) -> list[PostingsRef]:
        """Change the lists and mark the chunks, at once.

        Returns:
            The lists that have grown too long.

        Raises:
            WriteConflict: A chunk was edited since it was read. Nothing was written.
        """
        differences = [change.difference for change in changes]
        lists = postings_changes(KNOWLEDGE, differences)
        emptied = await self._emptied(lists)
        writes = [self._mark(change) for change in changes]
        writes += [self._list_write(name, lists[name], emptied) for name in lists]
        writes += totals_writes(self._database, KNOWLEDGE, differences)
        for change in changes:
            if change.waiting.chunk is None:
                writes += removal_writes(self._database, change.waiting.extracted)
        results = await self._database.commit(writes)
        sums = zip(lists, results[len(changes) :], strict=False)
        return [name for name, result in sums if _held(result) >= self.long_lists.most]

    async def analysis(self) -> int | None:
        """The version of the analysis that the lists were made with; None if they are empty."""
        snapshot = await self._database.get(self._reference(KNOWLEDGE.totals), ["analysis"])
        return _fields(snapshot).get("analysis")

    async def stamp(self, analysis: int) -> None:
        """Say which version of the analysis the lists are made with from now on."""
        reference = self._reference(KNOWLEDGE.totals)
        data = {"analysis": analysis}
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def requeue(self, now: datetime) -> int:
        """Let every chunk wait to be indexed again; return how many there are."""
        last, count = "", 0
        while True:
            query = ids_query(self._database.client, last)
            ids = [snapshot.id for snapshot in await self._database.find(query)]
            count += await self._database.commit_skipping_conflicts(
                [self._wait(name, now) for name in ids]
            )
            if len(ids) < REQUEUED:
                return count
            last = ids[-1]

    async def _emptied(self, lists: Mapping[PostingsRef, PostingsChange]) -> set[PostingsRef]:
        """The lists that no chunk will be left on: of those that shrink, it must be looked up."""
        shrinking = {self._reference(name).path: name for name in lists if lists[name].df < 0}
        references = [self._database.client.document(path) for path in shrinking]
        found = await self._database.get_all(references, ["df"])
        stood = {each.reference.path: _fields(each).get("df", 0) for each in found}
        # One that is missing altogether is not to come into being by what it loses.
        return {
            name for path, name in shrinking.items() if stood.get(path, 0) + lists[name].df <= 0
        }

    def _mark(self, change: IndexChange) -> Write:
        reference = self._database.document(documents.COLLECTION, change.waiting.chunk_id)
        option = LastUpdateOption(change.waiting.update_time)
        if change.waiting.chunk is None:
            return lambda batch: batch.delete(reference, option)
        data = _marked(change)
        return lambda batch: batch.update(reference, data, option)

    def _list_write(
        self, name: PostingsRef, change: PostingsChange, emptied: set[PostingsRef]
    ) -> Write:
        if name not in emptied:
            return postings_write(self._database, name, change)
        reference = self._reference(name)
        return lambda batch: batch.delete(reference)

    def _wait(self, chunk_id: str, now: datetime) -> Write:
        reference = self._database.document(documents.COLLECTION, chunk_id)
        return lambda batch: batch.update(reference, {f"pending.{STEP}": now})

    def _reference(self, name: PostingsRef) -> AsyncDocumentReference:
        return self._database.document(*name)


def ids_query(client: AsyncClient, after: str) -> AsyncQuery:
    """The ids of chunks, in order, from the one after `after`."""
    query = client.collection(documents.COLLECTION).order_by("__name__").select([])
    start = client.collection(documents.COLLECTION).document(after) if after else None
    return (query.start_after({"__name__": start}) if start else query).limit(REQUEUED)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield due_query(client, STEP, utc_now(), 1)
    yield ids_query(client, "a")


def _marked(change: IndexChange) -> dict[str, Any]:
    return {
        "indexed": change.wanted.document(),
        "facets": [id_facet(change.waiting.chunk_id), *change.wanted.facets],
        **documents.step_done(STEP),
    }


def _waiting(snapshot: DocumentSnapshot[Any]) -> ChunkToIndex:
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
        fault = f"is no chunk as they are stored: {error!r}"
        return ChunkToIndex(snapshot.id, None, NOT_INDEXED, tries, snapshot.update_time, fault)


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}


def _held(result: WriteResult) -> int:
    """How many entries a list may hold after a write: the last of what the server added up."""
    sums = result.transform_results
    return sums[-1].integer_value if sums else 0
