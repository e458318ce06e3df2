"""Recognising clusters of a former run, and planning what is stored of each cluster."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from shared.clustering.matching import ClusterMatch, match_clusters
from shared.clustering.naming import ClusterDescription
from shared.clustering.projection import project
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import BY_WORDS, ClusterWithCentroid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from shared.clustering.clusters import VectorCluster
    from shared.knowledge.clustering_repository import AssignedChunk

CENTRAL: Final = 30
"""A cluster is named by this many of its passages, the most central."""
MIN_OVERLAP: Final = 0.5
"""A cluster keeps its name if it shares at least this much with what it was, and with the passages
by which it was named."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster as it is to be stored.

    Attributes:
        vectors: The centroid, reach and members that were found.
        members: The ids of its passages, the most central first.
        position: Its position on the map.
        cluster_id: Its id: that of the stored cluster, if it was recognised.
        stored: The stored cluster, if it was recognised.
        description: Its present description; None if it needs a new one.
    """

    vectors: VectorCluster
    members: tuple[str, ...]
    position: tuple[float, float]
    cluster_id: str
    stored: ClusterWithCentroid | None
    description: ClusterDescription | None

    def cluster(
        self, description: ClusterDescription, run_id: str, now: datetime
    ) -> ClusterWithCentroid:
        """The cluster to store.

        Args:
            description: Its name and description.
            run_id: The run that found it.
            now: The time of writing.
        """
        named = self.stored if self.description else None
        x, y = self.position
        return ClusterWithCentroid(
            cluster=Cluster(
                cluster_id=self.cluster_id,
                name=description.name,
                description=description.description,
                keywords=description.keywords,
                size=len(self.members),
                x=x,
                y=y,
                run_id=run_id,
                created_at=self.stored.cluster.created_at if self.stored else now,
            ),
            centroid=tuple(self.vectors.centroid.tolist()),
            reach=self.vectors.reach,
            named_by=named.named_by if named else BY_WORDS,
            central=(named.central if named else ()) or self.members[:CENTRAL],
            members_hash=hash_of(self.members),
        )


def plan_clusters(
    new_clusters: Sequence[VectorCluster],
    chunks: Sequence[AssignedChunk],
    clusters: Sequence[ClusterWithCentroid],
) -> list[ClusterPlan]:
    """Match new clusters with stored ones.

    Args:
        new_clusters: The new clusters; their rows are positions in `chunks`.
        chunks: All passages, with their present clusters.
        clusters: The stored clusters.
    """
    stored = {entry.cluster.cluster_id: entry for entry in clusters}
    members = [tuple(chunks[row].chunk_id for row in cluster.members) for cluster in new_clusters]
    positions = project([cluster.centroid for cluster in new_clusters])
    plans: list[ClusterPlan] = []
    used = set(stored)
    rows = zip(new_clusters, positions, members, _match(members, chunks, stored), strict=True)
    for vectors, position, chunk_ids, match in rows:
        cluster_id = match.cluster_id if match else _new_id(chunk_ids, used)
        used.add(cluster_id)
        former = stored.get(cluster_id)
        description = _kept_description(former, match, chunk_ids) if former and match else None
        plans.append(ClusterPlan(vectors, chunk_ids, position, cluster_id, former, description))
    return plans


def hash_of(members: Collection[str]) -> str:
    """A hash of the members, whatever their order."""
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()


def _match(
    new_members: Sequence[Sequence[str]],
    chunks: Sequence[AssignedChunk],
    stored: Mapping[str, ClusterWithCentroid],
) -> list[ClusterMatch | None]:
    """Match each new cluster with a stored one, if possible.

    A cluster with exactly the members that a former run planned for a stored one is that cluster:
    so a run that was killed while it moved passages is understood by the next.
    """
    by_hash = {
        entry.members_hash: cluster_id for cluster_id, entry in stored.items() if entry.members_hash
    }
    exact = [by_hash.get(hash_of(members)) for members in new_members]
    unmatched = [number for number, cluster_id in enumerate(exact) if cluster_id is None]
    former_members = _members_of(stored.keys() - set(exact), chunks)
    result = [ClusterMatch(cluster_id, 1.0) if cluster_id else None for cluster_id in exact]
    similar = match_clusters([new_members[number] for number in unmatched], former_members)
    for number, match in zip(unmatched, similar, strict=True):
        result[number] = match
    return result


def _members_of(
    cluster_ids: Collection[str], chunks: Sequence[AssignedChunk]
) -> dict[str, list[str]]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        for cluster_id in chunk.cluster_ids:
            if cluster_id in cluster_ids:
                members[cluster_id].append(chunk.chunk_id)
    return members


def _kept_description(
    stored: ClusterWithCentroid, match: ClusterMatch, members: Sequence[str]
) -> ClusterDescription | None:
    """The description of a stored cluster, if it still fits: clusters drift with every run."""
    remaining = set(stored.central) & set(members)
    if match.similarity < MIN_OVERLAP or len(remaining) < MIN_OVERLAP * len(stored.central):
        return None
    cluster = stored.cluster
    return ClusterDescription(cluster.name, cluster.description or "", cluster.keywords)


def _new_id(members: Sequence[str], used: Collection[str]) -> str:
    """An unused id. The prefix `topic-` is part of stored ids."""
    base = f"topic-{hash_of(members)[:12]}"
    if base not in used:
        return base
    return next(name for n in count(2) if (name := f"{base}-{n}") not in used)
