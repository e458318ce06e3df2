"""The most common names of tags, authors, categories, sources and clusters, cached for a minute."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from shared.index.facets import Facet, Kind
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source_repository import Sources

if TYPE_CHECKING:
    from shared.firestore.database import Database

NamesCache = dict[Kind, tuple[float, Sequence[FacetValue]]]
"""For each kind of facet, the time at which its names were read, and the names."""
MAX_NAMES: Final = 300
"""The maximum number of names of a kind that are read."""
FRESH_SECONDS: Final = 60.0
"""How many seconds names stay in the cache."""


async def drop_kept_out(names: Sequence[FacetValue], database: Database) -> list[FacetValue]:
    """Return the names of sources without those that are kept out. Costs one round trip."""
    sources = await Sources(database).get_all([value.facet.key for value in names])
    kept_out = {source.source_id for source in sources if source.is_kept_out}
    return [value for value in names if value.facet.key not in kept_out]


class CommonNames:
    """The most common tags, authors, categories and sources, and the largest clusters."""

    def __init__(self, database: Database) -> None:
        self._index = InvertedIndex(database, KNOWLEDGE)
        self._clusters = Clusters(database)
        self._cache: NamesCache = database.cache("common_names")

    async def load(self, kind: Kind) -> Sequence[FacetValue]:
        """Return the names of a kind, the most common first.

        Costs one round trip, or none if the names are cached. The name of a source is its title.
        The keys of sources and clusters are their ids.
        """
        read_at, names = self._cache.get(kind, (0.0, ()))
        if not names or time.monotonic() - read_at >= FRESH_SECONDS:
            names = await self._read(kind)
            self._cache[kind] = time.monotonic(), names
        return names

    async def _read(self, kind: Kind) -> Sequence[FacetValue]:
        if kind is not Kind.CLUSTER:
            return await self._index.list_commonest(kind, MAX_NAMES)
        clusters = await self._clusters.list_largest(MAX_NAMES)
        return [
            FacetValue(Facet(kind, cluster.cluster_id), cluster.name, cluster.size)
            for cluster in clusters
        ]
