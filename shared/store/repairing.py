"""What the repair job reads and writes: the chunks' marks, and the lists as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.store.chunk_documents import COLLECTION as CHUNKS
from shared.store.index_lists import KNOWLEDGE, to_totals
from shared.store.marks import read_mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.domain.postings import Totals
    from shared.store.database import Database, Write
    from shared.store.index_lists import ListName
    from shared.store.marks import Indexed

    ListDocument = Mapping[str, Any]

START: Final[ListName] = (KNOWLEDGE.facets, "")
"""Before the first list: facets come before the lexicon."""
PAGE: Final = 200
"""How many documents are read at once."""
MAX_WRITES: Final = 500
MAX_BYTES: Final = 2_000_000
"""What one commit may hold: the emulator refuses requests above 4 MiB, the cloud above 10."""
_COLLECTIONS: Final = (KNOWLEDGE.facets, KNOWLEDGE.lexicon)
_PLACE: Final = ("meta", "repair")
_ENTRY: Final = 20
"""Bytes around an entry."""


class Repairing:
    """Reads all that the lists are made of, and replaces lists."""

    def __init__(self, database: Database) -> None:
        """Read and write in this database."""
        self._database = database

    async def marks(self) -> AsyncIterator[tuple[str, Indexed]]:
        """What the lists have to know of each chunk, by the chunks' ids."""
        async for page in self._pages(marks_query(self._database.client)):
            for snapshot in page:
                yield snapshot.id, read_mark(snapshot.to_dict() or {})

    async def lists(
        self, after: ListName, until: ListName | None
    ) -> AsyncIterator[dict[ListName, ListDocument]]:
        """The lists that stand in a range, page by page."""
        for collection in _COLLECTIONS:
            if collection < after[0] or (until and until[0] < collection):
                continue
            query = lists_query(self._database.client, collection, after, until)
            async for page in self._pages(query):
                yield {(collection, each.id): each.to_dict() or {} for each in page}

    async def replace(self, lists: Mapping[ListName, ListDocument | None]) -> None:
        """Write lists as they are to be; None: there is to be no such list."""
        writes: list[Write] = []
        size = 0
        for name, data in lists.items():
            more = sum(_ENTRY + len(chunk_id) for chunk_id in data["postings"]) if data else 0
            if writes and (len(writes) == MAX_WRITES or size + more > MAX_BYTES):
                await self._database.commit(writes)
                writes, size = [], 0
            writes.append(self._write(name, data))
            size += more
        await self._database.commit(writes)

    async def count(self) -> int:
        """How many lists there are."""
        client = self._database.client
        queries = [lists_query(client, name, START, None) for name in _COLLECTIONS]
        return sum([await self._database.count(query) for query in queries])

    async def totals(self) -> Totals:
        """The totals as they stand."""
        return to_totals(
            (await self._database.get(self._database.document(*KNOWLEDGE.totals))).to_dict()
        )

    async def correct(self, totals: Totals) -> None:
        """Write the totals as they are to be."""
        data = {"documents": totals.documents, "length": totals.length}
        reference = self._database.document(*KNOWLEDGE.totals)
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def place(self) -> ListName | None:
        """The list up to which a run came that ran out of time."""
        data = (await self._database.get(self._database.document(*_PLACE))).to_dict()
        return (data["collection"], data["list"]) if data else None

    async def remember(self, place: ListName | None) -> None:
        """Say up to which list a run came; None: to the last."""
        reference = self._database.document(*_PLACE)
        if place is None:
            await self._database.commit([lambda batch: batch.delete(reference)])
        else:
            data = {"collection": place[0], "list": place[1]}
            await self._database.commit([lambda batch: batch.set(reference, data)])

    async def _pages(self, query: AsyncQuery) -> AsyncIterator[list[DocumentSnapshot[Any]]]:
        page = await self._database.find(query.limit(PAGE))
        while page:
            yield page
            if len(page) < PAGE:
                return
            page = await self._database.find(query.start_after(page[-1]).limit(PAGE))

    def _write(self, name: ListName, data: ListDocument | None) -> Write:
        reference = self._database.document(*name)
        if data is None:
            return lambda batch: batch.delete(reference)
        return lambda batch: batch.set(reference, dict(data))


def marks_query(client: AsyncClient) -> AsyncQuery:
    """Every chunk's mark; `Repairing` pages through them."""
    return client.collection(CHUNKS).order_by("__name__").select(["indexed"])


def lists_query(
    client: AsyncClient, collection: str, after: ListName, until: ListName | None
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
    yield marks_query(client).limit(1)
    for collection in _COLLECTIONS:
        yield lists_query(client, collection, (collection, "a"), (collection, "b")).limit(1)
