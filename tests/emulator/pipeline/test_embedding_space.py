"""The embedding space, stored in the database, guards against mixing vectors of different models.

A space is the name of a model and the dimension of its vectors. A process caches it for a while.
"""

import asyncio

import pytest

from shared.core.caller import Caller
from shared.core.errors import Conflict
from shared.core.meter import Meter
from shared.firestore.database import WriteConflict
from shared.index.embedding_space import (
    EmbeddedLanguages,
    EmbeddingSpace,
    ReembeddingInProgress,
    SpaceMigration,
)
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.clock import NOON
from tests.support.fakes.embedding_model import FakeEmbeddingModel
from tests.support.jobs import make_job_context
from tests.support.stored_documents import read_documents

OLD = FakeEmbeddingModel("model-1", 3)
NEW = FakeEmbeddingModel("model-2", 4)
OTHER = FakeEmbeddingModel("model-3", 3)
MIGRATION = SpaceMigration(("model-2", 4), NOON)
"""A migration from the old model to the new one."""


async def test_a_claim_stores_model_and_dimension(ctx: Context) -> None:
    assert await EmbeddingSpace(ctx.database).load_space() is None
    assert await EmbeddingSpace(ctx.database).expect(OLD) is EmbeddedLanguages.NONE
    await EmbeddingSpace(ctx.database).claim(OLD)
    assert await EmbeddingSpace(ctx.database).load_space() == ("model-1", 3)
    assert await EmbeddingSpace(ctx.database).expect(OLD) is EmbeddedLanguages.ENGLISH


@pytest.mark.parametrize("other", [OTHER, FakeEmbeddingModel("model-1", 4)])
async def test_another_model_or_dimension_conflicts(
    ctx: Context, other: FakeEmbeddingModel
) -> None:
    space = EmbeddingSpace(ctx.database)
    await space.claim(OLD)
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)") as error:
        await space.expect(other)
    assert error.value.message.endswith("carrel jobs run reembed")
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)"):
        await space.claim(other)
    assert await space.load_space() == ("model-1", 3)


async def test_another_language_is_recorded_and_stays(ctx: Context, app: App) -> None:
    """All processes learn of it, and a migration to another model keeps it."""
    space = EmbeddingSpace(ctx.database)
    await space.claim(OLD, ["The bread is in the oven.", "Rye"])
    assert await reread_space(app).expect(OLD) is EmbeddedLanguages.ENGLISH
    await space.record_languages(OLD, ["Das Brot ist im Ofen und wird gut."])
    for reader in (space, reread_space(app)):
        assert await reader.expect(OLD) is EmbeddedLanguages.SEVERAL

    migration = await space.start_migration(await space.load_state(), NEW, NOON)
    await space.complete_migration(migration)
    assert await reread_space(app).expect(NEW) is EmbeddedLanguages.SEVERAL


async def test_one_of_two_concurrent_claims_succeeds(ctx: Context, apps: Apps) -> None:
    results = await asyncio.gather(
        EmbeddingSpace(ctx.database).claim(OLD),
        EmbeddingSpace(make_job_context(apps()).database).claim(OTHER),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "NoneType"]


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
    assert await reread_space(app).expect(NEW) is EmbeddedLanguages.ENGLISH
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
    meter = Meter()
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(OLD)
    assert meter.round_trips == 0
    for key in app.connection.caches["embedding_space"]:
        app.connection.caches["embedding_space"][key].moment -= 16  # seconds
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(OLD)
    assert meter.documents_read == 1
