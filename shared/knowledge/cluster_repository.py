"""`clusters/{cluster_id}`: topics, and which chunks belong to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption, Query
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.firestore.codec import Codec
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import step_done, step_pending
from shared.knowledge.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write

    Snapshots = dict[str, DocumentSnapshot[Any]]

COLLECTION: Final = "clusters"
BLOCK: Final = 200
"""How many documents are read at once, and written in one commit."""
BY_HAND: Final = "hand"
BY_WORDS: Final = "words"
BY_WORDS_ALONE: Final = "words alone"
"""See `ClusterWithCentroid.named_by`."""
_CODEC: Final = Codec(Cluster, "cluster_id")
_FIELDS: Final = _CODEC.stored_names
"""What a reader sees of a cluster: everything but its centroid."""
_NAMING: Final = ("name", "description", "keywords", "named_by")
"""What says how a cluster is called."""
_DISTANCE: Final = "distance"


@dataclass(frozen=True, slots=True)
class ClusterWithCentroid:
    """A cluster with what the next run has to know of it.

    Attributes:
        centroid: The normalised mean of its members' vectors.
        reach: The least similarity to the centroid of a chunk that joins it; 1: none does.
        named_by: `hand` where a person did, as of the sample's; `words` while a language model
            could still name it, `words alone` where that refused to; else the model.
        central: Ids of its most central chunks when it was named, the most central first.
        members_hash: Tells what members the run gave it.
    """

    cluster: Cluster
    centroid: Vector
    reach: float = 1.0
    named_by: str = BY_HAND
    central: tuple[str, ...] = ()
    members_hash: str = ""


@dataclass(frozen=True, slots=True)
class ClusterNeighbour:
    """A cluster found by its centroid; similarity is the cosine, from 0 to 1."""

    cluster: Cluster
    similarity: float


class Clusters:
    """Reads clusters, and writes what is found or said of them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def get(self, cluster_id: str) -> ClusterWithCentroid | None:
        """The cluster of this id, or None. One round trip."""
        reference = self._database.document(COLLECTION, cluster_id)
        snapshot = await self._database.get(reference)
        if not snapshot.exists:
            return None
        return _centred(snapshot)

    async def every(self) -> list[ClusterWithCentroid]:
        """All clusters, by their ids."""
        found = await self._every(clusters_query(self._database.client))
        return [_centred(snapshot) for snapshot in found.values()]

    async def unnamed(self, limit: int) -> list[ClusterWithCentroid]:
        """Clusters that a language model could name. One round trip."""
        query = unnamed_query(self._database.client).limit(limit)
        return [_centred(snapshot) for snapshot in await self._database.find(query)]

    async def rename(self, cluster: Cluster, named_by: str) -> None:
        """Store what a cluster is called, and who called it so."""
        change = {
            "name": cluster.name,
            "description": cluster.description,
            "keywords": list(cluster.keywords),
            "named_by": named_by,
        }
        reference = self._database.document(COLLECTION, cluster.cluster_id)
        await self._database.commit([lambda batch: batch.update(reference, change)])

    async def put(self, clusters: Sequence[ClusterWithCentroid]) -> int:
        """Write clusters as they are, and leave the others; return how many were written."""
        writes = [
            _replacement(
                self._database.document(COLLECTION, each.cluster.cluster_id), document(each)
            )
            for each in clusters
        ]
        return await self._commit(writes)

    async def get_all(self, cluster_ids: Sequence[str]) -> list[Cluster]:
        """The clusters that exist among those named, in the order named, in one round trip."""
        references = [self._database.document(COLLECTION, name) for name in cluster_ids]
        snapshots = await self._database.get_all(references, _FIELDS)
        found = {snapshot.id: _cluster(snapshot) for snapshot in snapshots}
        return [found[name] for name in cluster_ids if name in found]

    async def largest(self, limit: int, after: tuple[int, str] | None = None) -> list[Cluster]:
        """The clusters with the most chunks first; of one size, in the order of their ids, down.

        Args:
            limit: How many.
            after: Size and id of the last cluster that was shown.
        """
        query = largest_query(self._database.client, limit, after)
        return [_cluster(snapshot) for snapshot in await self._database.find(query)]

    async def nearest(self, centroid: Vector, limit: int) -> list[ClusterNeighbour]:
        """The clusters whose centroids are closest, best first. One round trip."""
        query = nearest_query(self._database.client, centroid, limit)
        return [_related(snapshot) for snapshot in await self._database.find(query)]

    async def count(self) -> int:
        """How many clusters there are. One round trip."""
        return await self._database.count(clusters_query(self._database.client))

    async def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those chunks that have one: what centroids are made of."""
        stored = await self._chunks(chunk_ids, "embedding")
        return {
            chunk_id: tuple(vector)
            for chunk_id, snapshot in stored.items()
            if (vector := _fields(snapshot).get("embedding")) is not None
        }

    async def save(
        self,
        clusters: Sequence[ClusterWithCentroid],
        members: Mapping[str, Sequence[str]],
        run_id: str,
        now: datetime,
    ) -> int:
        """Have these clusters, with these members, beside all others.

        A cluster that is there already keeps what runs know of it, and is only called as it is to
        be called. A chunk keeps the clusters that are not among these, and a chunk that is not
        named keeps all. What is so already costs reads and no write; a run that is killed is
        completed by the next.

        A chunk whose clusters change is to be indexed again. One that is gone, or changes
        meanwhile, is passed over; a new cluster that has no other is left out.

        Args:
            clusters: The clusters; the sizes of new ones are counted here.
            members: Cluster id to chunk ids. A chunk's clusters keep the order of `clusters`.
            run_id: The run that new ones belong to.
            now: The time to stamp on what is written.

        Returns:
            How many documents were written.
        """
        names = [each.cluster.cluster_id for each in clusters]
        stored = await self._stored(names)
        wanted = sorted({chunk_id for name in names for chunk_id in members[name]})
        chunks = await self._chunks(wanted, "cluster_id")
        memberships = _memberships(clusters, members, chunks)
        sizes = Counter(name for found in memberships.values() for name in found)
        new = [
            _counted(each, sizes[each.cluster.cluster_id], run_id, now)
            for each in clusters
            if each.cluster.cluster_id not in stored and sizes[each.cluster.cluster_id]
        ]
        written = await self.put(new)
        written += await self._commit(_name_writes(clusters, stored))
        return written + await self._commit(_chunk_writes(chunks, memberships, set(names), now))

    async def _stored(self, cluster_ids: Sequence[str]) -> Snapshots:
        """What there is of these clusters."""
        found: Snapshots = {}
        for start in range(0, len(cluster_ids), BLOCK):
            block = cluster_ids[start : start + BLOCK]
            references = [self._database.document(COLLECTION, name) for name in block]
            snapshots = await self._database.get_all(references, list(_NAMING))
            found |= {each.id: each for each in snapshots}
        return found

    async def _chunks(self, chunk_ids: Sequence[str], field: str) -> Snapshots:
        """One field of the chunks that exist; a deleted one may wait for the index to forget it."""
        found: Snapshots = {}
        for start in range(0, len(chunk_ids), BLOCK):
            block = chunk_ids[start : start + BLOCK]
            references = [self._database.document(CHUNKS, chunk_id) for chunk_id in block]
            snapshots = await self._database.get_all(references, [field, "deleted_at"])
            found |= {each.id: each for each in snapshots if "deleted_at" not in _fields(each)}
        return found

    async def _every(self, query: AsyncQuery) -> Snapshots:
        """All that a query finds, which sorts by name, page by page."""
        found: Snapshots = {}
        page = await self._database.find(query.limit(BLOCK))
        while page:
            found |= {snapshot.id: snapshot for snapshot in page}
            if len(page) < BLOCK:
                break
            page = await self._database.find(query.start_after(page[-1]).limit(BLOCK))
        return found

    async def _commit(self, writes: Iterable[Write]) -> int:
        listed = list(writes)
        blocks = (listed[start : start + BLOCK] for start in range(0, len(listed), BLOCK))
        return sum([await self._database.commit_skipping_conflicts(block) for block in blocks])


def largest_query(client: AsyncClient, limit: int, after: tuple[int, str] | None) -> AsyncQuery:
    """A page of clusters. Both fields descend, which needs no index of their own."""
    collection = client.collection(COLLECTION)
    query = collection.order_by("size", direction=Query.DESCENDING)
    query = query.order_by("__name__", direction=Query.DESCENDING)
    if after:
        size, name = after
        query = query.start_after({"size": size, "__name__": collection.document(name)})
    return query.select(_FIELDS).limit(limit)


def nearest_query(client: AsyncClient, centroid: Vector, limit: int) -> AsyncVectorQuery:
    """Neighbours of a centroid, without their centroids."""
    return (
        client.collection(COLLECTION)
        .select([*_FIELDS, _DISTANCE])
        .find_nearest(
            "centroid",
            FirestoreVector(list(centroid)),
            limit=limit,
            distance_measure=DistanceMeasure.COSINE,
            distance_result_field=_DISTANCE,
        )
    )


def clusters_query(client: AsyncClient) -> AsyncQuery:
    """Every cluster with its centroid, which a run compares with its own."""
    return client.collection(COLLECTION).order_by("__name__")


def unnamed_query(client: AsyncClient) -> AsyncQuery:
    """Clusters that are named by words for want of a language model."""
    unnamed = FieldFilter("named_by", "==", BY_WORDS)
    return client.collection(COLLECTION).where(filter=unnamed)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield largest_query(client, 1, None)
    yield largest_query(client, 1, (1, "a"))
    yield nearest_query(client, (1.0,), 1)
    yield clusters_query(client)
    yield unnamed_query(client).limit(1)


def _memberships(
    clusters: Sequence[ClusterWithCentroid],
    members: Mapping[str, Sequence[str]],
    chunks: Snapshots,
) -> dict[str, list[str]]:
    """Chunk id to cluster ids, for chunks that exist."""
    memberships: dict[str, list[str]] = {}
    for each in clusters:
        cluster_id = each.cluster.cluster_id
        for chunk_id in dict.fromkeys(members[cluster_id]):
            if chunk_id in chunks:
                memberships.setdefault(chunk_id, []).append(cluster_id)
    return memberships


def _name_writes(clusters: Sequence[ClusterWithCentroid], stored: Snapshots) -> Iterator[Write]:
    """Call clusters that are there as they are to be called."""
    for each in clusters:
        if snapshot := stored.get(each.cluster.cluster_id):
            wanted = {field: document(each)[field] for field in _NAMING}
            if _fields(snapshot) != wanted:
                yield _update(snapshot, wanted)


def _chunk_writes(
    chunks: Snapshots, memberships: Mapping[str, list[str]], ours: Collection[str], now: datetime
) -> Iterator[Write]:
    for chunk_id, snapshot in chunks.items():
        present = _fields(snapshot).get("cluster_id") or []
        others = [name for name in present if name not in ours]
        wanted = memberships[chunk_id] + others
        if present != wanted:
            yield _update(
                snapshot, {"cluster_id": wanted} | step_pending("index", now) | step_done("cluster")
            )


def document(each: ClusterWithCentroid) -> dict[str, Any]:
    """How a cluster is laid out."""
    return _CODEC.write(each.cluster) | {
        "centroid": FirestoreVector(list(each.centroid)),
        "reach": each.reach,
        "named_by": each.named_by,
        "central": list(each.central),
        "members_hash": each.members_hash,
    }


def _counted(
    each: ClusterWithCentroid, size: int, run_id: str, now: datetime
) -> ClusterWithCentroid:
    return replace(each, cluster=replace(each.cluster, size=size, run_id=run_id, created_at=now))


def _replacement(reference: AsyncDocumentReference, document: dict[str, Any]) -> Write:
    return lambda batch: batch.set(reference, document)


def _update(snapshot: DocumentSnapshot[Any], change: dict[str, Any]) -> Write:
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.update(snapshot.reference, change, option)


def _deletion(snapshot: DocumentSnapshot[Any]) -> Write:
    return lambda batch: batch.delete(snapshot.reference)


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}


def _cluster(snapshot: DocumentSnapshot[Any]) -> Cluster:
    return _CODEC.read(snapshot.id, _fields(snapshot))


def _centred(snapshot: DocumentSnapshot[Any]) -> ClusterWithCentroid:
    data = _fields(snapshot)
    return ClusterWithCentroid(
        cluster=_cluster(snapshot),
        centroid=tuple(data["centroid"]),
        reach=data.get("reach", 1.0),
        named_by=data.get("named_by", BY_HAND),
        central=tuple(data.get("central") or ()),
        members_hash=data.get("members_hash", ""),
    )


def _related(snapshot: DocumentSnapshot[Any]) -> ClusterNeighbour:
    similarity = min(1.0, max(0.0, 1.0 - _fields(snapshot)[_DISTANCE]))
    return ClusterNeighbour(_cluster(snapshot), similarity)
