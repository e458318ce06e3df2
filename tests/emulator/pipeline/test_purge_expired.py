"""Purge deletes what says itself when it may go, and nothing before its time."""

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
from tests.support.commit_hooks import WatchedApp, before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import set_fields
from tests.support.stored_documents import ample, documents, nothing
from tests.support.tasks import NOON, add_tasks, result_of
from tests.support.workspaces import job_context, write_times

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


def at(app: App, **later: float) -> Context:
    """What a job may use that runs so much after noon."""
    moment = NOON + timedelta(**later)
    app.clock = lambda: moment
    return job_context(app)


async def test_a_deleted_to_do_goes_after_thirty_days_and_no_other(app: App) -> None:
    first, second, third = await add_tasks(app, "bake", "sail", "read")
    await result_of(app, "delete_task", task_id=first)
    await result_of(app, "complete_task", task_id=second)
    await result_of(app, "delete_task", task_id=third, now=NOON + timedelta(days=1))
    assert 0 == (await purge(at(app, days=30, seconds=-1), ample())).counts["todos"]
    ctx = at(app, days=30)
    assert (1, Report(Counter(todos=1))) == (await count_pending(ctx), await purge(ctx, ample()))
    assert {"2", "3"} == set(await documents(ctx, "users/anna/tasks"))
    assert Report(Counter(todos=1)) == await purge(at(app, days=31), ample())


async def test_a_number_is_not_used_again_when_its_to_do_is_gone(app: App) -> None:
    [first] = await add_tasks(app, "bake")
    await result_of(app, "delete_task", task_id=first)
    await purge(at(app, days=31), ample())
    assert {} == await documents(job_context(app), "users/anna/tasks")
    [second] = await add_tasks(app, "sail")
    assert first != second


async def test_a_to_do_that_changes_after_it_was_found_stays(settings: Settings) -> None:
    app = WatchedApp(settings, embedder=WordEmbedder())
    [first] = await add_tasks(app, "bake")
    await result_of(app, "delete_task", task_id=first)
    await app.aclose()

    async def restore() -> None:
        changed = {"purge_at": None, "state": "open"}
        reference = app.connection.client.document(TODO.format(1))
        await reference.update(changed)

    app = WatchedApp(settings, before(1, restore), embedder=WordEmbedder())
    assert 0 == (await purge(at(app, days=31), ample())).counts["todos"]
    assert {"1"} == set(await documents(job_context(app), "users/anna/tasks"))
    await app.aclose()


async def test_an_answer_is_forgotten_once_it_has_expired(app: App) -> None:
    await result_of(app, "add_task", title="bake", idempotency_key="one")
    path = "users/anna/replays"
    assert Report() == await purge(at(app, days=2, seconds=-1), ample())
    assert 1 == len(await documents(job_context(app), path))
    assert Report(Counter(replays=1)) == await purge(at(app, days=2), ample())
    assert {} == await documents(job_context(app), path)


async def test_records_of_runs_and_leases_of_the_dead_are_deleted(app: App) -> None:
    ctx = at(app)
    for day in (-31, -1, 1):
        expiry = {"expires_at": NOON + timedelta(days=day)}
        await set_fields(ctx, f"runs/{day}", expiry)
        await set_fields(ctx, f"leases/{day}", expiry)
    assert Report(Counter(runs=2, leases=1)) == await purge(ctx, ample())
    left = (set(await documents(ctx, "runs")), set(await documents(ctx, "leases")))
    assert ({"1"}, {"-1", "1"}) == left


async def test_nothing_to_delete_costs_a_few_reads_and_no_write(app: App) -> None:
    await add_tasks(app, "bake", "sail")
    meter = Meter()
    assert Report() == await purge(app.context(Caller(), meter), ample())
    assert 0 == meter.documents_written
    assert meter.documents_read <= len(SWEEPS) + 3


async def filled(ctx: Context, count: int) -> None:
    """Put as many of every kind into the database that have expired."""
    batch, client = ctx.database.client.batch(), ctx.database.client
    for kind in EXPIRING:
        for number in range(count):
            parent = f"users/user-{number}/" if kind.of_users else ""
            fields = {kind.field: NOON - timedelta(days=40)}
            batch.set(client.document(f"{parent}{kind.collection}/{number}"), fields)
    await batch.commit()


async def test_a_run_without_time_does_a_little_and_the_next_goes_on(app: App) -> None:
    ctx, count = at(app), 18
    await filled(ctx, count)
    reports = [await purge(ctx, nothing())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, nothing()))
    commits = sum(-(-count // kind.commit_size) for kind in EXPIRING)
    assert commits + 1 == len(reports)
    counts = sum((report.counts for report in reports), Counter[str]())
    assert Counter({kind.name: count for kind in EXPIRING}) == counts
    assert {} == await write_times(ctx)


async def test_after_every_commit_what_is_left_is_what_has_not_expired(settings: Settings) -> None:
    class DiedError(Exception):
        pass

    app = WatchedApp(settings, clock=SettableClock(NOON), embedder=WordEmbedder())
    await filled(job_context(app), 18)
    await set_fields(job_context(app), TODO.format(7), {"purge_at": NOON + timedelta(days=1)})
    deaths = 0

    async def die_after_the_first(_commit: int, send: Any) -> list[Any]:
        await send()
        raise DiedError

    while True:
        dying = WatchedApp(settings, die_after_the_first, clock=SettableClock(NOON))
        try:
            await purge(job_context(dying), ample())
        except DiedError:
            deaths += 1
        else:
            break
        finally:
            await dying.aclose()
    assert sum(-(-18 // kind.commit_size) for kind in EXPIRING) == deaths
    assert {TODO.format(7)} == set(await write_times(job_context(app)))
    await app.aclose()


def test_every_kind_is_deleted_under_its_own_name() -> None:
    names = [sweep.name for sweep in SWEEPS]
    assert sorted(set(names)) == sorted(names)
