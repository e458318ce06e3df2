"""Which of the topics that were found are known already, and what they keep."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from shared.clustering.matching import ClusterMatch, matches
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
"""Passages of a topic, the most central, after which it is named."""
NEARLY_THE_SAME: Final = 0.5
"""How much a topic must have in common with what it was, and with what it was named after, to keep
its name."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A topic as it is to be.

    Attributes:
        topic: As it was found.
        members: The ids of its passages, the most central first.
        place: Where it stands on the map.
        cluster_id: Its id, the one by which it is known if it is.
        known: What is stored of it already.
        description: What it is called; None: it has no name that still fits.
    """

    topic: VectorCluster
    members: tuple[str, ...]
    place: tuple[float, float]
    cluster_id: str
    known: ClusterWithCentroid | None
    description: ClusterDescription | None

    def cluster(
        self, description: ClusterDescription, run_id: str, now: datetime
    ) -> ClusterWithCentroid:
        """What is stored of it.

        Args:
            description: What it is called.
            run_id: The run that found it.
            now: When it is written.
        """
        kept = self.known if self.description else None
        x, y = self.place
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
                created_at=self.known.cluster.created_at if self.known else now,
            ),
            centroid=tuple(self.topic.centroid.tolist()),
            reach=self.topic.reach,
            named_by=kept.named_by if kept else BY_WORDS,
            central=(kept.central if kept else ()) or self.members[:CENTRAL],
            members_hash=hash_of(self.members),
        )


def plan_clusters(
    topics: Sequence[VectorCluster],
    chunks: Sequence[AssignedChunk],
    clusters: Sequence[ClusterWithCentroid],
) -> list[ClusterPlan]:
    """Find out which topics are known.

    Args:
        topics: What was found; its rows are places in `chunks`.
        chunks: All passages, with the topics that they belong to now.
        clusters: What is stored.
    """
    stored = {each.cluster.cluster_id: each for each in clusters}
    members = [_members(topic, chunks) for topic in topics]
    places = project([topic.centroid for topic in topics])
    plans: list[ClusterPlan] = []
    used = set(stored)
    pairs = zip(members, _matched(members, chunks, stored), strict=True)
    for topic, place, (ids, match) in zip(topics, places, pairs, strict=True):
        cluster_id = match.cluster_id if match else _new_id(ids, used)
        used.add(cluster_id)
        present = stored.get(cluster_id)
        named = _kept(present, match.likeness, ids) if present and match else None
        plans.append(ClusterPlan(topic, ids, place, cluster_id, present, named))
    return plans


def _members(topic: VectorCluster, chunks: Sequence[AssignedChunk]) -> tuple[str, ...]:
    return tuple(chunks[row].chunk_id for row in topic.members)


def _called(present: ClusterWithCentroid) -> ClusterDescription:
    cluster = present.cluster
    return ClusterDescription(cluster.name, cluster.description or "", cluster.keywords)


def hash_of(members: Collection[str]) -> str:
    """Changes when the members do."""
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()


def _matched(
    topics: Sequence[Sequence[str]],
    chunks: Sequence[AssignedChunk],
    known: Mapping[str, ClusterWithCentroid],
) -> list[ClusterMatch | None]:
    """The match of each topic, if it has one.

    What has exactly the members that some run gave it is what that run made: so a run that was
    killed while it moved passages from one topic to another is understood by the next.
    """
    by_hash = {each.members_hash: name for name, each in known.items() if each.members_hash}
    exact = [by_hash.get(hash_of(members)) for members in topics]
    open_topics = [number for number, name in enumerate(exact) if name is None]
    before = _members_before(chunks, known.keys() - set(exact))
    found = [ClusterMatch(name, 1.0) if name else None for name in exact]
    others = matches([topics[number] for number in open_topics], before)
    for number, match in zip(open_topics, others, strict=True):
        found[number] = match
    return found


def _members_before(
    chunks: Sequence[AssignedChunk], names: Collection[str]
) -> dict[str, list[str]]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        for name in chunk.cluster_ids:
            if name in names:
                members[name].append(chunk.chunk_id)
    return members


def _kept(
    present: ClusterWithCentroid, likeness: float, members: Sequence[str]
) -> ClusterDescription | None:
    """What a topic is called, if it still fits: topics may drift, a little with every run."""
    still = set(present.central) & set(members)
    if likeness < NEARLY_THE_SAME or len(still) < NEARLY_THE_SAME * len(present.central):
        return None
    return _called(present)


def _new_id(members: Sequence[str], used: Collection[str]) -> str:
    name = f"topic-{hash_of(members)[:12]}"
    if name not in used:
        return name
    return next(each for n in count(2) if (each := f"{name}-{n}") not in used)
