"""`meta/embedding`: the model with which this database is embedded.

`{model, dimension}` identifies the space in which vectors are compared. `other_languages` is true
once a text in another language than English was embedded. During a migration to
another model, the document also contains `moving_to {model, dimension, since, cleared}`. A
migration, run by `shared.pipeline.embedding`, deletes every vector of the old space before it
stores the first vector of the new space. The database therefore never contains vectors of both
spaces, and search by meaning is unavailable until the migration is complete.

A process relies on the space that it has read for FRESH_SECONDS. After a migration is announced,
its work therefore waits for that time and for the longest call that may have begun within it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from shared.core.errors import Conflict, Unavailable
from shared.core.installation import carrel
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Create, Update
from shared.text.language import is_foreign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shared.ai.embedding import Embedder
    from shared.firestore.database import Database

    Space = tuple[str, int]
    """A model, and the length of its vectors."""

FRESH_SECONDS: Final = 15.0
"""How long a process relies on the space that it has read, although another process may announce a
migration in the meantime."""
COMMAND: Final = "jobs run reembed"
"""The command that migrates a database to the configured model."""
_COLLECTION, _DOCUMENT = "meta", "embedding"
_MIGRATION_FIELD: Final = "moving_to"
_LANGUAGES_FIELD: Final = "other_languages"


class ReembeddingInProgress(Unavailable):
    """The knowledge base is being embedded with another model, so vectors cannot be compared."""


@dataclass(frozen=True, slots=True)
class SpaceMigration:
    """A migration to another space."""

    target: Space
    since: datetime
    cleared: bool = False


class EmbeddedLanguages(Enum):
    """The languages of the embedded texts."""

    NONE = auto()
    ENGLISH = auto()
    SEVERAL = auto()


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """The database's space, and the migration in progress.

    Attributes:
        space: The space of the stored vectors, or None if nothing has been embedded yet.
        languages: The languages of the embedded texts.
        snapshot: The document from which both were read.
    """

    space: Space | None
    migration: SpaceMigration | None
    languages: EmbeddedLanguages
    snapshot: Document


class EmbeddingSpace:
    """Prevents vectors of different models from being compared or stored together."""

    def __init__(self, database: Database) -> None:
        """Store the database client. A confirmed space is cached in the process."""
        self._database = database
        self._confirmed: dict[Space, _Confirmation] = database.cache("embedding_space")
        self._reference = Reference(_COLLECTION, _DOCUMENT)

    async def load_space(self) -> Space | None:
        """Load the space of the database, or None if nothing has been embedded yet.

        Costs one round trip.
        """
        return (await self.load_state()).space

    async def load_state(self) -> EmbeddingState:
        """Load the space and the migration in progress, if any. Costs one round trip."""
        snapshot = await self._database.get(self._reference)
        fields = snapshot.fields
        space = (fields["model"], fields["dimension"]) if snapshot.exists else None
        migration = _to_migration(fields[_MIGRATION_FIELD]) if _MIGRATION_FIELD in fields else None
        return EmbeddingState(space, migration, _read_languages(snapshot), snapshot)

    async def expect(self, embedder: Embedder) -> EmbeddedLanguages:
        """Check that the database is embedded with this model.

        Costs one round trip, or none if the space was confirmed within FRESH_SECONDS.

        Returns:
            The languages of the texts that are embedded.

        Raises:
            ReembeddingInProgress: The base is migrating from or to this model.
            Conflict: The base is embedded with another model.
        """
        space = _get_space(embedder)
        if self._is_confirmed(space):
            return self._confirmed[space].languages
        state = await self.load_state()
        if state.space is not None:
            self._confirm(state, space)
        return state.languages

    async def claim(self, embedder: Embedder, texts: Iterable[str] = ()) -> None:
        """Check that vectors of this model may be stored. In a new database, record the model.

        Raises:
            ReembeddingInProgress: The base is migrating to another model, or the migration to this
                model has not deleted all vectors of other models yet.
            Conflict: The base is embedded with another model.
        """
        migration = await self.join(embedder)
        if migration and not migration.cleared:
            raise _make_reembedding_error(migration)
        await self.record_languages(embedder, texts)

    async def record_languages(self, embedder: Embedder, texts: Iterable[str]) -> None:
        """Record whether one of these texts, before their vectors are stored, is not in English.

        The caller must have claimed the space. Costs one round trip for the first such text that
        the process sees.
        """
        confirmation = self._confirmed.get(_get_space(embedder))
        if confirmation and confirmation.languages is EmbeddedLanguages.SEVERAL:
            return
        if any(map(is_foreign, texts)):
            await self._database.commit([Update(self._reference, {_LANGUAGES_FIELD: True})])
            if confirmation:
                confirmation.languages = EmbeddedLanguages.SEVERAL

    async def join(self, embedder: Embedder) -> SpaceMigration | None:
        """Claim the space for this model, or join the migration to this model.

        The caller must have the lease of the job `embed`.

        Returns:
            The migration to this model, if one is in progress.

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
            state = await self.load_state()  # Another process created it first.
        if state.migration and state.migration.target == space:
            return state.migration
        self._confirm(state, space)
        return None

    async def start_migration(
        self, state: EmbeddingState, embedder: Embedder, now: datetime
    ) -> SpaceMigration:
        """Announce a migration to this model.

        The caller must not change vectors until FRESH_SECONDS have passed.

        Raises:
            WriteConflict: The space has changed since it was read.
        """
        model, dimension = _get_space(embedder)
        migration = {"model": model, "dimension": dimension, "since": now, "cleared": False}
        change = {_MIGRATION_FIELD: migration}
        await self._database.commit([Update(self._reference, change, state.snapshot.update_time)])
        return SpaceMigration((model, dimension), now)

    async def mark_cleared(self) -> None:
        """Record that all vectors of other spaces are deleted, so that new ones may be stored."""
        change = {f"{_MIGRATION_FIELD}.cleared": True}
        await self._database.commit([Update(self._reference, change)])

    async def complete_migration(self, migration: SpaceMigration) -> None:
        """End a migration. From now on, vectors are compared in the new space."""
        model, dimension = migration.target
        change = {"model": model, "dimension": dimension, _MIGRATION_FIELD: DELETE_FIELD}
        await self._database.commit([Update(self._reference, change)])

    async def _create(self, space: Space) -> bool:
        """Record the space of a new database, unless another process has done so.

        Returns:
            Whether this process recorded it.
        """
        document = dict(zip(("model", "dimension"), space, strict=True))
        try:
            await self._database.commit([Create(self._reference, document)])
        except WriteConflict:
            return False
        self._confirmed[space] = _Confirmation(EmbeddedLanguages.ENGLISH)
        return True

    def _is_confirmed(self, space: Space) -> bool:
        confirmation = self._confirmed.get(space)
        return confirmation is not None and time.monotonic() - confirmation.moment < FRESH_SECONDS

    def _confirm(self, state: EmbeddingState, space: Space) -> None:
        """Check that this is the database's space, and remember the result for FRESH_SECONDS.

        Raises:
            ReembeddingInProgress: The base is migrating from or to this space.
            Conflict: The base is embedded in another space.
        """
        if state.migration and space in (state.space, state.migration.target):
            raise _make_reembedding_error(state.migration)
        if state.space != space:
            raise _make_conflict(state, space)
        self._confirmed[space] = _Confirmation(state.languages)


@dataclass(slots=True)
class _Confirmation:
    """What a process knows of its space, since a moment of the monotonic clock."""

    languages: EmbeddedLanguages
    moment: float = field(default_factory=time.monotonic)


def _read_languages(snapshot: Document) -> EmbeddedLanguages:
    if not snapshot.exists:
        return EmbeddedLanguages.NONE
    has_others = snapshot.fields.get(_LANGUAGES_FIELD, False)
    return EmbeddedLanguages.SEVERAL if has_others else EmbeddedLanguages.ENGLISH


def _get_space(embedder: Embedder) -> Space:
    return embedder.model, embedder.dimension


def _to_migration(fields: Mapping[str, Any]) -> SpaceMigration:
    return SpaceMigration(
        target=(fields["model"], fields["dimension"]),
        since=fields["since"],
        cleared=fields["cleared"],
    )


def _make_reembedding_error(migration: SpaceMigration) -> ReembeddingInProgress:
    model, _ = migration.target
    return ReembeddingInProgress(
        f"This knowledge base is being embedded again, with {model}. Until that is done,"
        " only words can be searched.",
        retry_after=60,
    )


def _make_conflict(state: EmbeddingState, space: Space) -> Conflict:
    current = state.migration.target if state.migration else state.space
    model, dimension = current or ("", 0)
    verb = "being embedded" if state.migration else "embedded"
    return Conflict(
        f"This knowledge base is {verb} with {model} ({dimension} dimensions), but the configured"
        f" model is {space[0]} ({space[1]}). Configure {model} again, or move the base to"
        f" {space[0]}: {carrel(COMMAND)}"
    )
