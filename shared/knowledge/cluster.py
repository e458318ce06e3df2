"""A cluster: a group of chunks that are close in meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """A group of chunks that are close in meaning.

    Attributes:
        name: A few words.
        description: A sentence or two.
        keywords: The most typical words of its chunks, best first.
        size: How many chunks it had when it was made.
        x: Its place on a map of all clusters, from left to right. Similar clusters are close.
        y: The same, from bottom to top.
        run_id: The run that made it; a run replaces the clusters of the one before.
        created_at: When that run wrote it.
    """

    cluster_id: str
    name: str
    description: str | None = None
    keywords: tuple[str, ...] = ()
    size: int = 0
    x: float = 0.0
    y: float = 0.0
    run_id: str | None = None
    created_at: datetime | None = None
