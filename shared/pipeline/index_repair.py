"""Reads indexed states and postings for the repair job, and replaces postings.

The indexed state of a document says under which terms and facets the index lists it. The postings
of a term or facet must list exactly those documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import pack
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import (
    Create,
    Delete,
    Set,
    Write,
    delete_if_unchanged,
    put_if_unchanged,
)
from shared.index.indexed_state import read_indexed_state
from shared.index.postings import KNOWLEDGE, TRACES
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.traces.repository import COLLECTION as TRACE_DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from shared.firestore.database import Database
    from shared.index.bm25 import Totals
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

    PostingsData = Mapping[str, Any]
    Snapshots = dict[PostingsRef, Document]
    """The documents of postings."""

PAGE: Final = 200
"""Documents are read in pages of this size."""
MAX_WRITES: Final = 500
"""The maximum number of writes in a commit."""
MAX_BYTES: Final = 2_000_000
"""The maximum size of a commit, in bytes. The emulator rejects requests above 4 MiB, the cloud
above 10 MiB."""
_PATH: Final = ("meta", "repair")
_ENTRY_BYTES: Final = 20
"""The size of an entry without its document id, in bytes."""


@dataclass(frozen=True, slots=True)
class IndexedCorpus:
    """A corpus whose index is repaired.

    Attributes:
        names: The names of the index's collections. The name of the facets' collection sorts before
            that of the terms'.
    """

    names: IndexCollections
    documents: str

    @property
    def start(self) -> PostingsRef:
        """The position before the first postings."""
        return (self.names.facets, "")

    @property
    def collections(self) -> tuple[str, str]:
        """The collections of postings, sorted by name."""
        return (self.names.facets, self.names.lexicon)


CORPORA: Final = (
    IndexedCorpus(KNOWLEDGE, CHUNKS),
    IndexedCorpus(TRACES, TRACE_DOCUMENTS),
)
"""The corpora, ordered by the names of their collections of postings."""


class IndexRepair:
    """Reads the indexed states of a corpus, and replaces postings."""

    def __init__(self, database: Database, corpus: IndexedCorpus) -> None:
        self._database = database
        self._corpus = corpus

    async def iterate_indexed_states(self) -> AsyncIterator[tuple[str, IndexedState]]:
        """Yield the id and the indexed state of each document."""
        async for page in self._database.iterate(
            Query(self._corpus.documents).order_by("__name__").select(["indexed"]), PAGE
        ):
            for snapshot in page:
                yield snapshot.id, read_indexed_state(snapshot.fields)

    async def iterate_postings(
        self, after: PostingsRef, until: PostingsRef | None
    ) -> AsyncIterator[Snapshots]:
        """Yield the postings after a position, up to another or to the end, page by page."""
        for collection in self._corpus.collections:
            if collection < after[0] or (until and until[0] < collection):
                continue
            query = postings_query(collection, after, until)
            async for page in self._database.iterate(query, PAGE):
                yield {(collection, snapshot.id): snapshot for snapshot in page}

    async def load_postings(self, refs: Sequence[PostingsRef]) -> Snapshots:
        """Load the postings that exist among these. Costs one round trip."""
        snapshots = await self._database.get_all([Reference(*ref) for ref in refs])
        return {(snapshot.reference.collection_id, snapshot.id): snapshot for snapshot in snapshots}

    async def replace_unchanged(
        self, postings: Mapping[PostingsRef, PostingsData | None], snapshots: Snapshots
    ) -> int:
        """Replace the postings that have not changed since they were read. Return their number.

        Args:
            postings: The fields of the new postings, or None to delete postings.
            snapshots: The stored postings. Postings that are missing here are created.
        """
        count = 0
        blocks = pack(postings.items(), MAX_WRITES, MAX_BYTES, lambda item: _estimate_size(item[1]))
        for block in blocks:
            writes = [
                self._build_guarded_write(ref, data, snapshots.get(ref)) for ref, data in block
            ]
            count += await self._database.commit_skipping_conflicts(writes)
        return count

    async def count(self) -> int:
        """Count the postings. Costs two round trips."""
        start = self._corpus.start
        queries = [postings_query(name, start, None) for name in self._corpus.collections]
        return sum([await self._database.count(query) for query in queries])

    async def load_totals(self) -> Document:
        """Load the totals. Costs one round trip."""
        return await self._database.get(Reference(*self._corpus.names.totals))

    async def correct_totals(self, stored: Document, totals: Totals) -> bool:
        """Store the totals unless they have changed since the read, and return whether it did."""
        write = put_if_unchanged(stored, {"documents": totals.documents, "length": totals.length})
        return bool(await self._database.commit_skipping_conflicts([write]))

    def _build_guarded_write(
        self,
        ref: PostingsRef,
        data: PostingsData | None,
        snapshot: Document | None,
    ) -> Write:
        reference = Reference(*ref)
        if snapshot is None:
            return Create(reference, dict(data or {}))
        if data is None:
            return delete_if_unchanged(snapshot)
        obsolete = snapshot.fields.keys() - data.keys()
        return put_if_unchanged(snapshot, {**data, **dict.fromkeys(obsolete, DELETE_FIELD)})


class RepairProgress:
    """`meta/repair`: the position after which the next run continues."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reference = Reference(*_PATH)

    async def load_position(self) -> PostingsRef | None:
        """Load the last postings of a run that ran out of time, or None. Costs one round trip."""
        data = (await self._database.get(self._reference)).fields
        return (data["collection"], data["list"]) if data else None

    async def save(self, position: PostingsRef | None) -> None:
        """Store the last postings of a run that ran out of time, or None after a complete run."""
        if position is None:
            await self._database.commit([Delete(self._reference)])
        else:
            data = {"collection": position[0], "list": position[1]}
            await self._database.commit([Set(self._reference, data)])


def postings_query(collection: str, after: PostingsRef, until: PostingsRef | None) -> Query:
    """Build the query for those postings of a collection that are in a range of all postings."""
    query = Query(collection).order_by("__name__")
    if after[0] == collection and after[1]:
        query = query.start_after({"__name__": Reference(collection, after[1])})
    if until and until[0] == collection:
        query = query.end_at({"__name__": Reference(collection, until[1])})
    return query


def _estimate_size(data: PostingsData | None) -> int:
    return sum(_ENTRY_BYTES + len(document_id) for document_id in data["postings"]) if data else 0
