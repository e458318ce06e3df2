"""`meta/embedding`: the model that this database is embedded with.

`{model, dimension}` names the space in which vectors are compared. During a migration to
another model, the document also has `moving_to {model, dimension, since, places, cleared}`. A
migration deletes every vector of the old space before it stores the first vector of the new space.
The database therefore never contains vectors of both, and search by meaning is unavailable until
the migration is complete. The package `shared.pipeline.embedding` carries it out.

A process trusts the space that it has read for FRESH_SECONDS. A migration therefore starts only
after that time, plus the longest call that may have begun within it.
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
"""Seconds for which a process trusts the space that it has read. Another process may start a
migration in the meantime."""
COMMAND: Final = "carrel jobs run reembed"
_COLLECTION, _DOCUMENT = "meta", "embedding"
_MOVE: Final = "moving_to"


class ReembeddingInProgress(Unavailable):
    """The knowledge base is being embedded with another model, so vectors cannot be compared."""


@dataclass(frozen=True, slots=True)
class SpaceMigration:
    """A migration to another space.

    Attributes:
        target: The new space.
        since: When the migration was announced.
        cleared: Whether all vectors of other spaces are deleted.
        progress: The last id that each pass over a collection has reached, or None if the pass is
            complete. A pass that has not begun is missing.
    """

    target: Space
    since: datetime
    cleared: bool = False
    progress: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """The database's space and the migration that is under way.

    Attributes:
        space: The space of its vectors, or None if nothing has been embedded yet.
        move: The migration that is under way, if any.
        snapshot: The document from which both were read.
    """

    space: Space | None
    move: SpaceMigration | None
    snapshot: DocumentSnapshot[Any]


class EmbeddingSpace:
    """The guard against comparing vectors of different models."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Confirmed spaces are cached in the process."""
        self._database = database
        self._confirmed: dict[Space, float] = database.cache("embedding_space")
        self._reference = database.document(_COLLECTION, _DOCUMENT)

    async def load_space(self) -> Space | None:
        """Load the space of the database, or None if nothing has been embedded yet.

        Costs one round trip.
        """
        return (await self.load_state()).space

    async def load_state(self) -> EmbeddingState:
        """Load the space and the migration that is under way, if any. Costs one round trip."""
        snapshot = await self._database.get(self._reference)
        data = snapshot.to_dict() or {}
        space = (data["model"], data["dimension"]) if snapshot.exists else None
        return EmbeddingState(
            space, _to_migration(data[_MOVE]) if _MOVE in data else None, snapshot
        )

    async def expect(self, embedder: Embedder) -> bool:
        """Check that the database is embedded with this model.

        Returns:
            False if nothing is embedded yet.

        Raises:
            ReembeddingInProgress: The base is migrating from or to this model.
            Conflict: The base is embedded with another model.
        """
        space = _get_space(embedder)
        if self._is_confirmed(space):
            return True
        state = await self.load_state()
        if state.space is None:
            return False
        self._confirm(state, space)
        return True

    async def claim(self, embedder: Embedder) -> None:
        """Record this model for a new database, or check that its vectors may be stored.

        Raises:
            ReembeddingInProgress: The migration is not ready for this model's vectors yet.
            Conflict: The base is embedded with another model.
        """
        move = await self.join(embedder)
        if move and not move.cleared:
            raise _make_reembedding_error(move)

    async def join(self, embedder: Embedder) -> SpaceMigration | None:
        """Claim the space for this model, or join a migration to it.

        The caller must hold the lease of the embed step.

        Returns:
            The migration to this model that is under way, if any.

        Raises:
            ReembeddingInProgress: The base is migrating to another model.
            Conflict: The base is embedded with another model.
        """
        space = _get_space(embedder)
        if self._is_confirmed(space):
            return None
        state = await self.load_state()
        if state.space is None:
            if await self._create(space):
                return None
            state = await self.load_state()  # Another process was faster.
        if state.move and state.move.target == space:
            return state.move
        self._confirm(state, space)
        return None

    async def start_migration(
        self, state: EmbeddingState, embedder: Embedder, now: datetime
    ) -> SpaceMigration:
        """Announce a migration to this model.

        Vectors must not change until FRESH_SECONDS have passed.

        Raises:
            WriteConflict: The space has changed since it was read.
        """
        model, dimension = _get_space(embedder)
        move = {"model": model, "dimension": dimension, "since": now, "cleared": False}
        change = {_MOVE: move | {"places": {}}}
        option = LastUpdateOption(state.snapshot.update_time)
        await self._database.commit([lambda batch: batch.update(self._reference, change, option)])
        return SpaceMigration((model, dimension), now)

    async def save_progress(self, name: str, last_id: str | None) -> None:
        """Store the last id that a pass of the migration has reached, or None if it is complete."""
        await self._update({f"{_MOVE}.places.{name}": last_id})

    async def mark_cleared(self) -> None:
        """Record that all vectors of other spaces are deleted. New vectors may now be stored."""
        await self._update({f"{_MOVE}.cleared": True})

    async def complete_migration(self, move: SpaceMigration) -> None:
        """End a migration. From now on, vectors are compared in the new space."""
        model, dimension = move.target
        document = {"model": model, "dimension": dimension}
        await self._database.commit([lambda batch: batch.set(self._reference, document)])

    async def _create(self, space: Space) -> bool:
        """Record the space of a new database. Return False if another process already has."""
        document = dict(zip(("model", "dimension"), space, strict=True))
        try:
            await self._database.commit([lambda batch: batch.create(self._reference, document)])
        except WriteConflict:
            return False
        self._confirmed[space] = time.monotonic()
        return True

    def _is_confirmed(self, space: Space) -> bool:
        return time.monotonic() - self._confirmed.get(space, -math.inf) < FRESH_SECONDS

    def _confirm(self, state: EmbeddingState, space: Space) -> None:
        """Remember that this space is the database's.

        Raises:
            ReembeddingInProgress: The base is moving from or to this space.
            Conflict: The base has another space.
        """
        if state.move and space in (state.space, state.move.target):
            raise _make_reembedding_error(state.move)
        if state.space != space:
            raise _make_conflict(state, space)
        self._confirmed[space] = time.monotonic()

    async def _update(self, change: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.update(self._reference, change)])


def _get_space(embedder: Embedder) -> Space:
    return embedder.model, embedder.dimension


def _to_migration(data: Mapping[str, Any]) -> SpaceMigration:
    return SpaceMigration(
        target=(data["model"], data["dimension"]),
        since=data["since"],
        cleared=data["cleared"],
        progress=data["places"],
    )


def _make_reembedding_error(move: SpaceMigration) -> ReembeddingInProgress:
    return ReembeddingInProgress(
        f"This knowledge base is being embedded again, with {move.target[0]}. Until that is done,"
        " only words can be searched.",
        retry_after=60,
    )


def _make_conflict(state: EmbeddingState, space: Space) -> Conflict:
    current = state.move.target if state.move else state.space
    model, dimension = current or ("", 0)
    verb = "being embedded" if state.move else "embedded"
    return Conflict(
        f"This knowledge base is {verb} with {model} ({dimension} dimensions), but the configured"
        f" model is {space[0]} ({space[1]}). Configure {model} again, or move the base to"
        f" {space[0]}: {COMMAND}"
    )
