"""The passages of a task's materials, as what search looks in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from shared.domain.material import Passage, materials_facet
from shared.index.vector_index import (
    MAX_ANY,
    Documents,
    Neighbour,
    by_distance,
    nearest_query,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.domain.material import Material
    from shared.firestore.database import Database

PASSAGES: Final = "passages"


class TaskPassages(Documents[Passage]):
    """The passages of some materials of a task."""

    def __init__(self, database: Database, path: str, materials: Sequence[Material]) -> None:
        """Look under the path of the task, among what these materials hold."""
        super().__init__(database, f"{path}/{PASSAGES}", ["text"], _to_passage)
        facets = [materials_facet(each) for each in materials]
        self._blocks = [facets[n : n + MAX_ANY] for n in range(0, len(facets), MAX_ANY)]

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - materials are searched without filters
    ) -> list[Neighbour[Passage]]:
        """The nearest of the materials' passages: one round trip, a request for 30 materials."""
        nearest = super().nearest
        found = await asyncio.gather(*(nearest(vector, limit, block) for block in self._blocks))
        by_id = {each.document.id: each for block in found for each in block}
        return sorted(by_id.values(), key=by_distance)[:limit]


def query_shapes(client: AsyncClient) -> Iterator[AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    passages = client.collection(f"users/a/rag_tasks/b/{PASSAGES}")
    yield nearest_query(passages, ["text"], (1.0,), 1, ["document:a"])


def _to_passage(passage_id: str, data: dict[str, Any]) -> Passage:
    return Passage(passage_id, data["text"])
