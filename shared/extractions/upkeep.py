"""What becomes of extractions when others go, or when what they hang on is gone.

An extraction that repeated another one is shown in its place once that is gone. One whose chunk
knows nothing of it was left by something that befell the database: ours write both in one commit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.extractions.extracted_chunks import COLLECTION, GONE, TOPICS, removal, topic_writes
from shared.extractions.model import ExtractionType, facets
from shared.firestore.database import WriteConflict, combine_writes
from shared.firestore.writes import put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.knowledge.queue import ExtractionSummaries

    Snapshot = DocumentSnapshot[Any]

PAGE: Final = 200
"""Extractions that are looked at together."""
SETTLED_AT_ONCE: Final = 50
"""Marks of extractions that are gone which are settled together."""
MOST_REPEATED: Final = 100
"""Duplicates of one extraction that are looked at together."""
_DUPLICATE: Final = ("type", "topics", "source_id", "chunk_id", "confidence")


class ExtractionUpkeep:
    """Shows duplicates whose original is gone, and removes what hangs on nothing."""

    def __init__(self, database: Database) -> None:
        """Work on this database."""
        self._database = database

    async def settle(self) -> Counter[str]:
        """Settle some of the extractions that are gone; to be called until it has settled none.

        Of the duplicates of each, the surest is shown in its place, and the others repeat that one
        from now on. Nothing to do costs one read.

        Returns:
            How many marks were `settled`, and how many duplicates are `shown`.
        """
        query = marks_query(self._database.client).limit(SETTLED_AT_ONCE)
        marks = await self._database.find(query)
        done = Counter[str]()
        idle: list[Write] = []
        for mark, original in zip(marks, await self._originals(marks), strict=True):
            duplicates = [] if original else await self._duplicates(mark.id)
            if not duplicates:
                idle.append(_deletion(mark))
            else:
                done += await self._inherited(mark, duplicates)
        done["settled"] += await self._database.commit_skipping_conflicts(idle) if idle else 0
        return done

    async def count(self) -> int:
        """How many extractions are gone and not settled."""
        return await self._database.count(marks_query(self._database.client))

    async def _originals(self, marks: Sequence[Snapshot]) -> list[bool]:
        """Which of them are there again: their chunk came back."""
        references = [self._database.document(COLLECTION, mark.id) for mark in marks]
        found = {each.id for each in await self._database.get_all(references, ["type"])}
        return [mark.id in found for mark in marks]

    async def _duplicates(self, extraction_id: str) -> list[Snapshot]:
        """What repeats an extraction and hangs on a chunk, the surest first."""
        query = duplicates_query(self._database.client, extraction_id)
        found = await self._database.find(query)
        return sorted(found, key=lambda each: (-each.get("confidence"), each.id))

    async def _inherited(self, mark: Snapshot, duplicates: Sequence[Snapshot]) -> Counter[str]:
        """Show the surest duplicate that hangs on a chunk, unless one is shown already.

        Those that are too many to be looked at together find the heir in the mark, which stays.
        Where something changes meanwhile, nothing is settled.
        """
        known = (mark.to_dict() or {}).get("heir")
        chunks = {} if known else await self._chunks(duplicates)
        heir = next((each for each in duplicates if _hangs(each, chunks)), None)
        heir_id = heir.id if heir else known
        writes: list[Write] = []
        if heir_id:
            others = [each for each in duplicates if each.id != heir_id]
            writes += [put_if_unchanged(each, {"duplicate_of": heir_id}) for each in others]
        if heir:
            writes += self._showing(heir, chunks[heir.get("chunk_id")])
        more = heir_id and len(duplicates) == MOST_REPEATED
        writes.append(put_if_unchanged(mark, {"heir": heir_id}) if more else _deletion(mark))
        try:
            await self._database.commit(writes)
        except WriteConflict:
            return Counter()
        return Counter(settled=1, shown=int(heir is not None))

    def _showing(self, heir: Snapshot, chunk: Snapshot) -> Iterator[Write]:
        kind, topics = ExtractionType(heir.get("type")), heir.get("topics")
        found_by = facets(kind, topics, heir.get("source_id"))
        yield put_if_unchanged(heir, {"facets": found_by, "duplicate_of": DELETE_FIELD})
        before = _extracted(chunk)
        known = {name: each for name, each in before[heir.id].items() if name != "duplicate"}
        after = {**before, heir.id: {**known, "topics": topics}}
        yield put_if_unchanged(chunk, {"extracted": after})
        yield from topic_writes(self._database, before, after)

    async def page(self, after: str) -> list[Snapshot]:
        """The extractions that come next by their ids, for a round through all. One round trip.

        Args:
            after: The id of the last one of the page before; empty for the first page.
        """
        return await self._database.find(every_query(self._database.client, after))

    async def orphans(self, page: Sequence[Snapshot]) -> list[Snapshot]:
        """Those of a page whose chunk is gone, or knows nothing of them. One round trip."""
        chunks = await self._chunks(page)
        return [each for each in page if not _hangs(each, chunks)]

    async def remove(self, orphans: Sequence[Snapshot]) -> int:
        """Delete orphans that have not changed since; return how many they were."""
        writes = [combine_writes(list(self._removal(each))) for each in orphans]
        return await self._database.commit_skipping_conflicts(writes) if writes else 0

    def _removal(self, orphan: Snapshot) -> Iterator[Write]:
        data = orphan.to_dict() or {}
        topics = [] if data.get("duplicate_of") else data.get("topics", [])
        # Refused if it changed, and with it all that follows.
        yield put_if_unchanged(orphan, {"facets": []})
        yield from removal(self._database, {orphan.id: {"type": data["type"], "topics": topics}})

    async def forget_empty_topics(self) -> int:
        """Delete topics of which nothing is left; return how many. Nothing to do costs one read."""
        found = await self._database.find(empty_query(self._database.client))
        writes = list(map(_deletion, found))
        return await self._database.commit_skipping_conflicts(writes) if writes else 0

    async def _chunks(self, extractions: Sequence[Snapshot]) -> dict[str, Snapshot]:
        names = sorted({(each.to_dict() or {}).get("chunk_id", "") for each in extractions} - {""})
        references = [self._database.document(CHUNKS, name) for name in names]
        found = await self._database.get_all(references, ["extracted"])
        return {each.id: each for each in found}


def marks_query(client: AsyncClient) -> AsyncQuery:
    """Marks of extractions that are gone."""
    return client.collection(GONE).order_by("__name__")


def duplicates_query(client: AsyncClient, extraction_id: str) -> AsyncQuery:
    """What repeats an extraction."""
    same = FieldFilter("duplicate_of", "==", extraction_id)
    query = client.collection(COLLECTION).where(filter=same)
    return query.select(_DUPLICATE).limit(MOST_REPEATED)


def every_query(client: AsyncClient, after: str) -> AsyncQuery:
    """The extractions that come next by their ids."""
    every = client.collection(COLLECTION)
    query = every.order_by("__name__").select(["chunk_id", "type", "topics", "duplicate_of"])
    query = query.start_after({"__name__": every.document(after)}) if after else query
    return query.limit(PAGE)


def empty_query(client: AsyncClient) -> AsyncQuery:
    """Topics of which nothing is left."""
    return client.collection(TOPICS).where(filter=FieldFilter("total", "<=", 0)).limit(PAGE)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield marks_query(client)
    yield duplicates_query(client, "a")
    yield every_query(client, "a")
    yield empty_query(client)


def _hangs(extraction: Snapshot, chunks: dict[str, Snapshot]) -> bool:
    chunk = chunks.get((extraction.to_dict() or {}).get("chunk_id", ""))
    return chunk is not None and extraction.id in _extracted(chunk)


def _extracted(chunk: Snapshot) -> ExtractionSummaries:
    return (chunk.to_dict() or {}).get("extracted") or {}


def _deletion(seen: Snapshot) -> Write:
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.delete(seen.reference, option)
