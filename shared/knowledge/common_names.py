"""The names that most chunks bear, remembered for a minute: where hints and completion begin."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from shared.index.facets import Facet, Kind
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex
from shared.knowledge.cluster_repository import Clusters

if TYPE_CHECKING:
    from shared.firestore.database import Database

Remembered = dict[Kind, tuple[float, Sequence[FacetValue]]]
"""The names of a kind, and when they were read."""
MOST: Final = 300
"""How many names of a kind are read."""
FRESH_SECONDS: Final = 60.0


class CommonNames:
    """The commonest tags, authors, categories and sources, and the largest clusters."""

    def __init__(self, database: Database) -> None:
        """Remember for the whole process what was read and when."""
        self._lists = InvertedIndex(database, KNOWLEDGE)
        self._clusters = Clusters(database)
        self._remembered: Remembered = database.cache("common_names")

    async def of(self, kind: Kind) -> Sequence[FacetValue]:
        """The names of a kind, those of most chunks first. One round trip, or none.

        A source's name is its title, and a cluster's what it is called; their keys are their ids.
        """
        read_at, names = self._remembered.get(kind, (0.0, ()))
        if not names or time.monotonic() - read_at >= FRESH_SECONDS:
            names = await self._read(kind)
            self._remembered[kind] = time.monotonic(), names
        return names

    async def _read(self, kind: Kind) -> Sequence[FacetValue]:
        if kind is not Kind.CLUSTER:
            return await self._lists.names(kind, MOST)
        clusters = await self._clusters.largest(MOST)
        return [FacetValue(Facet(kind, each.cluster_id), each.name, each.size) for each in clusters]
