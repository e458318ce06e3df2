"""Matches new clusters with those of the previous run, and plans the clusters to store."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.ai.vector_halves import ENGLISH_DIMENSION, TWO_HALVES
from shared.clustering.matching import ClusterMatch, match_clusters
from shared.clustering.naming import ClusterDescription
from shared.core.ids import IdKind, make_id
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import BY_WORDS, ClusterWithCentroid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from shared.clustering.clusters import VectorCluster
    from shared.knowledge.clustering_repository import AssignedChunk

NAMING_SAMPLE_SIZE: Final = 30
"""A cluster is named by this many chunks, the most central ones."""
MIN_OVERLAP: Final = 0.5
"""A cluster keeps its name if two ratios are at least this: the Jaccard index of its members and
the previous members, and the share of the chunks by which it was named that are still in it."""


def to_matrix(vectors: Sequence[bytes], model: str) -> NDArray[np.float32]:
    """Return compact vectors of a model as unit vectors, `(vectors, dimension)`.

    Of vectors with two halves, only the multilingual half counts.
    """
    numbers = np.frombuffer(b"".join(vectors), "<f2")
    matrix = numbers.astype(np.float32).reshape(len(vectors), -1)
    if model != TWO_HALVES:
        return matrix
    halves: NDArray[np.float32] = matrix[:, ENGLISH_DIMENSION:]
    units: NDArray[np.float32] = halves / np.linalg.norm(halves, axis=1, keepdims=True)
    return units


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster to store.

    Attributes:
        members: The ids of its chunks, the most central first.
        cluster_id: The id of the matching previous cluster, or a new id if there is none.
        description: The description that it keeps, or None if it needs a new one.
    """

    new_cluster: VectorCluster
    members: tuple[str, ...]
    cluster_id: str
    previous: ClusterWithCentroid | None
    description: ClusterDescription | None

    def build_cluster(
        self, description: ClusterDescription, run_id: str, now: datetime
    ) -> ClusterWithCentroid:
        """Build the cluster to store."""
        # A name that stays keeps its author, and the sample of chunks that it was made for.
        named_cluster = self.previous if self.description else None
        return ClusterWithCentroid(
            cluster=Cluster(
                cluster_id=self.cluster_id,
                name=description.name,
                description=description.description,
                keywords=description.keywords,
                size=len(self.members),
                run_id=run_id,
                created_at=self.previous.cluster.created_at if self.previous else now,
            ),
            centroid=tuple(self.new_cluster.centroid.tolist()),
            min_similarity=self.new_cluster.min_similarity,
            named_by=named_cluster.named_by if named_cluster else BY_WORDS,
            central_chunk_ids=(named_cluster.central_chunk_ids if named_cluster else ())
            or self.members[:NAMING_SAMPLE_SIZE],
            members_hash=hash_members(self.members),
        )


def plan_clusters(
    new_clusters: Sequence[VectorCluster],
    chunks: Sequence[AssignedChunk],
    clusters: Sequence[ClusterWithCentroid],
) -> list[ClusterPlan]:
    """Match new clusters with previous ones, and plan the clusters to store.

    Args:
        new_clusters: The new clusters; their rows are positions in `chunks`.
        clusters: The stored clusters of previous runs.
    """
    previous_clusters = {cluster.cluster.cluster_id: cluster for cluster in clusters}
    members = [tuple(chunks[row].chunk_id for row in cluster.members) for cluster in new_clusters]
    plans: list[ClusterPlan] = []
    used_ids = set(previous_clusters)
    matches = _match_with_previous(members, chunks, previous_clusters)
    for new_cluster, chunk_ids, match in zip(new_clusters, members, matches, strict=True):
        cluster_id = match.cluster_id if match else _derive_id(chunk_ids, used_ids)
        used_ids.add(cluster_id)
        previous_cluster = previous_clusters.get(cluster_id)
        description = (
            _keep_description(previous_cluster, match, chunk_ids)
            if previous_cluster and match
            else None
        )
        plans.append(ClusterPlan(new_cluster, chunk_ids, cluster_id, previous_cluster, description))
    return plans


def hash_members(members: Collection[str]) -> str:
    """Hash the members. Their order does not matter."""
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()


def _match_with_previous(
    new_members: Sequence[Sequence[str]],
    chunks: Sequence[AssignedChunk],
    previous: Mapping[str, ClusterWithCentroid],
) -> list[ClusterMatch | None]:
    """Match each new cluster with a previous one, if possible.

    A new cluster whose members have the stored hash of a previous cluster is that cluster. This way
    the next run can complete one that was killed while it assigned chunks.
    """
    ids_by_hash = {
        cluster.members_hash: cluster_id
        for cluster_id, cluster in previous.items()
        if cluster.members_hash
    }
    exact_matches = [ids_by_hash.get(hash_members(members)) for members in new_members]
    unmatched = [index for index, cluster_id in enumerate(exact_matches) if cluster_id is None]
    previous_members = _collect_members(previous.keys() - set(exact_matches), chunks)
    matches = [
        ClusterMatch(cluster_id, 1.0) if cluster_id else None for cluster_id in exact_matches
    ]
    similar_matches = match_clusters([new_members[index] for index in unmatched], previous_members)
    for index, match in zip(unmatched, similar_matches, strict=True):
        matches[index] = match
    return matches


def _collect_members(
    cluster_ids: Collection[str], chunks: Sequence[AssignedChunk]
) -> dict[str, list[str]]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        for cluster_id in chunk.cluster_ids:
            if cluster_id in cluster_ids:
                members[cluster_id].append(chunk.chunk_id)
    return members


def _keep_description(
    previous: ClusterWithCentroid, match: ClusterMatch, members: Sequence[str]
) -> ClusterDescription | None:
    """Return the description of a previous cluster, or None if its members changed too much."""
    remaining_sample = set(previous.central_chunk_ids) & set(members)
    if match.similarity < MIN_OVERLAP or len(remaining_sample) < MIN_OVERLAP * len(
        previous.central_chunk_ids
    ):
        return None
    cluster = previous.cluster
    return ClusterDescription(cluster.name, cluster.description or "", cluster.keywords)


def _derive_id(members: Sequence[str], used_ids: Collection[str]) -> str:
    ids = (make_id(IdKind.CLUSTER, f"{hash_members(members)}-{n}") for n in count(1))
    return next(cluster_id for cluster_id in ids if cluster_id not in used_ids)
