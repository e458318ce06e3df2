"""Giving passages of materials their vectors: in a call as far as its time goes, else in a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.workspaces.model import Material
    from shared.workspaces.repository import Materials

BATCH: Final = 32
"""Passages that are embedded, and stored, at once."""
READ_TOGETHER: Final = 320
"""Passages that are read at once, to see which of them need a vector."""
STORED_TOGETHER: Final = 250
"""Passages that are stored at once where they have no vectors, if they are short."""
STORED_CHARACTERS: Final = 300_000
"""What they hold at most."""


class RefusedPassage(InvalidInput):
    """The embedding model refuses a passage.

    Attributes:
        passage_id: Which.
    """

    def __init__(self, passage_id: str) -> None:
        """Say which; who knows where it stands says it to people."""
        super().__init__("The embedding model refuses a passage.")
        self.passage_id = passage_id


async def embed_waiting(  # noqa: PLR0913 - each says something of its own
    names: Sequence[str],
    material: Material,
    store: Materials,
    ctx: Context,
    *,
    goes_on: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> bool:
    """Embed those of these passages that are stored without a vector, in this order.

    Args:
        names: The passages.
        material: The materials that hold them.
        store: The task of these.
        ctx: With what to embed.
        goes_on: Told before each batch how many are left: whether there is time for them.
        on_embedded: Told after each batch how many it embedded.

    Returns:
        Whether all of them have a vector now.

    Raises:
        RefusedPassage: The model refuses one. Those before it are stored.
        Unavailable: The embedding provider or the database is down. The same.
        Erased: The materials were, meanwhile.
    """
    left = list(names)

    def goes_on_with(block: int) -> bool:
        return goes_on(block + len(left))

    while left:
        block, left = left[:READ_TOGETHER], left[READ_TOGETHER:]
        texts = await store.without_vector(block, material.making)
        made = await embed_passages(
            texts, material, store, ctx, goes_on=goes_on_with, on_embedded=on_embedded
        )
        if len(made) < len(texts):
            return False
    return True


async def embed_passages(  # noqa: PLR0913 - each says something of its own
    texts: Mapping[str, str],
    material: Material,
    store: Materials,
    ctx: Context,
    *,
    goes_on: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> dict[str, Vector]:
    """Embed passages batch by batch; each is stored while the next is being embedded.

    Args:
        texts: Their cleaned texts, by id.
        material: The materials that hold them.
        store: The task of these.
        ctx: With what to embed.
        goes_on: Told before each batch how many are left: whether there is time for them.
        on_embedded: Told after each batch how many it embedded.

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
        while left and goes_on(len(left)):
            batch = {name: texts[name] for name in left[:BATCH]}
            made = await _vectors(batch, ctx)
            await storing
            storing = asyncio.create_task(store.keep_passages(material, batch, made))
            vectors |= made
            on_embedded(len(made))
            left = left[BATCH:]
    except asyncio.CancelledError:
        storing.cancel()  # nobody waits any more, and a database that hangs would hang this too
        raise
    finally:
        await storing
    return vectors


async def keep_passages(texts: Mapping[str, str], material: Material, store: Materials) -> None:
    """Store passages without vectors, as many at once as a commit takes."""
    for block in _blocks(texts):
        await store.keep_passages(material, block, {})


def _blocks(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    block: dict[str, str] = {}
    characters = 0
    for name, text in texts.items():
        characters += len(text)
        if block and (len(block) == STORED_TOGETHER or characters > STORED_CHARACTERS):
            yield block
            block, characters = {}, len(text)
        block[name] = text
    if block:
        yield block


async def _vectors(batch: Mapping[str, str], ctx: Context) -> dict[str, Vector]:
    names = list(batch)
    try:
        with ctx.timed("embedding"):
            vectors = await ctx.embedder.embed(list(batch.values()), Purpose.DOCUMENT)
    except InvalidInput as error:
        raise RefusedPassage(names[error.details["text"]]) from None
    return dict(zip(names, vectors, strict=True))
