"""Purge deletes expired documents, such as deleted tasks and stored answers, and no others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from functions.jobs.purge.job import SWEEPS, count_pending, purge
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.pipeline.expiry import EXPIRING_KINDS
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_documents
from tests.support.tasks import NOON, add_tasks, call_for_result
from tests.support.workspaces import read_write_times

TASK_PATH = "users/anna/tasks/{}"


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    """An app whose clock the tests set."""
    opened = WatchedApp(settings, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


def make_context_after(app: App, **after_noon: float) -> Context:
    """Return the context of a job that runs this much after noon."""
    moment = NOON + timedelta(**after_noon)
    app.clock = lambda: moment
    return make_job_context(app)


async def test_only_tasks_deleted_thirty_days_ago_are_purged(app: App) -> None:
    first, second, third = await add_tasks(app, "bake", "sail", "read")
    await call_for_result(app, "delete_task", task_id=first)
    await call_for_result(app, "complete_task", task_id=second)
    await call_for_result(app, "delete_task", task_id=third, now=NOON + timedelta(days=1))

    ctx = make_context_after(app, days=30, seconds=-1)
    assert (await purge(ctx, make_ample_budget())).counts["todos"] == 0

    ctx = make_context_after(app, days=30)
    assert await count_pending(ctx) == 1
    assert await purge(ctx, make_ample_budget()) == Report(Counter(todos=1))
    assert set(await read_documents(ctx, "users/anna/tasks")) == {"2", "3"}

    ctx = make_context_after(app, days=31)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(todos=1))


async def test_the_number_of_a_purged_task_is_not_reused(app: App) -> None:
    [first] = await add_tasks(app, "bake")
    await call_for_result(app, "delete_task", task_id=first)
    await purge(make_context_after(app, days=31), make_ample_budget())
    assert await read_documents(make_job_context(app), "users/anna/tasks") == {}
    [second] = await add_tasks(app, "sail")
    assert first != second


async def test_a_task_restored_during_the_run_stays(settings: Settings) -> None:
    app = WatchedApp(settings, embedder=WordEmbedder())
    [first] = await add_tasks(app, "bake")
    await call_for_result(app, "delete_task", task_id=first)
    await app.aclose()

    async def restore_task() -> None:
        task = app.connection.client.document(TASK_PATH.format(1))
        await task.update({"purge_at": None, "state": "open"})

    app = WatchedApp(settings, call_before_commit(1, restore_task), embedder=WordEmbedder())
    report = await purge(make_context_after(app, days=31), make_ample_budget())
    assert report.counts["todos"] == 0
    assert set(await read_documents(make_job_context(app), "users/anna/tasks")) == {"1"}
    await app.aclose()


async def test_an_expired_answer_is_deleted(app: App) -> None:
    await call_for_result(app, "add_task", title="bake", idempotency_key="one")
    path = "users/anna/replays"

    ctx = make_context_after(app, days=2, seconds=-1)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert len(await read_documents(ctx, path)) == 1

    ctx = make_context_after(app, days=2)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(replays=1))
    assert await read_documents(ctx, path) == {}


async def test_old_run_records_and_expired_leases_are_deleted(app: App) -> None:
    """A lease stays for some days after it has expired. The ids say after how many days."""
    ctx = make_context_after(app)
    for days in (-31, -1, 1):
        fields = {"expires_at": NOON + timedelta(days=days)}
        await set_fields(ctx, f"runs/{days}", fields)
        await set_fields(ctx, f"leases/{days}", fields)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(runs=2, leases=1))
    assert set(await read_documents(ctx, "runs")) == {"1"}
    assert set(await read_documents(ctx, "leases")) == {"-1", "1"}


async def test_a_run_with_nothing_to_delete_writes_nothing(app: App) -> None:
    await add_tasks(app, "bake", "sail")
    meter = Meter()
    assert await purge(app.context(Caller(), meter), make_ample_budget()) == Report()
    assert meter.documents_written == 0
    assert meter.documents_read <= len(SWEEPS) + 4  # a query for each kind, and a few more


async def store_expired(ctx: Context, count: int) -> None:
    """Store this many expired documents of every kind."""
    batch, client = ctx.database.connection.client.batch(), ctx.database.connection.client
    for kind in EXPIRING_KINDS:
        for number in range(count):
            parent = f"users/user-{number}/" if kind.nested else ""
            fields = {kind.field: NOON - timedelta(days=40)}
            batch.set(client.document(f"{parent}{kind.collection}/{number}"), fields)
    await batch.commit()


def count_commits(count: int) -> int:
    """Return the number of commits that delete this many documents of every kind."""
    return sum(math.ceil(count / kind.commit_size) for kind in EXPIRING_KINDS)


async def test_the_next_run_continues_one_without_time(app: App) -> None:
    ctx, count = make_context_after(app), 18
    await store_expired(ctx, count)

    reports = [await purge(ctx, make_spent_budget())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, make_spent_budget()))

    assert len(reports) == count_commits(count) + 1
    counts = sum((report.counts for report in reports), Counter[str]())
    assert counts == Counter({kind.name: count for kind in EXPIRING_KINDS})
    assert await read_write_times(ctx) == {}


def test_each_kind_of_deletion_has_its_own_count() -> None:
    names = [sweep.name for sweep in SWEEPS]
    assert sorted(set(names)) == sorted(names)
