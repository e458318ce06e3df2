"""Which topic each chunk belongs to, and `meta/clustering`: how the topics came about."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.cloud.firestore import Increment, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.database import WriteConflict
from shared.firestore.writes import combine_writes
from shared.knowledge.chunk_repository import COLLECTION, step_done, step_pending
from shared.knowledge.cluster_repository import clusters_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write

PAGE: Final = 200
"""How many chunks are read at once, and written in one commit."""
READ_PAGE: Final = 500
"""How many are read at once where all are. To decode one takes 1.25 ms, so that 200,000 take some
four minutes of a core (measured with vectors of 768 numbers), and more at once would only take more
memory."""
AT_ONCE: Final = 16
"""How many clusters are counted at once."""
STEP: Final = "cluster"
ItemT = TypeVar("ItemT")
_PLACE: Final = ("meta", "clustering")
_READ: Final = ("embedding", "embedding_model", "content_hash", "cluster_id", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How the topics came about.

    Attributes:
        model: The embedding model of the vectors that they are made of.
        run_id: The run that made them.
        made_at: When it did.
        passages: How many chunks it made them of.
        changed: How many chunks were put among topics, or lost, since.
        members: How many chunks belonged to a topic when they were counted last.
        uncounted: Whether they changed since.
        unfinished: Whether not all chunks are where the run wants them.
    """

    model: str
    run_id: str
    made_at: datetime
    passages: int
    changed: int = 0
    members: int = 0
    uncounted: bool = True
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class AssignedChunk:
    """A chunk with the topics that it belongs to, as it was read.

    Attributes:
        model: What its vector was made by.
        content_hash: Changes when what is embedded does.
        waiting: Whether it waits to be put among topics.
        update_time: When it was last written.
        vector: Its vector, where it is needed.
    """

    chunk_id: str
    model: str
    content_hash: str
    cluster_ids: tuple[str, ...]
    waiting: bool
    update_time: Any = field(compare=False)
    vector: Vector = ()


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """Where a chunk is to be."""

    chunk: AssignedChunk
    cluster_ids: tuple[str, ...]


class Clusterings:
    """Reads what topics are made of, and puts chunks among them."""

    def __init__(self, database: Database) -> None:
        """Read and write in this database."""
        self._database = database

    async def present(self) -> Clustering | None:
        """How the present topics came about; None: no run has made any."""
        data = (await self._database.get(self._database.document(*_PLACE))).to_dict()
        return Clustering(**data) if data else None

    async def set(self, clustering: Clustering) -> None:
        """Say how they came about."""
        await self._database.commit([self._clustering_write(asdict(clustering))])

    async def count_again(self) -> None:
        """Have the topics' sizes counted by the next run."""
        await self._database.commit([self._clustering_write({"uncounted": True})])

    async def count_embedded(self, model: str) -> int:
        """How many chunks have a vector of this model."""
        return await self._database.count(embedded_query(self._database.client, model))

    async def count_members(self) -> int:
        """How many chunks belong to a topic."""
        return await self._database.count(members_query(self._database.client))

    async def waiting(self, limit: int) -> list[AssignedChunk]:
        """Chunks that wait to be put among topics, those that waited longest first."""
        query = waiting_query(self._database.client).select(_READ).limit(limit)
        return [_placed(snapshot) for snapshot in await self._database.find(query)]

    async def embedded(self, model: str) -> AsyncIterator[list[AssignedChunk]]:
        """All chunks that have a vector of this model, page by page, by their ids."""
        query = embedded_query(self._database.client, model).order_by("__name__")
        query = query.select(_READ).limit(READ_PAGE)
        page = await self._database.find(query)
        while page:
            yield [_placed(snapshot) for snapshot in page]
            if len(page) < READ_PAGE:
                return
            page = await self._database.find(query.start_after(page[-1]))

    async def texts(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The title and the content of chunks that exist."""
        found: dict[str, tuple[str, str]] = {}
        for block in _blocks(chunk_ids, PAGE):
            references = [self._database.document(COLLECTION, name) for name in block]
            for snapshot in await self._database.get_all(references, ["title", "content"]):
                data = snapshot.to_dict() or {}
                if "content" in data:
                    found[snapshot.id] = data["title"], data["content"]
        return found

    async def move(self, moves: Sequence[ClusterAssignment], now: datetime, *, since: bool) -> int:
        """Put chunks among topics; one that was rewritten or deleted meanwhile is passed over.

        A chunk whose topics change waits for the index. What is so already costs no write.

        Args:
            moves: Where they are to be.
            now: The time from which they wait for the index.
            since: Whether this happens after a run made the topics, which then have changed.

        Returns:
            How many chunks were written.
        """
        due = [move for move in moves if move.chunk.waiting or _changes(move)]
        return sum([await self._move(block, now, since=since) for block in _blocks(due, PAGE)])

    async def _move(self, moves: Sequence[ClusterAssignment], now: datetime, *, since: bool) -> int:
        counted = [self._changed_write(len(moves))] if since else []
        try:
            await self._database.commit([*(self._write(each, now) for each in moves), *counted])
        except WriteConflict:
            # Other jobs write to chunks too: only what is embedded must be what it was.
            held = await self._held(moves)
            counted = [self._changed_write(1)] if since else []
            return await self._database.commit_skipping_conflicts(
                [combine_writes([self._write(each, now), *counted]) for each in held]
            )
        return len(moves)

    async def _held(self, moves: Sequence[ClusterAssignment]) -> list[ClusterAssignment]:
        """Those whose chunk still has the vector that it had, as it is now."""
        read = {move.chunk.chunk_id: move for move in moves}
        references = [self._database.document(COLLECTION, name) for name in read]
        fields = [name for name in _READ if name != "embedding"]
        found = [_placed(each) for each in await self._database.get_all(references, fields)]
        return [
            replace(read[chunk.chunk_id], chunk=chunk)
            for chunk in found
            if _embedded(chunk) == _embedded(read[chunk.chunk_id].chunk)
        ]

    async def recount(self, clustering: Clustering) -> int:
        """Bring each cluster's size to how many chunks belong to it; one that has none goes.

        Returns:
            How many clusters were written or deleted.
        """
        members = await self.count_members()  # first: what goes meanwhile is missed by the next run
        query = clusters_query(self._database.client).select(["size"])
        clusters = await self._database.find(query)
        writes = [write for each in _blocks(clusters, AT_ONCE) for write in await self._sized(each)]
        for block in _blocks(writes, PAGE):
            await self._database.commit(block)
        lost = max(0, clustering.members - members)
        counted = {"members": members, "uncounted": False, "changed": Increment(lost)}
        await self._database.commit([self._clustering_write(counted)])
        return len(writes)

    async def _sized(self, clusters: Sequence[DocumentSnapshot[Any]]) -> list[Write]:
        client = self._database.client
        queries = [of_cluster_query(client, each.id) for each in clusters]
        sizes = await asyncio.gather(*map(self._database.count, queries))
        return [
            _size_write(cluster, size)
            for cluster, size in zip(clusters, sizes, strict=True)
            if not size or size != cluster.get("size")
        ]

    def _write(self, move: ClusterAssignment, now: datetime) -> Write:
        change = step_done(STEP)
        if _changes(move):
            change |= {"cluster_id": list(move.cluster_ids)} | step_pending("index", now)
        reference = self._database.document(COLLECTION, move.chunk.chunk_id)
        option = LastUpdateOption(move.chunk.update_time)
        return lambda batch: batch.update(reference, change, option)

    def _changed_write(self, count: int) -> Write:
        return self._clustering_write({"changed": Increment(count), "uncounted": True})

    def _clustering_write(self, change: dict[str, Any]) -> Write:
        reference = self._database.document(*_PLACE)
        return lambda batch: batch.set(reference, change, merge=True)


def embedded_query(client: AsyncClient, model: str) -> AsyncQuery:
    """Chunks whose vector a model made."""
    return client.collection(COLLECTION).where(filter=FieldFilter("embedding_model", "==", model))


def members_query(client: AsyncClient) -> AsyncQuery:
    """Chunks that belong to a topic."""
    return client.collection(COLLECTION).where(filter=FieldFilter("cluster_id", ">", []))


def of_cluster_query(client: AsyncClient, cluster_id: str) -> AsyncQuery:
    """Chunks that belong to a certain one."""
    belongs = FieldFilter("cluster_id", "array_contains", cluster_id)
    return client.collection(COLLECTION).where(filter=belongs)


def waiting_query(client: AsyncClient) -> AsyncQuery:
    """Chunks that wait to be put among topics."""
    return client.collection(COLLECTION).order_by(f"pending.{STEP}")


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield embedded_query(client, "m").order_by("__name__")
    yield embedded_query(client, "m")
    yield members_query(client)
    yield of_cluster_query(client, "a")
    yield waiting_query(client).limit(1)
    yield clusters_query(client).select(["size"])


def _placed(snapshot: DocumentSnapshot[Any]) -> AssignedChunk:
    data = snapshot.to_dict() or {}
    return AssignedChunk(
        chunk_id=snapshot.id,
        model=data.get("embedding_model", ""),
        content_hash=data.get("content_hash", ""),
        cluster_ids=tuple(data.get("cluster_id") or ()),
        waiting=STEP in data.get("pending", {}),
        update_time=snapshot.update_time,
        vector=tuple(data.get("embedding", ())),
    )


def _blocks(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _embedded(chunk: AssignedChunk) -> tuple[str, str]:
    return chunk.model, chunk.content_hash


def _changes(move: ClusterAssignment) -> bool:
    return move.cluster_ids != move.chunk.cluster_ids


def _size_write(cluster: DocumentSnapshot[Any], size: int) -> Write:
    if not size:
        return lambda batch: batch.delete(cluster.reference)
    return lambda batch: batch.update(cluster.reference, {"size": size})
