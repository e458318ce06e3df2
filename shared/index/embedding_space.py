"""`meta/embedding`: the model this database is embedded with. It keeps vector spaces apart.

`{model, dimension}` is what vectors are compared with. While the base moves to another model there
is `moving_to {model, dimension, since, places, cleared}` beside it. A move lets go of every vector
of the old space before one of the new space is stored, so that no two spaces ever stand side by
side; and while it lasts, nobody searches by meaning. `shared.pipeline.embedding.migration` moves
the base.

A process trusts for FRESH_SECONDS what it found here. So a move begins to work when that time, and
that of a call which began in it, is over.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption

from shared.core.errors import Conflict, Unavailable
from shared.firestore.database import WriteConflict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from google.cloud.firestore import DocumentSnapshot

    from shared.ai.embedding import Embedder
    from shared.firestore.database import Database

    Space = tuple[str, int]
    """A model, and the length of its vectors."""

FRESH_SECONDS: Final = 15.0
"""How long a process trusts what it found: a base may be embedded anew while it lives."""
COMMAND: Final = "carrel jobs run reembed"
_COLLECTION, _DOCUMENT = "meta", "embedding"
_MOVE: Final = "moving_to"


class ReembeddingInProgress(Unavailable):
    """The base is being embedded with another model: nothing can be compared by meaning."""


@dataclass(frozen=True, slots=True)
class SpaceMove:
    """A move to another space.

    Attributes:
        to: The space that it leads to.
        since: When it was announced.
        cleared: Whether no vector of another space is left.
        places: How far each walk through a collection has come: the id that was reached, None where
            it is complete; nothing where it has not begun.
    """

    to: Space
    since: datetime
    cleared: bool = False
    places: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """What is known of the database's space.

    Attributes:
        space: The space of its vectors; None if nothing was embedded yet.
        move: The move that is under way, if one is.
        seen: The document that says so.
    """

    space: Space | None
    move: SpaceMove | None
    seen: DocumentSnapshot[Any]


class EmbeddingSpace:
    """The guard against comparing vectors of different models."""

    def __init__(self, database: Database) -> None:
        """Remember for the whole process which space was found to match, and when."""
        self._database = database
        self._confirmed: dict[Space, float] = database.cache("embedding_space")
        self._reference = database.document(_COLLECTION, _DOCUMENT)

    async def stamp(self) -> Space | None:
        """The model and dimension this database is embedded with, if it is."""
        return (await self.standing()).space

    async def standing(self) -> EmbeddingState:
        """The space, and whether the base is moving to another. One round trip."""
        seen = await self._database.get(self._reference)
        data = seen.to_dict() or {}
        space = (data["model"], data["dimension"]) if seen.exists else None
        return EmbeddingState(space, _move(data[_MOVE]) if _MOVE in data else None, seen)

    async def expect(self, embedder: Embedder) -> bool:
        """Check that the database is embedded with this model; False if it is not embedded yet.

        Raises:
            Moving: It is being embedded anew, with this model or after it.
            Conflict: It is embedded with another one.
        """
        wanted = _space(embedder)
        if self._is_confirmed(wanted):
            return True
        standing = await self.standing()
        if standing.space is None:
            return False
        self._confirm(standing, wanted)
        return True

    async def claim(self, embedder: Embedder) -> None:
        """Stamp the database with this model, or check that its vectors may be stored.

        Raises:
            Moving: It is being embedded anew, and is not ready for this model.
            Conflict: It is embedded with another one.
        """
        move = await self.join(embedder)
        if move and not move.cleared:
            raise _moving(move)

    async def join(self, embedder: Embedder) -> SpaceMove | None:
        """What `claim` does, and besides, for a run under the lease of embed: join a move.

        Returns:
            The move to this model that is under way, if one is.

        Raises:
            Moving: The base moves to another model.
            Conflict: It is embedded with another one.
        """
        wanted = _space(embedder)
        if self._is_confirmed(wanted):
            return None
        standing = await self.standing()
        if standing.space is None:
            if await self._stamp(wanted):
                return None
            standing = await self.standing()  # another was faster
        if standing.move and standing.move.to == wanted:
            return standing.move
        self._confirm(standing, wanted)
        return None

    async def announce(
        self, standing: EmbeddingState, embedder: Embedder, now: datetime
    ) -> SpaceMove:
        """Say that the base moves to this model. Nothing is to be changed for a while yet.

        Raises:
            WriteConflict: Somebody changed the space since it was read.
        """
        model, dimension = _space(embedder)
        move = {"model": model, "dimension": dimension, "since": now, "cleared": False}
        await self._change(standing, {_MOVE: move | {"places": {}}})
        return SpaceMove((model, dimension), now)

    async def reach(self, walk: str, place: str | None) -> None:
        """Remember how far a walk of the move has come; None: it is complete."""
        await self._say({f"{_MOVE}.places.{walk}": place})

    async def clear(self) -> None:
        """Say that no vector of another space is left: from now on, vectors may be stored."""
        await self._say({f"{_MOVE}.cleared": True})

    async def settle(self, move: SpaceMove) -> None:
        """Say that the move is complete: from now on, vectors are compared in the new space."""
        model, dimension = move.to
        stamp = {"model": model, "dimension": dimension}
        await self._database.commit([lambda batch: batch.set(self._reference, stamp)])

    async def _stamp(self, wanted: Space) -> bool:
        """Stamp a new database; False if somebody else did."""
        stamp = dict(zip(("model", "dimension"), wanted, strict=True))
        try:
            await self._database.commit([lambda batch: batch.create(self._reference, stamp)])
        except WriteConflict:
            return False
        self._confirmed[wanted] = time.monotonic()
        return True

    def _is_confirmed(self, wanted: Space) -> bool:
        return time.monotonic() - self._confirmed.get(wanted, -math.inf) < FRESH_SECONDS

    def _confirm(self, standing: EmbeddingState, wanted: Space) -> None:
        """Remember that a space is the database's.

        Raises:
            Moving: It is no more, or not yet.
            Conflict: Another one is.
        """
        if standing.move and wanted in (standing.space, standing.move.to):
            raise _moving(standing.move)
        if standing.space != wanted:
            raise _conflict(standing, wanted)
        self._confirmed[wanted] = time.monotonic()

    async def _change(self, standing: EmbeddingState, change: dict[str, Any]) -> None:
        option = LastUpdateOption(standing.seen.update_time)
        await self._database.commit([lambda batch: batch.update(self._reference, change, option)])

    async def _say(self, change: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.update(self._reference, change)])


def _space(embedder: Embedder) -> Space:
    return embedder.model, embedder.dimension


def _move(data: Mapping[str, Any]) -> SpaceMove:
    return SpaceMove(
        to=(data["model"], data["dimension"]),
        since=data["since"],
        cleared=data["cleared"],
        places=data["places"],
    )


def _moving(move: SpaceMove) -> ReembeddingInProgress:
    return ReembeddingInProgress(
        f"This knowledge base is being embedded anew, with {move.to[0]}: until that is done, only"
        " words can be searched.",
        retry_after=60,
    )


def _conflict(standing: EmbeddingState, wanted: Space) -> Conflict:
    present = standing.move.to if standing.move else standing.space
    model, dimension = present or ("", 0)
    told = "being embedded anew" if standing.move else "embedded"
    return Conflict(
        f"This knowledge base is {told} with {model} ({dimension} dimensions), but the configured"
        f" model is {wanted[0]} ({wanted[1]}). Configure that one again, or move the base to this"
        f" one: {COMMAND}"
    )
