"""Materials as what search looks in: those just brought, in memory, or those of the task's past.

The same search ranks both, by the same lists of words: what was just brought is found as it will be
found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.index.postings import Lists
from shared.index.vector_index import by_distance, neighbour
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
class Source:
    """Where a passage stands.

    Attributes:
        material: In which materials.
        place: Where in them.
    """

    material: Material
    place: Place


class Brought:
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

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> Lists:  # noqa: ARG002 - there are none
        """The lists of these words: read together with where passages stand. One round trip."""
        self._contents = await self._read()
        parts = [part for parts in self._contents.values() for part in parts]
        postings, totals = words_of(parts, terms)
        return Lists(postings, {}, totals)

    @property
    def is_whole(self) -> bool:
        """Whether all of their contents were there. Search first."""
        return all(len(self._contents[each.document_id]) == each.parts for each in self.materials)

    def sources(self, passage_ids: Sequence[str]) -> dict[str, Source]:
        """Where these passages stand first in the latest materials that hold them. Search first."""
        wanted, found = set(passage_ids), dict[str, Source]()
        for material in self.materials:
            for part in self._contents[material.document_id]:
                for passage_id, place in part.places():
                    if passage_id in wanted:
                        found.setdefault(passage_id, Source(material, place))
        return found


class HeldPassages:
    """Passages and their vectors in memory."""

    def __init__(self, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        """Hold these, by passage id."""
        self._texts = texts
        self._vectors = vectors

    async def get_all(self, ids: Sequence[str]) -> list[Passage]:
        """Those of these that are held, in this order."""
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
        found = [
            neighbour(passage, vector, self._vectors[passage.id])
            for passage in await self.get_all(ids)
        ]
        return sorted(found, key=by_distance)


def just_brought(
    material: Material,
    parts: Sequence[Part],
    texts: Mapping[str, str],
    vectors: Mapping[str, Vector],
) -> Brought:
    """Materials whose passages and vectors are at hand: they are searched without a round trip."""

    async def held() -> Contents:
        return {material.document_id: parts}

    return Brought([material], HeldPassages(texts, vectors), held)


def brought_before(
    materials: Sequence[Material],
    store: Materials,
    *,
    note: str | None = None,
) -> Brought:
    """Materials in the store, the latest first; and what else to know of them."""

    async def stored() -> Contents:
        return await store.parts(materials)

    return Brought(materials, store.searched(materials), stored, note=note)
