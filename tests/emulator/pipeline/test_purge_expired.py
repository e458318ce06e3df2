"""Purge deletes expired documents, such as deleted tasks and stored answers, and no others.

A tombstone is the document of a deleted chunk that the index job has not yet removed.
"""

import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from functions.jobs.index.job import index
from functions.jobs.purge.job import SWEEPS, count_pending, purge
from functions.jobs.purge.knowledge import GRACE_PERIOD
from functions.jobs.repair.job import repair
from shared.firestore.documents import Reference
from shared.firestore.writes import Set, Write
from shared.pipeline.expiry import EXPIRING_KINDS
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_before_commit
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields
from tests.support.stored_documents import read_documents, read_tombstones
from tests.support.tasks import NOON, add_tasks, call_for_result
from tests.support.workspaces import read_write_times


async def test_only_tasks_deleted_thirty_days_ago_are_purged(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The number of a purged task is not used again. A run with nothing to do writes nothing."""
    first, second, third = await add_tasks(app, "bake", "sail", "read")
    await call_for_result(app, "delete_task", task_id=first)
    await call_for_result(app, "complete_task", task_id=second)
    await call_for_result(app, "delete_task", task_id=third, now=NOON + timedelta(days=1))

    app.clock = clock
    clock.now = NOON + timedelta(days=30, seconds=-1)
    assert (await purge(ctx, make_ample_budget())).counts["todos"] == 0

    clock.advance(seconds=1)
    assert await count_pending(ctx) == 1
    assert await purge(ctx, make_ample_budget()) == Report(Counter(todos=1))
    assert set(await read_documents(ctx, "users/anna/tasks")) == {"2", "3"}

    clock.advance(days=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(todos=1))

    ctx = make_job_context(app)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert ctx.meter.documents_written == 0
    assert ctx.meter.documents_read <= len(SWEEPS) + 4  # a query for each kind, and a few more
    assert await add_tasks(app, "sleep") == ["4"]


async def test_a_task_restored_during_the_run_stays(apps: Apps, clock: SettableClock) -> None:
    path = "users/anna/tasks/1"

    async def restore_task() -> None:
        await set_fields(ctx, path, {"purge_at": None, "state": "open"})

    ctx = make_job_context(apps(call_before_commit(2, restore_task), clock=clock))
    await ctx.database.commit([Set(Reference("users/anna/tasks", "1"), {"purge_at": clock()})])
    assert (await purge(ctx, make_ample_budget())).counts["todos"] == 0
    assert set(await read_documents(ctx, "users/anna/tasks")) == {"1"}


async def test_an_expired_answer_is_deleted(app: App, clock: SettableClock) -> None:
    await call_for_result(app, "add_task", title="bake", idempotency_key="one")
    app.clock = clock
    clock.now = NOON + timedelta(days=2, seconds=-1)
    ctx = make_job_context(app)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert len(await read_documents(ctx, "users/anna/replays")) == 1
    clock.advance(seconds=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(replays=1))


async def test_old_run_records_and_expired_leases_are_deleted(
    ctx: Context, clock: SettableClock
) -> None:
    """A lease stays for some days after it has expired. The ids say after how many days."""
    for days in (-31, -1, 1):
        fields = {"expires_at": clock() + timedelta(days=days)}
        await set_fields(ctx, f"runs/{days}", fields)
        await set_fields(ctx, f"leases/{days}", fields)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(runs=2, leases=1))
    assert set(await read_documents(ctx, "runs")) == {"1"}
    assert set(await read_documents(ctx, "leases")) == {"-1", "1"}


async def test_the_next_run_continues_one_without_time(ctx: Context, clock: SettableClock) -> None:
    count, writes = 18, list[Write]()
    for kind in EXPIRING_KINDS:
        for number in range(count):
            parent = f"users/user-{number}/" if kind.nested else ""
            document = Reference(f"{parent}{kind.collection}", str(number))
            writes.append(Set(document, {kind.field: clock() - timedelta(days=40)}))
    await ctx.database.commit(writes)

    reports = [await purge(ctx, make_spent_budget())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, make_spent_budget()))

    commits = sum(math.ceil(count / kind.commit_size) for kind in EXPIRING_KINDS)
    assert len(reports) == commits + 1
    counts = sum((report.counts for report in reports), Counter[str]())
    assert counts == Counter({kind.name: count for kind in EXPIRING_KINDS})
    assert await read_write_times(ctx) == {}


def test_each_kind_of_deletion_has_its_own_count() -> None:
    names = [sweep.name for sweep in SWEEPS]
    assert sorted(set(names)) == sorted(names)


async def test_a_dead_lettered_tombstone_is_deleted_after_a_week(
    ctx: Context, clock: SettableClock
) -> None:
    await ingest_sources(ctx, BAKING, SAILING)
    await index(ctx, make_ample_budget())
    await ingest_sources(ctx, replace(BAKING, sections=()))
    [dead_letter, *others] = sorted(await read_tombstones(ctx))
    change = {"pending": {}, "parked": {"index": "was refused"}}
    await ctx.database.connection.client.document(f"chunks/{dead_letter}").update(change)

    clock.now += GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report()
    clock.advance(seconds=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(tombstones=1))
    assert set(await read_tombstones(ctx)) == set(others)
    await index(ctx, make_ample_budget())
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)
