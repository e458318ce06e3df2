"""What the index job does: chunks that wait for it, and the lists as they become by them.

There is one writer, under its lease. A commit holds the marks of some chunks (`indexed`: what the
lists know of a chunk) and what these chunks change in the lists, each mark on the condition that
its chunk was not edited since it was read. So all of it happened or nothing did, and a repeat finds
nothing left to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, Increment, LastUpdateOption

from shared.clock import utc_now
from shared.domain.facet import own_facet
from shared.domain.postings import CAP
from shared.store import chunk_documents as documents
from shared.store.index_lists import FACETS, TOTALS, to_totals
from shared.store.list_changes import Waiting, list_changes, total_changes
from shared.store.marks import NOTHING, read_mark
from shared.store.steps import pending_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.types import WriteResult

    from shared.store.database import Database, Write
    from shared.store.list_changes import Change, ListChange
    from shared.store.marks import ListName

    Keep = Callable[[Mapping[str, int], float, int], Mapping[str, int]]
    """Of a list's entries, the mean length of a document and a number, what to keep."""

STEP: Final = "index"
SLACK: Final = 250
"""Entries that a list takes beyond its cap before it is cut again."""
REQUEUED: Final = 400
"""Chunks that are put back into the queue in one commit."""
SHORTENED: Final = 20
"""Lists that are cut in one commit: a thousand entries of a hundred bytes each."""
_FIELDS: Final = ("indexed", "deleted_at", "tries", *documents.READ_FIELDS)


class Indexing:
    """Hands out chunks that wait to be indexed, and changes the lists."""

    def __init__(self, database: Database, cap: int = CAP, slack: int = SLACK) -> None:
        """Keep them in this database, and lists no longer than `cap + slack` for long."""
        self._database = database
        self._cap = cap
        self._slack = slack

    async def pending(self, now: datetime, limit: int) -> list[Waiting]:
        """Chunks that wait to be indexed, deleted ones too."""
        query = pending_query(self._database.client, STEP, now, limit).select(_FIELDS)
        return [_waiting(snapshot) for snapshot in await self._database.find(query)]

    async def apply(self, changes: Sequence[Change]) -> list[ListName]:
        """Change the lists and mark the chunks, at once.

        Returns:
            The lists that have grown too long.

        Raises:
            Stale: A chunk was edited since it was read. Nothing was written.
        """
        lists = list_changes(changes)
        emptied = await self._emptied(lists)
        writes = [self._mark(change) for change in changes]
        writes += [self._list_write(name, lists[name], emptied) for name in lists]
        writes += self._totals_write(total_changes(changes))
        results = await self._database.commit(writes)
        sums = zip(lists, results[len(changes) :], strict=False)
        return [name for name, result in sums if _held(result) >= self._cap + self._slack]

    async def shorten(self, names: Sequence[ListName], keep: Mapping[str, Keep]) -> None:
        """Cut lists that may have grown too long.

        Args:
            names: Which.
            keep: For each collection what its lists keep.
        """
        for start in range(0, len(names), SHORTENED):
            references = [self._reference(name) for name in names[start : start + SHORTENED]]
            found = await self._database.get_all([*references, self._reference(TOTALS)])
            stored = {each.reference.parent.id: each for each in found}
            totals = stored.get(TOTALS[0])
            average = to_totals(totals.to_dict() if totals else None).average
            await self._database.commit(
                self._cut(each, keep[each.reference.parent.id], average)
                for each in found
                if each.reference.parent.id in keep
            )

    async def analysis(self) -> int | None:
        """The version of the analysis that the lists were made with; None if they are empty."""
        snapshot = await self._database.get(self._reference(TOTALS), ["analysis"])
        return _fields(snapshot).get("analysis")

    async def stamp(self, analysis: int) -> None:
        """Say which version of the analysis the lists are made with from now on."""
        reference = self._reference(TOTALS)
        data = {"analysis": analysis}
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def requeue(self, now: datetime) -> int:
        """Let every chunk wait to be indexed again; return how many there are."""
        last, count = "", 0
        while True:
            query = ids_query(self._database.client, last)
            ids = [snapshot.id for snapshot in await self._database.find(query)]
            count += await self._database.commit_what_holds([self._wait(name, now) for name in ids])
            if len(ids) < REQUEUED:
                return count
            last = ids[-1]

    async def _emptied(self, lists: Mapping[ListName, ListChange]) -> set[ListName]:
        """The lists that no chunk will be left on: of those that shrink, it must be looked up."""
        shrinking = {self._reference(name).path: name for name in lists if lists[name].df < 0}
        references = [self._database.client.document(path) for path in shrinking]
        found = await self._database.get_all(references, ["df"])
        stood = {each.reference.path: _fields(each).get("df", 0) for each in found}
        # One that is missing altogether is not to come into being by what it loses.
        return {
            name for path, name in shrinking.items() if stood.get(path, 0) + lists[name].df <= 0
        }

    def _mark(self, change: Change) -> Write:
        reference = self._database.document(documents.COLLECTION, change.waiting.chunk_id)
        option = LastUpdateOption(change.waiting.update_time)
        if change.waiting.chunk is None:
            return lambda batch: batch.delete(reference, option)
        data = _marked(change)
        return lambda batch: batch.update(reference, data, option)

    def _list_write(self, name: ListName, change: ListChange, emptied: set[ListName]) -> Write:
        reference = self._reference(name)
        if name in emptied:
            return lambda batch: batch.delete(reference)
        data = change.document()
        return lambda batch: batch.set(reference, data, merge=True)

    def _cut(self, snapshot: DocumentSnapshot[Any], keep: Keep, average: float) -> Write:
        data = _fields(snapshot)
        entries = data.get("postings", {})
        kept = keep(entries, average, self._cap)
        change: dict[str, Any] = {"postings": dict(kept), "held": len(kept)}
        dropped = [entry for name, entry in entries.items() if name not in kept]
        if dropped and snapshot.reference.parent.id == FACETS:
            # Of several chunks of one date some may have been kept: only later ones are all there.
            since = max(dropped) + 1
            change["since"] = max(data.get("since", since), since)
        return lambda batch: batch.update(snapshot.reference, change)

    def _totals_write(self, counts: Mapping[str, int]) -> list[Write]:
        data = {name: Increment(count) for name, count in counts.items()}
        reference = self._reference(TOTALS)
        return [lambda batch: batch.set(reference, data, merge=True)] if data else []

    def _wait(self, chunk_id: str, now: datetime) -> Write:
        reference = self._database.document(documents.COLLECTION, chunk_id)
        return lambda batch: batch.update(reference, {f"pending.{STEP}": now})

    def _reference(self, name: ListName) -> AsyncDocumentReference:
        return self._database.document(*name)


def ids_query(client: AsyncClient, after: str) -> AsyncQuery:
    """The ids of chunks, in order, from the one after `after`."""
    query = client.collection(documents.COLLECTION).order_by("__name__").select([])
    start = client.collection(documents.COLLECTION).document(after) if after else None
    return (query.start_after({"__name__": start}) if start else query).limit(REQUEUED)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield pending_query(client, STEP, utc_now(), 1)
    yield ids_query(client, "a")


def _marked(change: Change) -> dict[str, Any]:
    return {
        "indexed": change.wanted.document(),
        "facets": [own_facet(change.waiting.chunk_id), *(facet.id for facet in change.facets)],
        f"pending.{STEP}": DELETE_FIELD,
        f"tries.{STEP}": DELETE_FIELD,
        f"parked.{STEP}": DELETE_FIELD,
    }


def _waiting(snapshot: DocumentSnapshot[Any]) -> Waiting:
    data = _fields(snapshot)
    tries = (data.get("tries") or {}).get(STEP, 0)
    try:
        chunk = None if "deleted_at" in data else documents.to_chunk(snapshot.id, data)
        return Waiting(snapshot.id, chunk, read_mark(data), tries, snapshot.update_time)
    except (KeyError, TypeError) as error:
        fault = f"is no chunk as they are stored: {error!r}"
        return Waiting(snapshot.id, None, NOTHING, tries, snapshot.update_time, fault)


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}


def _held(result: WriteResult) -> int:
    """How many entries a list may hold after a write: the last of what the server added up."""
    sums = result.transform_results
    return sums[-1].integer_value if sums else 0
