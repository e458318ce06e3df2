"""What the repair job reads and writes: the documents' marks, and the lists as they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption

from shared.firestore.writes import put_if_unchanged
from shared.index.indexed_state import read_indexed_state
from shared.index.postings import KNOWLEDGE, TRACES, to_totals
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.traces.repository import COLLECTION as SOLVED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.index.bm25 import Totals
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

    ListDocument = Mapping[str, Any]
    Seen = dict[PostingsRef, DocumentSnapshot[Any]]
    """Lists as they were read, by their names."""

PAGE: Final = 200
"""How many documents are read at once."""
MAX_WRITES: Final = 500
MAX_BYTES: Final = 2_000_000
"""What one commit may hold: the emulator refuses requests above 4 MiB, the cloud above 10."""
_PLACE: Final = ("meta", "repair")
_ENTRY: Final = 20
"""Bytes around an entry."""


@dataclass(frozen=True, slots=True)
class IndexedCorpus:
    """Documents, and the lists that are made of them.

    Attributes:
        names: Where the lists stand: the facets' come before the lexicon's.
        documents: The collection of the documents.
        stands_still: Whether nobody writes to the lists while the index job's lease is held. Else
            every document brings them up to date itself.
    """

    names: IndexCollections
    documents: str
    stands_still: bool

    @property
    def start(self) -> PostingsRef:
        """Before the first list."""
        return (self.names.facets, "")

    @property
    def collections(self) -> tuple[str, str]:
        """The collections of the lists, in their order."""
        return (self.names.facets, self.names.lexicon)


CORPORA: Final = (
    IndexedCorpus(KNOWLEDGE, CHUNKS, stands_still=True),
    IndexedCorpus(TRACES, SOLVED, stands_still=False),
)
"""In the order of the names of their lists."""


@dataclass(frozen=True, slots=True)
class StoredTotals:
    """The totals as they were read."""

    totals: Totals
    snapshot: DocumentSnapshot[Any]


class IndexRepair:
    """Reads all that the lists of a corpus are made of, and replaces lists."""

    def __init__(self, database: Database, corpus: IndexedCorpus) -> None:
        """Read and write in this database."""
        self._database = database
        self._corpus = corpus

    async def marks(self) -> AsyncIterator[tuple[str, IndexedState]]:
        """What the lists have to know of each document, by the documents' ids."""
        async for page in self._pages(marks_query(self._database.client, self._corpus)):
            for snapshot in page:
                yield snapshot.id, read_indexed_state(snapshot.to_dict() or {})

    async def lists(
        self, after: PostingsRef, until: PostingsRef | None
    ) -> AsyncIterator[dict[PostingsRef, ListDocument]]:
        """The lists that stand in a range, page by page."""
        for collection in self._corpus.collections:
            if collection < after[0] or (until and until[0] < collection):
                continue
            query = lists_query(self._database.client, collection, after, until)
            async for page in self._pages(query):
                yield {(collection, each.id): each.to_dict() or {} for each in page}

    async def seen(self, names: Sequence[PostingsRef]) -> Seen:
        """Those of these lists that there are, as they stand now."""
        found: Seen = {}
        for start in range(0, len(names), PAGE):
            block = [self._database.document(*name) for name in names[start : start + PAGE]]
            for each in await self._database.get_all(block):
                found[each.reference.parent.id, each.id] = each
        return found

    async def replace(self, lists: Mapping[PostingsRef, ListDocument | None]) -> None:
        """Write lists as they are to be; None: there is to be no such list."""
        for block in _blocks(lists):
            await self._database.commit([self._write(name, lists[name]) for name in block])

    async def replace_unchanged(
        self, lists: Mapping[PostingsRef, ListDocument | None], seen: Seen
    ) -> int:
        """Write those that are still as they were seen; return how many these were."""
        count = 0
        for block in _blocks(lists):
            writes = [self._careful_write(name, lists[name], seen.get(name)) for name in block]
            count += await self._database.commit_skipping_conflicts(writes)
        return count

    async def count(self) -> int:
        """How many lists there are."""
        client, start = self._database.client, self._corpus.start
        queries = [lists_query(client, each, start, None) for each in self._corpus.collections]
        return sum([await self._database.count(query) for query in queries])

    async def totals(self) -> StoredTotals:
        """The totals as they stand."""
        seen = await self._database.get(self._database.document(*self._corpus.names.totals))
        return StoredTotals(to_totals(seen.to_dict()), seen)

    async def correct(self, seen: StoredTotals, totals: Totals) -> bool:
        """Write the totals as they are to be, unless they changed; whether they did not."""
        data = {"documents": totals.documents, "length": totals.length}
        return bool(
            await self._database.commit_skipping_conflicts([put_if_unchanged(seen.snapshot, data)])
        )

    async def _pages(self, query: AsyncQuery) -> AsyncIterator[list[DocumentSnapshot[Any]]]:
        page = await self._database.find(query.limit(PAGE))
        while page:
            yield page
            if len(page) < PAGE:
                return
            page = await self._database.find(query.start_after(page[-1]).limit(PAGE))

    def _write(self, name: PostingsRef, data: ListDocument | None) -> Write:
        reference = self._database.document(*name)
        if data is None:
            return lambda batch: batch.delete(reference)
        return lambda batch: batch.set(reference, dict(data))

    def _careful_write(
        self, name: PostingsRef, data: ListDocument | None, seen: DocumentSnapshot[Any] | None
    ) -> Write:
        reference = self._database.document(*name)
        if seen is None:
            return lambda batch: batch.create(reference, dict(data or {}))
        if data is None:
            option = LastUpdateOption(seen.update_time)
            return lambda batch: batch.delete(reference, option)
        gone = (seen.to_dict() or {}).keys() - data.keys()
        return put_if_unchanged(seen, {**data, **dict.fromkeys(gone, DELETE_FIELD)})


class RepairProgress:
    """`meta/repair`: where the next run goes on."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database
        self._reference = database.document(*_PLACE)

    async def place(self) -> PostingsRef | None:
        """The list up to which a run came that ran out of time."""
        data = (await self._database.get(self._reference)).to_dict()
        return (data["collection"], data["list"]) if data else None

    async def remember(self, place: PostingsRef | None) -> None:
        """Say up to which list a run came; None: to the last."""
        if place is None:
            await self._database.commit([lambda batch: batch.delete(self._reference)])
        else:
            data = {"collection": place[0], "list": place[1]}
            await self._database.commit([lambda batch: batch.set(self._reference, data)])


def marks_query(client: AsyncClient, corpus: IndexedCorpus) -> AsyncQuery:
    """Every document's mark; `IndexRepair` pages through them."""
    return client.collection(corpus.documents).order_by("__name__").select(["indexed"])


def lists_query(
    client: AsyncClient, collection: str, after: PostingsRef, until: PostingsRef | None
) -> AsyncQuery:
    """The lists of a collection that stand in a range of all lists."""
    lists = client.collection(collection)
    query = lists.order_by("__name__")
    if after[0] == collection and after[1]:
        query = query.start_after({"__name__": lists.document(after[1])})
    if until and until[0] == collection:
        query = query.end_at({"__name__": lists.document(until[1])})
    return query


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for corpus in CORPORA:
        yield marks_query(client, corpus).limit(1)
        for collection in corpus.collections:
            yield lists_query(client, collection, (collection, "a"), (collection, "b")).limit(1)


def _blocks(lists: Mapping[PostingsRef, ListDocument | None]) -> Iterator[list[PostingsRef]]:
    """Cut lists into commits that Firestore takes."""
    block: list[PostingsRef] = []
    size = 0
    for name, data in lists.items():
        more = sum(_ENTRY + len(each) for each in data["postings"]) if data else 0
        if block and (len(block) == MAX_WRITES or size + more > MAX_BYTES):
            yield block
            block, size = [], 0
        block.append(name)
        size += more
    if block:
        yield block
