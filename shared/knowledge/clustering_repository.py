"""The clusters of each chunk, and `meta/clustering`, the record of the last clustering.

A clustering divides all embedded chunks into clusters. Between two clusterings, new chunks are only
assigned to the clusters that exist.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.clustering.class_tfidf import TitledText
from shared.core.blocks import split
from shared.firestore.codec import Codec
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import Increment
from shared.firestore.writes import Delete, Set, Together, Update, Write
from shared.index.stored_vector import COMPACT, read_compact
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import Chunks, build_step_done, build_step_pending
from shared.knowledge.cluster_repository import clusters_query
from shared.knowledge.map_repository import Maps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.knowledge.map_repository import KnowledgeMap, MapPoint

PAGE_SIZE: Final = 200
"""Chunks are read in pages of this size. Each page is written in one commit."""
READ_PAGE_SIZE: Final = 500
"""The page size when all chunks are read. Larger pages take more memory, and just as much time."""
ID_PAGE_SIZE: Final = 5_000
"""The page size when only ids are read."""
CONCURRENCY: Final = 16
"""The number of clusters whose chunks are counted concurrently."""
MAX_CATEGORIES: Final = 20
"""The maximum number of categories that are counted in each cluster."""
STEP: Final = "cluster"
"""The step that is pending on a chunk until it is assigned to clusters."""
ItemT = TypeVar("ItemT")
_PATH: Final = ("meta", "clustering")
_FIELDS: Final = (COMPACT, "embedding_model", "content_hash", "cluster_id", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """The record of the last clustering.

    Attributes:
        passages: The number of chunks that were clustered.
        changed: The number of chunks that were assigned to clusters or deleted since then.
        members: The number of chunks that were in clusters when cluster sizes were last counted.
        unclustered: The number of other chunks at that time, or None if they were not counted.
        uncounted: Whether clusters have changed since then.
        unfinished: Whether some chunks are not assigned to the new clusters yet.
        mapped: Whether the map shows this clustering, and has room for more points.
    """

    model: str
    run_id: str
    made_at: datetime
    passages: int
    changed: int = 0
    members: int = 0
    unclustered: int | None = None
    uncounted: bool = True
    unfinished: bool = False
    mapped: bool = False


_CODEC: Final = Codec(Clustering)


@dataclass(frozen=True, slots=True)
class AssignedChunk:
    """A chunk with its clusters at the time of a read.

    Attributes:
        content_hash: A hash of the embedded text.
        pending: Whether it waits to be assigned to a cluster.
        update_time: The time of its last write before the read.
        vector: Its compact vector. Empty if it has none of the needed length, or if none is needed.
    """

    chunk_id: str
    model: str
    content_hash: str
    cluster_ids: tuple[str, ...]
    pending: bool
    update_time: Any = field(compare=False)
    vector: bytes = b""


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """The clusters to assign to a chunk.

    Attributes:
        point: The chunk's new point on the map, or None if its point does not change.
    """

    chunk: AssignedChunk
    cluster_ids: tuple[str, ...]
    point: MapPoint | None = None


class Clusterings:
    """Reads the vectors of chunks, assigns chunks to clusters, and counts the clusters' sizes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Clustering | None:
        """Load the record of the last clustering, or None."""
        data = (await self._database.get(Reference(*_PATH))).fields
        return _CODEC.load(data) if data else None

    async def save(self, clustering: Clustering) -> None:
        """Store the record of a clustering."""
        await self._database.commit([self._build_clustering_write(asdict(clustering))])

    async def mark_uncounted(self) -> None:
        """Record that the members of all clusters must be counted again."""
        await self._database.commit([self._build_clustering_write({"uncounted": True})])

    async def set_mapped(self, *, is_mapped: bool) -> None:
        """Record whether the map shows the current clustering, and has room for more points."""
        await self._database.commit([self._build_clustering_write({"mapped": is_mapped})])

    async def count_embedded(self, model: str) -> int:
        """Count the chunks that have a vector of this model."""
        return await self._database.count(embedded_query(model))

    async def count_members(self) -> int:
        """Count the chunks that belong to a cluster."""
        return await self._database.count(Query(CHUNKS).where("cluster_id", ">", []))

    async def load_pending(self, limit: int, dimension: int) -> list[AssignedChunk]:
        """Load chunks that wait to be assigned to a cluster, the longest waiting first.

        Vectors of another length than `dimension` are not loaded.
        """
        query = Query(CHUNKS).order_by(f"pending.{STEP}").select(_FIELDS).limit(limit)
        return await self._to_chunks(await self._database.find(query), dimension)

    async def iterate_embedded(
        self, model: str, dimension: int
    ) -> AsyncIterator[list[AssignedChunk]]:
        """Yield all chunks with a vector of this model and length, page by page, ordered by id."""
        query = embedded_query(model).order_by("__name__")
        async for page in self._database.iterate(query.select(_FIELDS), READ_PAGE_SIZE):
            yield [chunk for chunk in await self._to_chunks(page, dimension) if chunk.vector]

    async def load_embedded_ids(self, model: str) -> set[str]:
        """Load the ids of the chunks that have a vector of this model."""
        query = embedded_query(model).order_by("__name__").select([])
        return {
            chunk.id async for page in self._database.iterate(query, ID_PAGE_SIZE) for chunk in page
        }

    async def _to_chunks(
        self, snapshots: Sequence[Document], dimension: int
    ) -> list[AssignedChunk]:
        """Convert documents to chunks, with their vectors if they have this length."""
        fields = {snapshot.id: snapshot.fields for snapshot in snapshots}
        vectors = read_compact(fields, dimension)
        return [
            replace(_to_chunk(snapshot), vector=vectors.get(snapshot.id, b""))
            for snapshot in snapshots
        ]

    async def load_texts(self, chunk_ids: Sequence[str]) -> dict[str, TitledText]:
        """Load the texts of the chunks that exist, by chunk id."""
        texts: dict[str, TitledText] = {}
        for block in split(chunk_ids, PAGE_SIZE):
            references = [Reference(CHUNKS, name) for name in block]
            for snapshot in await self._database.get_all(references, ["title", "content", "tags"]):
                data = snapshot.fields
                if "content" in data:
                    texts[snapshot.id] = TitledText(
                        data["title"], data["content"], tuple(data.get("tags", ()))
                    )
        return texts

    async def assign(
        self,
        assignments: Sequence[ClusterAssignment],
        now: datetime,
        *,
        count_as_changed: bool,
        current_map: KnowledgeMap | None = None,
    ) -> int:
        """Assign chunks to clusters. Chunks that were edited or deleted since the read are skipped.

        A chunk whose clusters change is indexed again. An assignment that is stored already costs
        no write.

        Args:
            now: The time from which the indexing is due.
            count_as_changed: Whether the chunks count as changed since the last clustering.
            current_map: The map that gets the points of the assignments, if they have any.

        Returns:
            The number of chunks written.
        """
        changed = [entry for entry in assignments if entry.chunk.pending or _is_change(entry)]
        return sum(
            [
                await self._assign(
                    block, now, count_as_changed=count_as_changed, current_map=current_map
                )
                for block in split(changed, PAGE_SIZE)
            ]
        )

    async def _assign(
        self,
        assignments: Sequence[ClusterAssignment],
        now: datetime,
        *,
        count_as_changed: bool,
        current_map: KnowledgeMap | None,
    ) -> int:
        """Assign a page of chunks in one commit. After a conflict, assign each chunk by itself."""

        def build_writes(page: Sequence[ClusterAssignment]) -> list[Write]:
            counts = {"changed": Increment(len(page)), "uncounted": True}
            changed = [self._build_clustering_write(counts)] if count_as_changed else []
            return [
                *(self._build_assignment_write(assignment, now) for assignment in page),
                *changed,
                *self._build_point_writes(page, current_map),
            ]

        try:
            await self._database.commit(build_writes(assignments))
        except WriteConflict:
            # Other jobs write to chunks, too. An assignment stays valid while the text is the same.
            unedited = await self._filter_unedited(assignments)
            return await self._database.commit_skipping_conflicts(
                [Together(build_writes([assignment])) for assignment in unedited]
            )
        return len(assignments)

    async def _filter_unedited(
        self, assignments: Sequence[ClusterAssignment]
    ) -> list[ClusterAssignment]:
        """Read the chunks again, and return the assignments of those whose text is unchanged."""
        by_id = {assignment.chunk.chunk_id: assignment for assignment in assignments}
        references = [Reference(CHUNKS, chunk_id) for chunk_id in by_id]
        fields = [name for name in _FIELDS if name != COMPACT]
        snapshots = await self._database.get_all(references, fields)
        return [
            replace(by_id[chunk.chunk_id], chunk=chunk)
            for chunk in map(_to_chunk, snapshots)
            if _identify_vector(chunk) == _identify_vector(by_id[chunk.chunk_id].chunk)
        ]

    async def recount(self, clustering: Clustering) -> int:
        """Count the chunks of each cluster, and delete empty clusters.

        The map gets the current names and sizes.

        Returns:
            The number of clusters written or deleted.
        """
        # The total is counted first. If chunks are deleted after that, the next run sees a lower
        # total, and counts again.
        members = await self.count_members()
        total = await Chunks(self._database).count()
        clusters = await self._database.find(clusters_query().select(["name", "size", "kinds"]))
        categories = await self._list_categories()
        sizes: dict[str, int] = {}
        writes: list[Write] = []
        for several in split(clusters, CONCURRENCY):
            counting = [self._count_chunks(cluster.id, categories) for cluster in several]
            for cluster, (size, kinds) in zip(
                several, await asyncio.gather(*counting), strict=True
            ):
                sizes[cluster.id] = size
                if not size:
                    writes.append(Delete(cluster.reference))
                elif (size, kinds) != (cluster.get("size"), cluster.fields.get("kinds")):
                    writes.append(Update(cluster.reference, {"size": size, "kinds": kinds}))
        for block in split(writes, PAGE_SIZE):
            await self._database.commit(block)
        names_and_sizes = {
            cluster.id: (cluster.get("name"), sizes[cluster.id]) for cluster in clusters
        }
        await Maps(self._database).update_clusters(names_and_sizes)
        lost = max(0, clustering.members - members)
        update = {"members": members, "uncounted": False, "changed": Increment(lost)}
        update["unclustered"] = max(0, total - members)
        await self._database.commit([self._build_clustering_write(update)])
        return len(writes)

    async def _list_categories(self) -> list[str]:
        """List the categories of all chunks. Costs a round trip for each category."""
        names = [""]
        query = Query(CHUNKS).order_by("category").select(["category"]).limit(1)
        while len(names) <= MAX_CATEGORIES:
            following = await self._database.find(query.where("category", ">", names[-1]))
            if not following:
                break
            names.append(following[0].get("category"))
        return names[1:]

    async def _count_chunks(
        self, cluster_id: str, categories: Sequence[str]
    ) -> tuple[int, dict[str, int]]:
        """Count the chunks in a cluster, in total and by category."""
        of_cluster = Query(CHUNKS).where("cluster_id", "array_contains", cluster_id)
        queries = [of_cluster, *(of_cluster.where("category", "==", name) for name in categories)]
        size, *counts = await asyncio.gather(*map(self._database.count, queries))
        kinds = zip(categories, counts, strict=True)
        return size, {name: count for name, count in kinds if count}

    def _build_assignment_write(self, assignment: ClusterAssignment, now: datetime) -> Write:
        change = build_step_done(STEP)
        if _is_change(assignment):
            change |= {"cluster_id": list(assignment.cluster_ids)} | build_step_pending(
                "index", now
            )
        reference = Reference(CHUNKS, assignment.chunk.chunk_id)
        return Update(reference, change, assignment.chunk.update_time)

    def _build_point_writes(
        self, assignments: Sequence[ClusterAssignment], current_map: KnowledgeMap | None
    ) -> list[Write]:
        points = {entry.chunk.chunk_id: entry.point for entry in assignments if entry.point}
        return Maps(self._database).build_point_writes(current_map, points) if current_map else []

    def _build_clustering_write(self, change: dict[str, Any]) -> Write:
        reference = Reference(*_PATH)
        return Set(reference, change, merge=True)


def embedded_query(model: str) -> Query:
    """Build the query for the chunks that have a vector of a model."""
    return Query(CHUNKS).where("embedding_model", "==", model)


def _to_chunk(snapshot: Document) -> AssignedChunk:
    data = snapshot.fields
    return AssignedChunk(
        chunk_id=snapshot.id,
        model=data.get("embedding_model", ""),
        content_hash=data.get("content_hash", ""),
        cluster_ids=tuple(data.get("cluster_id") or ()),
        pending=STEP in data.get("pending", {}),
        update_time=snapshot.update_time,
    )


def _identify_vector(chunk: AssignedChunk) -> tuple[str, str]:
    """Return what determines a chunk's vector: the model, and the hash of the text."""
    return chunk.model, chunk.content_hash


def _is_change(assignment: ClusterAssignment) -> bool:
    return assignment.cluster_ids != assignment.chunk.cluster_ids
