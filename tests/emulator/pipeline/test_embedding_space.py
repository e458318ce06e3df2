"""The guard against mixing vectors of different models."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.core.errors import Conflict
from shared.core.meter import Meter
from shared.firestore.database import WriteConflict
from shared.index.embedding_space import EmbeddingSpace, ReembeddingInProgress, SpaceMigration
from shared.runtime.context import App
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Purpose, Vector
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


@dataclass
class Named:
    """An embedder with a name and a dimension only."""

    model: str = "model-1"
    dimension: int = 3
    batch_size: int = 1

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Never called."""
        raise NotImplementedError(purpose, texts)

    async def aclose(self) -> None:
        """Do nothing."""


async def test_new_database_has_no_space(ctx: Context) -> None:
    assert await EmbeddingSpace(ctx.database).load_space() is None
    assert await EmbeddingSpace(ctx.database).expect(Named()) is False


async def test_claim_stores_model_and_dimension(ctx: Context) -> None:
    await EmbeddingSpace(ctx.database).claim(Named())
    assert await EmbeddingSpace(ctx.database).load_space() == ("model-1", 3)
    assert await EmbeddingSpace(ctx.database).expect(Named()) is True


@pytest.mark.parametrize("other", [Named(model="model-2"), Named(dimension=4)])
async def test_another_model_or_dimension_conflicts(ctx: Context, other: Named) -> None:
    space = EmbeddingSpace(ctx.database)
    await space.claim(Named())
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)") as caught:
        await space.expect(other)
    assert caught.value.message.endswith("carrel jobs run reembed")
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)"):
        await space.claim(other)
    assert await space.load_space() == ("model-1", 3)


async def test_process_reads_the_stamp_once(ctx: Context, app: App) -> None:
    await EmbeddingSpace(ctx.database).claim(Named())
    meter = Meter()
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(Named())
    assert meter.round_trips == 0


async def test_one_of_two_concurrent_claims_succeeds(ctx: Context, settings: Settings) -> None:
    elsewhere = App(settings)
    others = EmbeddingSpace(elsewhere.context(Caller(), Meter()).database)
    outcomes = await asyncio.gather(
        EmbeddingSpace(ctx.database).claim(Named()),
        others.claim(Named(model="model-2")),
        return_exceptions=True,
    )
    await elsewhere.aclose()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "NoneType"]


FORMER, PRESENT, OTHER = Named(), Named(model="model-2", dimension=4), Named(model="model-3")


async def make_migrating_space(ctx: Context) -> EmbeddingSpace:
    """Make a database in a migration that no process has noticed yet."""
    space = EmbeddingSpace(ctx.database)
    await space.claim(FORMER)
    await space.start_migration(await space.load_state(), PRESENT, NOON)
    return space


def reread_space(app: App) -> EmbeddingSpace:
    """Return what a process reads once its cached stamp has expired."""
    app.connection.caches["embedding_space"].clear()
    return EmbeddingSpace(app.context(Caller(), Meter()).database)


async def test_migration_is_announced_beside_the_stamp(ctx: Context) -> None:
    space = await make_migrating_space(ctx)
    state = await space.load_state()
    assert state.space == ("model-1", 3)
    assert state.migration == SpaceMigration(("model-2", 4), NOON)
    assert await space.load_space() == ("model-1", 3)


async def test_vectors_are_not_compared_during_a_migration(ctx: Context, app: App) -> None:
    await make_migrating_space(ctx)
    for embedder in (FORMER, PRESENT):
        with pytest.raises(ReembeddingInProgress, match="being embedded again, with model-2"):
            await reread_space(app).expect(embedder)
    with pytest.raises(Conflict, match="being embedded with model-2"):
        await reread_space(app).expect(OTHER)


async def test_new_vectors_are_stored_after_the_old_are_gone(ctx: Context, app: App) -> None:
    space = await make_migrating_space(ctx)
    for embedder in (FORMER, PRESENT):
        with pytest.raises(ReembeddingInProgress):
            await reread_space(app).claim(embedder)
    await space.mark_cleared()
    await reread_space(app).claim(PRESENT)
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).claim(FORMER)
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).expect(PRESENT)


async def test_run_joins_only_a_migration_to_its_model(ctx: Context, app: App) -> None:
    await make_migrating_space(ctx)
    assert await reread_space(app).join(PRESENT) == SpaceMigration(("model-2", 4), NOON)
    with pytest.raises(ReembeddingInProgress):
        await reread_space(app).join(FORMER)
    with pytest.raises(Conflict):
        await reread_space(app).join(OTHER)


async def test_progress_of_the_passes_is_stored(ctx: Context) -> None:
    space = await make_migrating_space(ctx)
    await space.save_progress("clear_chunks", "chunks/a")
    await space.save_progress("clear_traces", None)
    state = await space.load_state()
    assert state.migration
    assert state.migration.progress == {"clear_chunks": "chunks/a", "clear_traces": None}


async def test_finished_migration_leaves_the_new_stamp(ctx: Context, app: App) -> None:
    space = await make_migrating_space(ctx)
    await space.complete_migration(SpaceMigration(("model-2", 4), NOON))
    expected = {"embedding": {"model": "model-2", "dimension": 4}}
    assert await read_documents(ctx, "meta") == expected
    assert await reread_space(app).expect(PRESENT) is True
    with pytest.raises(Conflict, match=r"embedded with model-2 \(4 dimensions\)"):
        await reread_space(app).expect(FORMER)


async def test_one_of_two_concurrent_migrations_is_announced(ctx: Context) -> None:
    space = await make_migrating_space(ctx)
    state = await space.load_state()
    await space.start_migration(state, OTHER, NOON)
    with pytest.raises(WriteConflict):
        await space.start_migration(state, PRESENT, NOON)


async def test_process_reads_the_stamp_again_later(ctx: Context, app: App) -> None:
    await EmbeddingSpace(ctx.database).claim(FORMER)
    for key in app.connection.caches["embedding_space"]:
        app.connection.caches["embedding_space"][key] -= 16
    meter = Meter()
    await EmbeddingSpace(app.context(Caller(), meter).database).expect(FORMER)
    assert meter.documents_read == 1
