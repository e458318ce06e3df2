"""Materials as a corpus to search: new ones in memory, or those that are stored.

The same search ranks both, by the same postings: new materials are found as they will be found
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.index.postings import SearchPostings
from shared.index.vector_index import compare, distance_key
from shared.search.corpus import Corpus
from shared.workspaces.model import Passage, words_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.index.facets import Facet
    from shared.index.vector_index import Neighbour
    from shared.search.corpus import DocumentReader
    from shared.workspaces.model import Material, Part, Place
    from shared.workspaces.repository import Materials

    Contents = Mapping[str, Sequence[Part]]
    """The parts of materials, by the id of each."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a passage stands.

    Attributes:
        material: In which materials.
        place: Where in them.
    """

    material: Material
    place: Place


class SearchedMaterials:
    """Materials to search, as a corpus and as what passages are quoted from.

    Attributes:
        corpus: Their passages, and their words.
        materials: The latest first.
        note: What else to know of them; None if nothing.
    """

    def __init__(
        self,
        materials: Sequence[Material],
        documents: DocumentReader[Passage],
        read: Callable[[], Awaitable[Contents]],
        *,
        note: str | None = None,
    ) -> None:
        """Search these materials.

        Args:
            materials: The latest first.
            documents: Their passages.
            read: Gives their contents; it is asked once.
            note: What else to know of them.
        """
        self.corpus = Corpus(documents, self)
        self.materials = materials
        self.note = note
        self._read = read
        self._contents: Contents = {}

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:  # noqa: ARG002 - there are none
        """The lists of these words: read together with where passages stand. One round trip."""
        self._contents = await self._read()
        parts = [part for parts in self._contents.values() for part in parts]
        postings, totals = words_of(parts, terms)
        return SearchPostings(postings, {}, totals)

    @property
    def is_whole(self) -> bool:
        """Whether all of their contents were there. Search first."""
        return all(
            len(self._contents[material.document_id]) == material.parts
            for material in self.materials
        )

    def locations(self, passage_ids: Sequence[str]) -> dict[str, Location]:
        """Where these passages stand first in the latest materials that hold them. Search first."""
        ids, locations = set(passage_ids), dict[str, Location]()
        for material in self.materials:
            for part in self._contents[material.document_id]:
                for passage_id, place in part.places():
                    if passage_id in ids:
                        locations.setdefault(passage_id, Location(material, place))
        return locations


class PassagesInMemory:
    """Passages and their vectors in memory."""

    def __init__(self, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        """Hold these, by passage id."""
        self._texts = texts
        self._vectors = vectors

    async def get_all(self, ids: Sequence[str]) -> list[Passage]:
        """Those of these that are there, in this order."""
        return [Passage(name, self._texts[name]) for name in ids if name in self._texts]

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - materials are searched without filters
    ) -> list[Neighbour[Passage]]:
        """The nearest, best first."""
        return (await self.similarities(vector, list(self._texts)))[:limit]

    async def similarities(self, vector: Vector, ids: Sequence[str]) -> list[Neighbour[Passage]]:
        """These, compared with a vector, best first."""
        neighbours = [
            compare(passage, vector, self._vectors[passage.id])
            for passage in await self.get_all(ids)
        ]
        return sorted(neighbours, key=distance_key)


def corpus_in_memory(
    material: Material,
    parts: Sequence[Part],
    texts: Mapping[str, str],
    vectors: Mapping[str, Vector],
) -> SearchedMaterials:
    """Materials whose passages and vectors are at hand: they are searched without a round trip."""

    async def contents() -> Contents:
        return {material.document_id: parts}

    return SearchedMaterials([material], PassagesInMemory(texts, vectors), contents)


def stored_corpus(
    materials: Sequence[Material],
    store: Materials,
    *,
    note: str | None = None,
) -> SearchedMaterials:
    """Materials in the store, the latest first; and what else to know of them."""

    async def contents() -> Contents:
        return await store.parts(materials)

    return SearchedMaterials(materials, store.searched(materials), contents, note=note)
