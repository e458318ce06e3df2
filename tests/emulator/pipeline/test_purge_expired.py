"""Purge deletes expired documents, and nothing before its time."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.purge.job import SWEEPS, count_pending, purge
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.pipeline.expiry import EXPIRING
from shared.runtime.job import Report
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_documents
from tests.support.tasks import NOON, add_tasks, call_for_result
from tests.support.workspaces import read_write_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

TODO = "users/anna/tasks/{}"


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    watched = WatchedApp(settings, embedder=WordEmbedder())
    yield watched
    await watched.aclose()


def make_context_after(app: App, **later: float) -> Context:
    """Return the context of a job that runs this much after noon."""
    moment = NOON + timedelta(**later)
    app.clock = lambda: moment
    return make_job_context(app)


async def test_only_tasks_deleted_thirty_days_ago_are_purged(app: App) -> None:
    first, second, third = await add_tasks(app, "bake", "sail", "read")
    await call_for_result(app, "delete_task", task_id=first)
    await call_for_result(app, "complete_task", task_id=second)
    await call_for_result(app, "delete_task", task_id=third, now=NOON + timedelta(days=1))
    assert (await purge(make_context_after(app, days=30, seconds=-1), make_ample_budget())).counts[
        "todos"
    ] == 0
    ctx = make_context_after(app, days=30)
    assert await count_pending(ctx) == 1
    assert await purge(ctx, make_ample_budget()) == Report(Counter(todos=1))
    assert set(await read_documents(ctx, "users/anna/tasks")) == {"2", "3"}
    assert await purge(make_context_after(app, days=31), make_ample_budget()) == Report(
        Counter(todos=1)
    )


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

    async def restore() -> None:
        changed = {"purge_at": None, "state": "open"}
        reference = app.connection.client.document(TODO.format(1))
        await reference.update(changed)

    app = WatchedApp(settings, call_before(1, restore), embedder=WordEmbedder())
    assert (await purge(make_context_after(app, days=31), make_ample_budget())).counts["todos"] == 0
    assert set(await read_documents(make_job_context(app), "users/anna/tasks")) == {"1"}
    await app.aclose()


async def test_an_expired_answer_is_deleted(app: App) -> None:
    await call_for_result(app, "add_task", title="bake", idempotency_key="one")
    path = "users/anna/replays"
    assert await purge(make_context_after(app, days=2, seconds=-1), make_ample_budget()) == Report()
    assert len(await read_documents(make_job_context(app), path)) == 1
    assert await purge(make_context_after(app, days=2), make_ample_budget()) == Report(
        Counter(replays=1)
    )
    assert await read_documents(make_job_context(app), path) == {}


async def test_old_run_records_and_expired_leases_are_deleted(app: App) -> None:
    ctx = make_context_after(app)
    for day in (-31, -1, 1):
        expiry = {"expires_at": NOON + timedelta(days=day)}
        await set_fields(ctx, f"runs/{day}", expiry)
        await set_fields(ctx, f"leases/{day}", expiry)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(runs=2, leases=1))
    left = (set(await read_documents(ctx, "runs")), set(await read_documents(ctx, "leases")))
    assert left == ({"1"}, {"-1", "1"})


async def test_a_run_with_nothing_to_delete_writes_nothing(app: App) -> None:
    await add_tasks(app, "bake", "sail")
    meter = Meter()
    assert await purge(app.context(Caller(), meter), make_ample_budget()) == Report()
    assert meter.documents_written == 0
    assert meter.documents_read <= len(SWEEPS) + 4


async def store_expired(ctx: Context, count: int) -> None:
    """Store this many expired documents of every kind."""
    batch, client = ctx.database.client.batch(), ctx.database.client
    for kind in EXPIRING:
        for number in range(count):
            parent = f"users/user-{number}/" if kind.nested else ""
            fields = {kind.field: NOON - timedelta(days=40)}
            batch.set(client.document(f"{parent}{kind.collection}/{number}"), fields)
    await batch.commit()


async def test_the_next_run_continues_one_without_time(app: App) -> None:
    ctx, count = make_context_after(app), 18
    await store_expired(ctx, count)
    reports = [await purge(ctx, make_spent_budget())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, make_spent_budget()))
    commits = sum(-(-count // kind.commit_size) for kind in EXPIRING)
    assert commits + 1 == len(reports)
    counts = sum((report.counts for report in reports), Counter[str]())
    assert Counter({kind.name: count for kind in EXPIRING}) == counts
    assert await read_write_times(ctx) == {}


async def test_a_run_killed_after_any_commit_is_completed(settings: Settings) -> None:
    class DiedError(Exception):
        pass

    app = WatchedApp(settings, clock=SettableClock(NOON), embedder=WordEmbedder())
    await store_expired(make_job_context(app), 18)
    await set_fields(make_job_context(app), TODO.format(7), {"purge_at": NOON + timedelta(days=1)})
    deaths = 0

    async def die_after_the_first(_commit: int, send: Any) -> list[Any]:
        await send()
        raise DiedError

    while True:
        dying = WatchedApp(settings, die_after_the_first, clock=SettableClock(NOON))
        try:
            await purge(make_job_context(dying), make_ample_budget())
        except DiedError:
            deaths += 1
        else:
            break
        finally:
            await dying.aclose()
    assert sum(-(-18 // kind.commit_size) for kind in EXPIRING) == deaths
    assert {TODO.format(7)} == set(await read_write_times(make_job_context(app)))
    await app.aclose()


def test_each_kind_of_deletion_has_its_own_count() -> None:
    names = [sweep.name for sweep in SWEEPS]
    assert sorted(set(names)) == sorted(names)
