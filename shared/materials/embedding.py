"""Giving passages of materials their vectors: in a call as far as its time goes, else in a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.deps import Deps
    from shared.domain.material import Material
    from shared.store.materials import Materials

BATCH: Final = 32
"""Passages that are embedded, and stored, at once."""


class RefusedPassage(InvalidInput):
    """The embedding model refuses a passage.

    Attributes:
        passage_id: Which.
    """

    def __init__(self, passage_id: str) -> None:
        """Say which; who knows where it stands says it to people."""
        super().__init__("The embedding model refuses a passage.")
        self.passage_id = passage_id


async def embed_passages(
    texts: Mapping[str, str],
    material: Material,
    store: Materials,
    deps: Deps,
    goes_on: Callable[[Sequence[str]], bool],
) -> dict[str, Vector]:
    """Embed passages batch by batch; each is stored while the next is being embedded.

    Args:
        texts: Their cleaned texts, by id.
        material: The materials that hold them.
        store: The task of these.
        deps: With what to embed.
        goes_on: Told before each batch which passages are left: whether there is time for them.

    Returns:
        The vectors that were made, by passage id; all of them are stored.

    Raises:
        RefusedPassage: The model refuses one. Those before it are stored.
        Unavailable: The embedding provider or the database is down. The same.
        Erased: The materials were, meanwhile.
    """
    vectors: dict[str, Vector] = {}
    left = list(texts)
    storing = asyncio.create_task(asyncio.sleep(0))
    try:
        while left and goes_on(left):
            batch = {name: texts[name] for name in left[:BATCH]}
            made = await _vectors(batch, deps)
            await storing
            storing = asyncio.create_task(keep_passages(batch, made, material, store))
            vectors |= made
            left = left[BATCH:]
    except asyncio.CancelledError:
        storing.cancel()  # nobody waits any more, and a database that hangs would hang this too
        raise
    finally:
        await storing
    return vectors


async def keep_passages(
    texts: Mapping[str, str], vectors: Mapping[str, Vector], material: Material, store: Materials
) -> None:
    """Store passages, with the vectors that there are: a commit for each 32."""
    names = list(texts)
    for start in range(0, len(names), BATCH):
        block = {name: texts[name] for name in names[start : start + BATCH]}
        await store.keep_passages(material, block, vectors)


async def _vectors(batch: Mapping[str, str], deps: Deps) -> dict[str, Vector]:
    names = list(batch)
    try:
        with deps.timed("embedding"):
            vectors = await deps.embedder.embed(list(batch.values()), Purpose.DOCUMENT)
    except InvalidInput as error:
        raise RefusedPassage(names[error.details.get("text", 0)]) from None
    return dict(zip(names, vectors, strict=True))
