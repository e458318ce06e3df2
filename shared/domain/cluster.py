"""A cluster: a topic that chunks of several sources share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cluster:
    """A topic.

    Attributes:
        name: A few words.
        description: A sentence or two.
    """

    cluster_id: str
    name: str
    description: str | None
