"""A cluster: a group of chunks that are close in meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.firestore.codec import added_field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """A group of chunks that are close in meaning.

    Attributes:
        keywords: The most typical words of its chunks, the most typical first.
        size: The number of its chunks when they were last counted.
        kinds: The number of its chunks by category, or None if they have not been counted yet.
        run_id: The clustering that found it last. Each clustering replaces the clusters of the
            clustering before.
    """

    cluster_id: str
    name: str
    description: str | None = None
    keywords: tuple[str, ...] = ()
    size: int = 0
    run_id: str | None = None
    created_at: datetime | None = None
    kinds: Mapping[str, int] | None = added_field()
