"""`meta/embedding`: the model this database is embedded with. It keeps vector spaces apart."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from shared.errors import Conflict
from shared.store.database import Stale

if TYPE_CHECKING:
    from shared.ai.embedding import Embedder
    from shared.store.database import Database

FRESH_SECONDS: Final = 60.0
"""How long a process trusts what it found: a base may be embedded anew while it lives."""
_COLLECTION, _DOCUMENT = "meta", "embedding"


class EmbeddingSpace:
    """The guard against comparing vectors of different models."""

    def __init__(self, database: Database, confirmed: dict[tuple[str, int], float]) -> None:
        """Remember in `confirmed`, which the process shares, what was found to match and when."""
        self._database = database
        self._confirmed = confirmed

    async def stamp(self) -> tuple[str, int] | None:
        """The model and dimension this database is embedded with, if it is."""
        snapshot = await self._database.get(self._database.document(_COLLECTION, _DOCUMENT))
        return (snapshot.get("model"), snapshot.get("dimension")) if snapshot.exists else None

    async def expect(self, embedder: Embedder) -> bool:
        """Check that the database is embedded with this model; False if it is not embedded yet.

        Raises:
            Conflict: It is embedded with another one.
        """
        wanted = (embedder.model, embedder.dimension)
        if time.monotonic() - self._confirmed.get(wanted, -math.inf) < FRESH_SECONDS:
            return True
        found = await self.stamp()
        if found is None:
            return False
        if found != wanted:
            raise Conflict(
                f"This knowledge base is embedded with {found[0]} ({found[1]} dimensions), but the"
                f" configured model is {wanted[0]} ({wanted[1]}). Configure the first one again,"
                " or embed the base anew in an empty database."
            )
        self._confirmed[wanted] = time.monotonic()
        return True

    async def claim(self, embedder: Embedder) -> None:
        """Stamp the database with this model, or check that it is the one it has.

        Raises:
            Conflict: It is embedded with another one.
        """
        if await self.expect(embedder):
            return
        reference = self._database.document(_COLLECTION, _DOCUMENT)
        stamp = {"model": embedder.model, "dimension": embedder.dimension}
        try:
            await self._database.commit([lambda batch: batch.create(reference, stamp)])
        except Stale:
            await self.expect(embedder)
        self._confirmed[embedder.model, embedder.dimension] = time.monotonic()
