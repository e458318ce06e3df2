"""All passages with their vectors, in as little memory as they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shared.knowledge.clustering_repository import Clusterings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.knowledge.clustering_repository import Placed
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """What is embedded.

    Attributes:
        chunks: The chunks, by their ids.
        vectors: Their vectors, `(chunks, dimension)`.
    """

    chunks: list[Placed]
    vectors: NDArray[np.float32]


async def read_all(model: str, deps: Deps, budget: Budget) -> Base | None:
    """Read them page by page; None: there was no time to."""
    chunks: list[Placed] = []
    blocks: list[NDArray[np.float32]] = []
    async for page in Clusterings(deps.database).embedded(model):
        if budget.spent:
            return None
        chunks += [replace(chunk, vector=()) for chunk in page]
        blocks.append(np.array([chunk.vector for chunk in page], np.float32))
    return Base(chunks, np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32))
