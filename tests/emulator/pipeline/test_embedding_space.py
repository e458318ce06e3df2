"""The embedding space, stored in the database, guards against mixing vectors of different models.

A space is the name of a model and the dimension of its vectors. A process caches it for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from shared.ai.embedding import Purpose, Vector
from shared.core.caller import Caller
from shared.core.errors import Conflict
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import WriteConflict
from shared.index.embedding_space import EmbeddingSpace, ReembeddingInProgress, SpaceMigration
from shared.runtime.context import App, Context
from tests.support.jobs import make_job_context
from tests.support.stored_documents import read_documents

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


@dataclass
class NamedEmbedder:
    """An embedder of which only the name and the dimension are used."""

    model: str = "model-1"
    dimension: int = 3
    batch_size: int = 1

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Never called."""
        raise NotImplementedError(purpose, texts)

    async def aclose(self) -> None:
        """Do nothing."""


async def test_a_new_database_has_no_embedding_space(ctx: Context) -> None:
    assert await EmbeddingSpace(ctx.database).load_space() is None
    assert await EmbeddingSpace(ctx.database).expect(NamedEmbedder()) is False


async def test_a_claim_stores_model_and_dimension(ctx: Context) -> None:
    await EmbeddingSpace(ctx.database).claim(NamedEmbedder())
    assert await EmbeddingSpace(ctx.database).load_space() == ("model-1", 3)
    assert await EmbeddingSpace(ctx.database).expect(NamedEmbedder()) is True


@pytest.mark.parametrize("other", [NamedEmbedder(model="model-2"), NamedEmbedder(dimension=4)])
async def test_another_model_or_dimension_conflicts(ctx: Context, other: NamedEmbedder) -> None:
    space = EmbeddingSpace(ctx.database)
    await space.claim(NamedEmbedder())
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)") as error:
        await space.expect(other)
    assert error.value.message.endswith("carrel jobs run reembed")
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)"):
        await space.claim(other)
    assert await space.load_space() == ("model-1", 3)


async def test_a_process_reads_the_space_only_once(ctx: Context, app: App) -> None:
    await EmbeddingSpace(ctx.database).claim(NamedEmbedder())
    meter = Meter()
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(NamedEmbedder())
    assert meter.round_trips == 0


async def test_one_of_two_concurrent_claims_succeeds(ctx: Context, settings: Settings) -> None:
    other_app = App(settings)
    results = await asyncio.gather(
        EmbeddingSpace(ctx.database).claim(NamedEmbedder()),
        EmbeddingSpace(make_job_context(other_app).database).claim(NamedEmbedder(model="model-2")),
        return_exceptions=True,
    )
    await other_app.aclose()
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "NoneType"]


OLD = NamedEmbedder()
NEW = NamedEmbedder(model="model-2", dimension=4)
OTHER = NamedEmbedder(model="model-3")
MIGRATION = SpaceMigration(("model-2", 4), NOON)
"""A migration from the old model to the new one."""


async def make_migrating_space(ctx: Context) -> EmbeddingSpace:
    """Start a migration from the old model to the new one, which no process has noticed yet."""
    space = EmbeddingSpace(ctx.database)
    await space.claim(OLD)
    await space.start_migration(await space.load_state(), NEW, NOON)
    return space


def reread_space(app: App) -> EmbeddingSpace:
    """Return the space for a process whose cache has expired."""
    app.connection.caches["embedding_space"].clear()
    return EmbeddingSpace(make_job_context(app).database)


async def test_a_migration_is_announced_next_to_the_space(ctx: Context) -> None:
    space = await make_migrating_space(ctx)
    state = await space.load_state()
    assert state.space == ("model-1", 3)
    assert state.migration == MIGRATION
    assert await space.load_space() == ("model-1", 3)


async def test_vectors_are_not_compared_during_a_migration(ctx: Context, app: App) -> None:
    await make_migrating_space(ctx)
    for embedder in (OLD, NEW):
        with pytest.raises(ReembeddingInProgress, match="being embedded again, with model-2"):
            await reread_space(app).expect(embedder)
    with pytest.raises(Conflict, match="being embedded with model-2"):
        await reread_space(app).expect(OTHER)


async def test_new_vectors_are_stored_only_after_the_old_are_deleted(
    ctx: Context, app: App
) -> None:
    space = await make_migrating_space(ctx)
    for embedder in (OLD, NEW):
        with pytest.raises(ReembeddingInProgress):
            await reread_space(app).claim(embedder)

    await space.mark_cleared()
    await reread_space(app).claim(NEW)
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).claim(OLD)
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).expect(NEW)


async def test_a_run_joins_only_a_migration_to_its_own_model(ctx: Context, app: App) -> None:
    await make_migrating_space(ctx)
    assert await reread_space(app).join(NEW) == MIGRATION
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).join(OLD)
    with pytest.raises(Conflict):
        await reread_space(app).join(OTHER)


async def test_a_finished_migration_stores_the_new_space(ctx: Context, app: App) -> None:
    space = await make_migrating_space(ctx)
    await space.complete_migration(MIGRATION)
    expected = {"embedding": {"model": "model-2", "dimension": 4}}
    assert await read_documents(ctx, "meta") == expected
    assert await reread_space(app).expect(NEW) is True
    with pytest.raises(Conflict, match=r"embedded with model-2 \(4 dimensions\)"):
        await reread_space(app).expect(OLD)


async def test_one_of_two_concurrent_migrations_is_announced(ctx: Context) -> None:
    space = await make_migrating_space(ctx)
    state = await space.load_state()
    await space.start_migration(state, OTHER, NOON)
    with pytest.raises(WriteConflict):
        await space.start_migration(state, NEW, NOON)


async def test_a_process_reads_the_space_again_after_its_cache_expires(
    ctx: Context, app: App
) -> None:
    await EmbeddingSpace(ctx.database).claim(OLD)
    for key in app.connection.caches["embedding_space"]:
        app.connection.caches["embedding_space"][key] -= 16  # seconds
    meter = Meter()
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(OLD)
    assert meter.documents_read == 1
