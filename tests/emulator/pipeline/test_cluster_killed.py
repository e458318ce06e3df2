"""A run of the cluster job that is killed after any commit is completed by the next one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from functions.jobs.cluster.job import cluster
from shared.runtime.context import App
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    WatchedApp,
    call_after_commit,
    send_commit,
)
from tests.support.database_dump import read_root_documents, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
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
    from collections.abc import AsyncIterator, Awaitable, Callable

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.commit_hooks import CommitHook
    from tests.support.database_dump import Contents

    PrepareBase = Callable[[Context], Awaitable[None]]

pytestmark = pytest.mark.anyio

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


class Killed(Exception):
    """Ends a run, as if its process were killed."""


async def die() -> None:
    raise Killed


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


class UndisturbedRun(NamedTuple):
    """The result of a run that is not killed."""

    documents: dict[str, dict[str, Any]]
    commits: int


async def run_undisturbed(base: Contents, settings: Settings) -> UndisturbedRun:
    """Run the job on a copy of the base."""
    async with open_app(settings, "undisturbed") as app:
        ctx = make_job_context(app)
        await write_documents(ctx.database.connection.client, base)
        commits_before = app.commits
        await cluster(ctx, make_ample_budget())
        return UndisturbedRun(await read_clustering(ctx), app.commits - commits_before)


@asynccontextmanager
async def open_app(
    settings: Settings, suffix: str, hook: CommitHook = send_commit
) -> AsyncIterator[WatchedApp]:
    """Open an app with a database of its own, the project of which has this suffix."""
    project = f"{settings.google_cloud_project}-{suffix}"
    app = WatchedApp(
        settings.model_copy(update={"google_cloud_project": project}),
        hook,
        clock=lambda: NOON,
        embedder=WordEmbedder(),
    )
    yield app
    await app.aclose()


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize(
    "prepare_base", [make_unclustered_base, make_base_to_recluster, make_base_with_new_chunks]
)
async def test_the_next_run_completes_one_killed_after_any_commit(
    prepare_base: PrepareBase, settings: Settings, step: int
) -> None:
    """The result is the same as that of a run that is not killed."""
    async with open_app(settings, "prepared") as app:
        ctx = make_job_context(app)
        await prepare_base(ctx)
        base = await read_root_documents(ctx.database.connection.client)
    expected, commits = await run_undisturbed(base, settings)

    for number in range(1, commits, step):
        async with (
            open_app(settings, str(number)) as app,
            open_app(settings, str(number), call_after_commit(number, die)) as dying_app,
        ):
            ctx = make_job_context(app)
            await write_documents(ctx.database.connection.client, base)
            with pytest.raises(Killed):
                await cluster(make_job_context(dying_app), make_ample_budget())
            await cluster(ctx, make_ample_budget())
            message = f"killed after commit {number} of {commits}"
            assert await read_clustering(ctx) == expected, message


async def test_the_next_run_completes_several_killed_processes(
    settings: Settings, project: str
) -> None:
    app = App(settings, embedder=WordEmbedder())
    ctx = make_job_context(app)
    await make_base_to_recluster(ctx)
    fields = {"google_cloud_project": project, "lease_seconds": 0.001}
    with start_killable_children() as children:
        for commits in (2, 3, 4):
            assert not children.survives(fields, commits, job="cluster")

    await cluster(ctx, make_ample_budget())
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    assert len(stored_sizes) == 4
    assert await count_pending_chunks(ctx) == 0
    await app.aclose()
