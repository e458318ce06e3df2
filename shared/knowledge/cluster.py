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
        size: The number of its chunks when it was created.
        run_id: The run that created it. Each run replaces the clusters of the previous run.
        created_at: The time at which that run stored it.
    """

    cluster_id: str
    name: str
    description: str | None = None
    keywords: tuple[str, ...] = ()
    size: int = 0
    run_id: str | None = None
    created_at: datetime | None = None
