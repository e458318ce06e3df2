"""Stores clusters in `clusters/{cluster_id}`."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import Vector as StoredVector
from shared.firestore.writes import Set, Update
from shared.knowledge.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database

    NamesCache = dict[str, tuple[float, str]]
    """By cluster id, the time at which the name was read, and the name."""

COLLECTION: Final = "clusters"
FRESH_SECONDS: Final = 60.0
"""How many seconds the name of a cluster stays in the cache of the process."""
BATCH_SIZE: Final = 200
"""The number of documents that one round trip reads, and that one commit writes."""
BY_HAND: Final = "hand"
"""The `named_by` of clusters that a person named, such as those of the sample knowledge base."""
BY_WORDS: Final = "words"
"""The `named_by` of clusters that are named by tags, titles and words, until a language model names
them."""
BY_WORDS_ALONE: Final = "words alone"
"""The `named_by` of clusters that stay named by their words, because the language model refused
their passages or returned no valid name."""
_CODEC: Final = Codec(
    Cluster, "cluster_id", readers={"kinds": lambda kinds: dict(Counter(kinds).most_common())}
)
_FIELDS: Final = _CODEC.stored_names
"""The fields of `Cluster`, without the centroid and what only the next clustering run needs."""
_DISTANCE: Final = "distance"


@dataclass(frozen=True, slots=True)
class ClusterWithCentroid:
    """A cluster with what the next clustering run needs.

    Attributes:
        centroid: The normalised mean of the vectors of its core.
        min_similarity: The minimum similarity to the centroid with which a chunk joins later; 1
            means that none joins. Stored as `reach`.
        named_by: BY_HAND, BY_WORDS, BY_WORDS_ALONE, or the language model that named it.
        central_chunk_ids: The ids of the chunks that were nearest to the centroid when the cluster
            was named, nearest first. Stored as `central`.
        members_hash: A hash of its members when it was found last.
    """

    cluster: Cluster
    centroid: Vector
    min_similarity: float = 1.0
    named_by: str = BY_HAND
    central_chunk_ids: tuple[str, ...] = ()
    members_hash: str = ""


@dataclass(frozen=True, slots=True)
class ClusterNeighbour:
    """A cluster, and the similarity of its centroid and another one: the cosine, from 0 to 1."""

    cluster: Cluster
    similarity: float


class Clusters:
    """Reads and writes clusters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, cluster_id: str) -> ClusterWithCentroid | None:
        """Load a cluster, or None. Costs one round trip."""
        reference = Reference(COLLECTION, cluster_id)
        snapshot = await self._database.get(reference)
        if not snapshot.exists:
            return None
        return _to_cluster_with_centroid(snapshot)

    async def load_all(self) -> list[ClusterWithCentroid]:
        """Load all clusters, sorted by id. Costs a round trip for every BATCH_SIZE clusters."""
        pages = self._database.iterate(clusters_query(), BATCH_SIZE)
        return [_to_cluster_with_centroid(snapshot) async for page in pages for snapshot in page]

    async def list_named_by_words(self, limit: int) -> list[ClusterWithCentroid]:
        """Load clusters that a language model could still name. Costs one round trip."""
        query = Query(COLLECTION).where("named_by", "==", BY_WORDS).limit(limit)
        return [
            _to_cluster_with_centroid(snapshot) for snapshot in await self._database.find(query)
        ]

    async def rename(self, cluster: Cluster, named_by: str) -> None:
        """Store the name of a cluster, and the author of the name."""
        change = {
            "name": cluster.name,
            "description": cluster.description,
            "keywords": list(cluster.keywords),
            "named_by": named_by,
        }
        reference = Reference(COLLECTION, cluster.cluster_id)
        await self._database.commit([Update(reference, change)])

    async def put_clusters(self, clusters: Sequence[ClusterWithCentroid]) -> int:
        """Store or replace these clusters, but not their members. Return the number of writes."""
        writes = [
            Set(Reference(COLLECTION, entry.cluster.cluster_id), to_document(entry))
            for entry in clusters
        ]
        return await self._database.commit_skipping_conflicts(writes, BATCH_SIZE)

    async def get_many(self, cluster_ids: Sequence[str]) -> list[Cluster]:
        """Load these clusters in this order, without missing ones. Costs one round trip."""
        references = [Reference(COLLECTION, cluster_id) for cluster_id in cluster_ids]
        snapshots = await self._database.get_all(references, _FIELDS)
        clusters = {snapshot.id: _to_cluster(snapshot) for snapshot in snapshots}
        return [clusters[cluster_id] for cluster_id in cluster_ids if cluster_id in clusters]

    async def list_names(self, cluster_ids: Collection[str]) -> dict[str, str]:
        """Load the names of these clusters by id, without missing ones.

        Costs one round trip, or none if all names are in the cache of the process.
        """
        now = time.monotonic()
        cache: NamesCache = self._database.cache("cluster_names")
        names = {
            cluster_id: cache[cluster_id][1]
            for cluster_id in cluster_ids
            if cluster_id in cache and now - cache[cluster_id][0] < FRESH_SECONDS
        }
        for cluster in await self.get_many(sorted(set(cluster_ids) - names.keys())):
            cache[cluster.cluster_id] = now, cluster.name
            names[cluster.cluster_id] = cluster.name
        return names

    async def list_largest(self, limit: int, after: tuple[int, str] | None = None) -> list[Cluster]:
        """Load the largest clusters, largest first. Equally large ones are sorted by descending id.

        Costs one round trip.

        Args:
            after: The size and the id of the previous page's last cluster.
        """
        query = largest_query(limit, after)
        return [_to_cluster(snapshot) for snapshot in await self._database.find(query)]

    async def find_nearest(self, centroid: Vector, limit: int) -> list[ClusterNeighbour]:
        """Find the clusters whose centroids are nearest to a centroid. Costs one round trip.

        The nearest cluster is first.
        """
        query = nearest_query(centroid, limit)
        return [_to_neighbour(snapshot) for snapshot in await self._database.find(query)]

    async def count(self) -> int:
        """Count the clusters. Costs one round trip."""
        return await self._database.count(clusters_query())


def largest_query(limit: int, after: tuple[int, str] | None) -> Query:
    """Build the query for a page of clusters.

    Both sort keys descend, so no composite index is needed.
    """
    query = Query(COLLECTION).order_by("size", descending=True)
    query = query.order_by("__name__", descending=True)
    if after:
        size, cluster_id = after
        query = query.start_after({"size": size, "__name__": Reference(COLLECTION, cluster_id)})
    return query.select(_FIELDS).limit(limit)


def nearest_query(centroid: Vector, limit: int) -> Query:
    """Build the query for the neighbours of a centroid, without their centroids."""
    return (
        Query(COLLECTION)
        .select([*_FIELDS, _DISTANCE])
        .find_nearest(
            "centroid",
            centroid,
            limit,
            distance_field=_DISTANCE,
        )
    )


def clusters_query() -> Query:
    """Build the query for every cluster with its centroid."""
    return Query(COLLECTION).order_by("__name__")


def to_document(entry: ClusterWithCentroid) -> dict[str, Any]:
    """Return the stored fields of a cluster."""
    return _CODEC.write(entry.cluster) | {
        "centroid": StoredVector(list(entry.centroid)),
        "reach": entry.min_similarity,
        "named_by": entry.named_by,
        "central": list(entry.central_chunk_ids),
        "members_hash": entry.members_hash,
    }


def _to_cluster(snapshot: Document) -> Cluster:
    return _CODEC.read(snapshot.id, snapshot.fields)


def _to_cluster_with_centroid(snapshot: Document) -> ClusterWithCentroid:
    data = snapshot.fields
    return ClusterWithCentroid(
        cluster=_to_cluster(snapshot),
        centroid=tuple(data["centroid"]),
        min_similarity=data.get("reach", 1.0),
        named_by=data.get("named_by", BY_HAND),
        central_chunk_ids=tuple(data.get("central") or ()),
        members_hash=data.get("members_hash", ""),
    )


def _to_neighbour(snapshot: Document) -> ClusterNeighbour:
    similarity = min(1.0, max(0.0, 1.0 - snapshot.fields[_DISTANCE]))
    return ClusterNeighbour(_to_cluster(snapshot), similarity)
