"""The work that waits on chunks: who needs which step, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.core.dates import utc_now
from shared.core.errors import PlatformFault
from shared.firestore.database import Stale, together
from shared.knowledge import chunk_repository as documents
from shared.knowledge.chunk import embedding_text
from shared.knowledge.chunk_repository import COLLECTION, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write

Extracted = Mapping[str, Mapping[str, Any]]
"""Extraction id to `{type, topics, says, duplicate?}`; a duplicate, which no list shows, has no
topics. `says` tells whether what is stored of it is what would be stored now."""
MAX_TRIES: Final = 5
"""How often a step is tried on a chunk before it is parked."""
MOST_WRITES: Final = 100
"""Chunks of which work is stored in one commit."""
PENDING_FIELDS: Final = ("source_id", "title", "content", "content_hash", "tries", "extracted")


class Tried(Protocol):
    """A chunk as it was read, and how often a step was tried on it."""

    @property
    def chunk_id(self) -> str: ...  # noqa: D102 - as in every value that stands for a chunk
    @property
    def tries(self) -> int: ...  # noqa: D102 - the same
    @property
    def update_time(self) -> Any: ...  # noqa: D102 - the same


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for a step, as it was read.

    Attributes:
        content_hash: Changes when its text or title does.
        tries: How often the step was tried on it.
        extracted: The extractions that hang on it.
    """

    chunk_id: str
    source_id: str
    title: str
    content: str
    content_hash: str
    tries: int
    update_time: Any
    extracted: Extracted = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What is embedded of it."""
        return embedding_text(self.title, self.content)


@dataclass(frozen=True, slots=True)
class Done:
    """What a step made of a chunk.

    Attributes:
        chunk: The chunk as it was read.
        change: The fields that it gets.
        writes: What is written beside it, or not at all.
    """

    chunk: PendingChunk
    change: Mapping[str, Any]
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class Parked:
    """A chunk on which a step failed so often that it is not tried any more."""

    chunk_id: str
    reason: str


class Refused(PlatformFault):
    """What was made of some chunks is not taken by the database, which took that of others.

    Attributes:
        stored: Of how many chunks it was stored.
        chunks: Of which it was not.
    """

    def __init__(self, stored: int, chunks: Sequence[PendingChunk]) -> None:
        """Say so."""
        super().__init__("The database refuses what was made of it: it may be too large.")
        self.stored = stored
        self.chunks = list(chunks)


class Steps:
    """Hands out chunks that wait for a step, and records what jobs did to them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def pending(self, step: str, now: datetime, limit: int) -> list[PendingChunk]:
        """Chunks that wait for `step` and whose time to try (again) has come."""
        query = pending_query(self._database.client, step, now, limit).select(PENDING_FIELDS)
        return [to_pending(step, snapshot) for snapshot in await self._database.find(query)]

    async def count_pending(self, step: str) -> int:
        """How many chunks wait for `step`, including those whose time has not come."""
        return await self._database.count(waiting_query(self._database.client, step))

    async def embedded(
        self, chunks: Sequence[PendingChunk], vectors: Sequence[Vector], model: str, now: datetime
    ) -> int:
        """Store vectors, and let the chunks be put among topics.

        Returns:
            How many were stored.
        """
        made = [
            Done(
                chunk,
                {
                    "embedding": FirestoreVector(list(vector)),
                    "embedding_model": model,
                    **documents.step_pending("cluster", now),
                },
            )
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        return await self.done("embed", made)

    async def done(self, step: str, made: Sequence[Done]) -> int:
        """Store what a step made; a chunk whose text was edited since it was read stays pending.

        Returns:
            Of how many chunks it was stored.

        Raises:
            Refused: The database refuses some of it for what it is; the rest is stored.
        """
        refused: list[PendingChunk] = []
        stored = 0
        for start in range(0, len(made), MOST_WRITES):
            stored += await self._done(step, made[start : start + MOST_WRITES], refused)
        if refused:
            raise Refused(stored, refused)
        return stored

    async def _done(self, step: str, made: Sequence[Done], refused: list[PendingChunk]) -> int:
        try:
            await self._database.commit([self._write(step, each) for each in made])
        except Stale:
            # Other steps write to chunks too: what was edited is told by the text alone.
            present = await self._present(step, [each.chunk for each in made])
            held = [
                replace(each, chunk=present[each.chunk.chunk_id])
                for each in made
                if each.chunk.chunk_id in present
            ]
            return await self._apart(step, held, refused)
        except (PlatformFault, ValueError):
            return await self._apart(step, made, refused)
        return len(made)

    async def _apart(self, step: str, made: Sequence[Done], refused: list[PendingChunk]) -> int:
        """Store what holds, halved around what does not.

        A chunk that was edited meanwhile stays pending. One that does not fit the database, or of
        which Google's client cannot make a request, is refused.
        """
        if not made:
            return 0
        try:
            await self._database.commit([self._write(step, each) for each in made])
        except (Stale, PlatformFault, ValueError) as error:
            if len(made) == 1:
                if not isinstance(error, Stale):
                    refused.append(made[0].chunk)
                return 0
            middle = len(made) // 2
            first = await self._apart(step, made[:middle], refused)
            return first + await self._apart(step, made[middle:], refused)
        return len(made)

    def _write(self, step: str, each: Done) -> Write:
        change = {**each.change, **documents.step_done(step)}
        return together([self._update(each.chunk, change), *each.writes])

    async def _present(self, step: str, chunks: Sequence[PendingChunk]) -> dict[str, PendingChunk]:
        """Those of the chunks that still say what they said, as they are now."""
        read = {chunk.chunk_id: chunk for chunk in chunks}
        references = [self._database.document(COLLECTION, name) for name in read]
        found = await self._database.get_all(references, ["content_hash", "extracted"])
        return {
            snapshot.id: replace(read[snapshot.id], update_time=snapshot.update_time)
            for snapshot in found
            if _still_says(snapshot, read[snapshot.id], step)
        }

    async def failed(self, step: str, chunk: Tried, reason: str, now: datetime) -> None:
        """Try the step again later, each time after a longer wait; after five tries park it."""
        tries = chunk.tries + 1
        change: dict[str, Any] = {
            f"tries.{step}": tries,
            f"pending.{step}": now + timedelta(minutes=2**tries),
        }
        if tries >= MAX_TRIES:
            change |= {f"pending.{step}": DELETE_FIELD, f"parked.{step}": reason}
        await self._database.commit_what_holds([self._update(chunk, change)])

    async def parked(self, step: str, limit: int) -> list[Parked]:
        """Chunks on which `step` is not tried any more, and why."""
        query = parked_query(self._database.client, step).select([f"parked.{step}"]).limit(limit)
        found = await self._database.find(query)
        return [Parked(each.id, each.get(f"parked.{step}")) for each in found]

    async def count_parked(self, step: str) -> int:
        """How many there are."""
        return await self._database.count(parked_query(self._database.client, step))

    async def retry(self, step: str, now: datetime) -> int:
        """Let those chunks wait for `step` again; return how many there were."""
        count = 0
        while found := await self.parked(step, MOST_WRITES):
            writes = [self._again(each, step, now) for each in found]
            count += await self._database.commit_what_holds(writes)
        return count

    def _again(self, parked: Parked, step: str, now: datetime) -> Write:
        reference = self._database.document(COLLECTION, parked.chunk_id)
        return lambda batch: batch.update(reference, documents.step_pending(step, now))

    def _update(self, chunk: Tried, change: dict[str, Any]) -> Write:
        reference = self._database.document(COLLECTION, chunk.chunk_id)
        option = LastUpdateOption(chunk.update_time)
        return lambda batch: batch.update(reference, change, option)


def waiting_query(client: AsyncClient, step: str) -> AsyncQuery:
    """Chunks that wait for a step, due or not, those that waited longest first."""
    return client.collection(COLLECTION).order_by(f"pending.{step}")


def pending_query(client: AsyncClient, step: str, now: datetime, limit: int) -> AsyncQuery:
    """Chunks that wait for a step and are due, those that waited longest first."""
    due = FieldFilter(f"pending.{step}", "<=", now)
    return waiting_query(client, step).where(filter=due).limit(limit)


def parked_query(client: AsyncClient, step: str) -> AsyncQuery:
    """Chunks on which a step is not tried any more."""
    return client.collection(COLLECTION).order_by(f"parked.{step}")


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for step in STEPS:
        yield pending_query(client, step, utc_now(), 1)
        yield waiting_query(client, step)
        yield parked_query(client, step)


def _still_says(snapshot: DocumentSnapshot[Any], read: PendingChunk, step: str) -> bool:
    data = snapshot.to_dict() or {}
    same = data.get("content_hash") == read.content_hash
    # Only who replaces extractions counts on those that were read.
    return same and (step != "extract" or (data.get("extracted") or {}) == read.extracted)


def to_pending(step: str, snapshot: DocumentSnapshot[Any]) -> PendingChunk:
    """Read a chunk that waits for a step from its document."""
    data = snapshot.to_dict() or {}
    return PendingChunk(
        chunk_id=snapshot.id,
        source_id=data["source_id"],
        title=data["title"],
        content=data["content"],
        content_hash=data["content_hash"],
        tries=data.get("tries", {}).get(step, 0),
        update_time=snapshot.update_time,
        extracted=data.get("extracted") or {},
    )
