"""The next run completes one that was killed after any commit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.cluster.job import cluster
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from tests.support.commit_hooks import SOME_OR_ALL, WatchedApp, call_after
from tests.support.database_dump import read_root_documents, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget
from tests.support.killable_children import start_killable_children
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    add_sources,
    count_pending_chunks,
    delete_source,
    make_themed_source,
    make_unrelated_source,
    read_cluster_sizes,
    read_clustering,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.database_dump import Contents

    Prepare = Callable[[Context], Awaitable[None]]

pytestmark = pytest.mark.anyio

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


class KilledError(Exception):
    """The exception that ends a run."""


async def kill() -> None:
    raise KilledError


def noon() -> datetime:
    return NOON


async def make_unclustered_base(ctx: Context) -> None:
    """Make a base without clusters."""
    await add_sources(
        ctx,
        make_themed_source("bread"),
        make_themed_source("boats"),
        make_themed_source("bees"),
        make_unrelated_source(3),
    )


async def make_base_to_recluster(ctx: Context) -> None:
    """Make a base to be clustered again: one cluster is new, one has lost half of its chunks."""
    await make_unclustered_base(ctx)
    await cluster(ctx, make_ample_budget())
    await add_sources(
        ctx, make_themed_source("bees", range(PASSAGES_PER_THEME // 2)), make_themed_source("chess")
    )


async def make_base_with_new_chunks(ctx: Context) -> None:
    """Make a base with new chunks to assign, and a cluster that has lost all of its own."""
    await add_sources(ctx, make_themed_source("clouds", range(7)))
    await make_unclustered_base(ctx)
    await cluster(ctx, make_ample_budget())
    await delete_source(ctx, make_themed_source("clouds"))
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 2)))


async def run_undisturbed(prepared: Contents, settings: Settings) -> tuple[dict[str, Any], int]:
    """Return the final state of a base, and the number of commits."""
    async with opened(settings, "calm") as app:
        ctx = app.context(Caller(), Meter())
        await write_documents(ctx.database.client, prepared)
        before = app.commits
        await cluster(ctx, make_ample_budget())
        return await read_clustering(ctx), app.commits - before


class opened:  # noqa: N801 - used as a function
    """Return an app with a new project."""

    def __init__(self, settings: Settings, suffix: str, **more: Any) -> None:
        project = f"{settings.google_cloud_project}-{suffix}"
        chosen = settings.model_copy(update={"google_cloud_project": project})
        self._app = WatchedApp(chosen, clock=noon, embedder=WordEmbedder(), **more)

    async def __aenter__(self) -> WatchedApp:
        return self._app

    async def __aexit__(self, *_: object) -> None:
        await self._app.aclose()


@SOME_OR_ALL
@pytest.mark.parametrize(
    "prepare", [make_unclustered_base, make_base_to_recluster, make_base_with_new_chunks]
)
async def test_next_run_completes_one_killed_after_any_commit(
    prepare: Prepare, settings: Settings, step: int
) -> None:
    async with opened(settings, "prepared") as app:
        ctx = app.context(Caller(), Meter())
        await prepare(ctx)
        prepared = await read_root_documents(ctx.database.client)
    expected, commits = await run_undisturbed(prepared, settings)
    for number in range(1, commits, step):
        async with (
            opened(settings, str(number)) as app,
            opened(settings, str(number), hook=call_after(number, kill)) as dying,
        ):
            ctx = app.context(Caller(), Meter())
            await write_documents(ctx.database.client, prepared)
            with pytest.raises(KilledError):
                await cluster(dying.context(Caller(), Meter()), make_ample_budget())
            await cluster(ctx, make_ample_budget())
            assert await read_clustering(ctx) == expected, (
                f"killed after commit {number} of {commits}"
            )


async def test_repeatedly_killed_process_completes(settings: Settings, project: str) -> None:
    app = App(settings, embedder=WordEmbedder())
    ctx = app.context(Caller(), Meter())
    await make_base_to_recluster(ctx)
    fields = {"google_cloud_project": project, "lease_seconds": 0.001}
    with start_killable_children() as dying:
        for commits in (2, 3, 4):
            assert not dying.survives(fields, commits, job="cluster")
    await cluster(ctx, make_ample_budget())
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    assert len(stored_sizes) == 4
    assert await count_pending_chunks(ctx) == 0
    await app.aclose()
