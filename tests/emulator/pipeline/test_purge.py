"""Purge erases workspaces that were not used for ninety days, completely, and nothing else.

A workspace has the documents that a user brought to `extract_key_info` for a task.
"""

import math
from collections import Counter
from typing import Any

import pytest
from google.cloud.firestore import Client

from functions.jobs.purge.job import purge
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report
from shared.workspaces.erasure import UNUSED_WORKSPACES
from shared.workspaces.model import content_id
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.materials import (
    MAST,
    READER,
    STRANGER,
    TEXT,
    call_extract,
    extract_error,
    extract_result,
)
from tests.support.tasks import call_at
from tests.support.workspaces import (
    QUESTION,
    open_workspace,
    read_write_times,
    upload_text,
)

COMMIT_SIZES = {kind.name: kind.commit_size for kind in UNUSED_WORKSPACES.dependents}
ONE_WORKSPACE = Counter(documents=1, parts=1, rag_tasks=1)
"""The deleted documents, by kind, if a workspace that contains only `TEXT` is erased."""


@pytest.mark.requirement("001-O3")
async def test_a_workspace_unused_for_ninety_days_is_erased(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await upload_text(app, "old")
    clock.advance(days=1, hours=2)
    await upload_text(app, "young")
    young = await read_write_times(ctx, "users/reader/rag_tasks/young")
    clock.advance(days=89)

    progress: list[int] = []
    assert await purge(ctx, Budget(math.inf, progress.append)) == Report(ONE_WORKSPACE)

    assert progress == [1]
    assert await read_write_times(ctx, "users/") == young


async def test_an_incomplete_upload_is_erased_unless_it_is_retried(
    apps: Apps, clock: SettableClock
) -> None:
    embedder = WordEmbedder()
    app = apps(clock=clock, embedder=embedder, materials_days=2)
    ctx = make_job_context(app)
    embedder.is_down = True
    for task in ("retried", "given-up"):
        await extract_error(app, QUESTION, materials=TEXT, task_id=task)
    embedder.is_down = False
    clock.advance(days=1, hours=23)
    await upload_text(app, "retried")
    clock.advance(minutes=119)
    assert await purge(ctx, make_ample_budget()) == Report()
    clock.advance(minutes=2)
    assert (await purge(ctx, make_ample_budget())).counts["rag_tasks"] == 1
    clock.advance(days=2)
    assert await purge(ctx, make_ample_budget()) == Report(ONE_WORKSPACE + Counter(answers=1))
    assert await read_write_times(ctx, "users/") == {}


async def test_use_within_the_touch_interval_keeps_a_workspace(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """A use within an hour of the last one is not stored, but the workspace stays long enough."""
    out = await upload_text(app, "notes")
    clock.advance(minutes=59)
    await extract_result(app, QUESTION, document=out["document"], task_id="notes")

    clock.advance(days=90)
    assert await purge(ctx, make_ample_budget()) == Report()
    clock.advance(minutes=2)
    assert await purge(ctx, make_ample_budget()) == Report(ONE_WORKSPACE)


@pytest.mark.requirement("001-D14")
@pytest.mark.parametrize(
    "arguments",
    [
        {"scope": "task"},
        {"document": content_id(TEXT)},
        {"materials": TEXT},
        {"materials": MAST, "scope": "task"},
    ],
)
async def test_every_use_keeps_a_workspace(
    app: App, ctx: Context, clock: SettableClock, arguments: dict[str, Any]
) -> None:
    await upload_text(app, "notes")
    clock.advance(days=89)
    await extract_result(app, QUESTION, task_id="notes", **arguments)
    before = await read_write_times(ctx, "users/")

    clock.advance(days=89)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert await read_write_times(ctx, "users/") == before

    clock.advance(days=2)
    assert (await purge(ctx, make_ample_budget())).counts["rag_tasks"] == 1
    assert await read_write_times(ctx, "users/") == {}


async def test_a_workspace_used_during_the_run_stays(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The second workspace is used when the first one has been erased."""
    for task in ("first", "second"):
        await upload_text(app, task)
        clock.advance(minutes=1)
    clock.advance(days=91)
    second_path = open_workspace(ctx, "second").path

    def use_second(_count: int) -> None:
        client = Client(project=ctx.settings.google_cloud_project)
        client.document(second_path).update({"touched_at": clock()})
        client.close()

    assert await purge(ctx, Budget(math.inf, use_second)) == Report(ONE_WORKSPACE)

    assert not [path for path in await read_write_times(ctx) if "/rag_tasks/first" in path]
    out = await extract_result(app, QUESTION, scope="task", task_id="second")
    assert out["contexts"][0] == MAST


async def test_erasure_of_a_workspace_changes_no_other_data(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """Only the workspace `old` of one user is idle. Answers that were stored for it expire too."""
    for caller in (READER, STRANGER):
        await upload_text(app, "old", caller=caller, idempotency_key="one")
    clock.advance(days=60)
    await upload_text(app, "old-too", idempotency_key="two")
    await upload_text(app, "old", caller=STRANGER, idempotency_key="three")
    await call_at(app, "add_task", "reader", title="bake", idempotency_key="four")
    before = await read_write_times(ctx)
    clock.advance(days=31)

    report = await purge(ctx, make_ample_budget())

    assert report.counts == ONE_WORKSPACE + Counter(answers=1)
    after = await read_write_times(ctx)
    deleted_paths = before.keys() - after.keys()
    assert len(deleted_paths) == report.counts.total()
    for path in deleted_paths:
        assert path.startswith(("users/reader/rag_tasks/old", "users/reader/replays/"))
    assert after == {path: time for path, time in before.items() if path not in deleted_paths}


async def test_the_answer_of_an_erased_workspace_is_not_replayed(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    arguments: Any = {"materials": TEXT, "task_id": "notes", "idempotency_key": "one"}
    first_answer = await call_extract(app, QUESTION, **arguments)
    assert (await call_extract(app, QUESTION, **arguments)).receipt.replayed

    clock.advance(days=91)
    await purge(ctx, make_ample_budget())

    new_answer = await call_extract(app, QUESTION, **arguments)
    assert new_answer.receipt.replayed is None
    assert new_answer.result == first_answer.result
    assert new_answer.result
    assert not new_answer.result["known"]
    assert (await call_extract(app, QUESTION, **arguments)).receipt.replayed


async def add_parts(ctx: Context, task: str, count: int) -> None:
    """Add this many parts to a workspace, as uploads do."""
    parts = ctx.database.connection.client.collection(f"{open_workspace(ctx, task).path}/parts")
    batch = ctx.database.connection.client.batch()
    for number in range(count):
        batch.set(parts.document(f"more-{number}"), {"data": b"more"})
    await batch.commit()


async def test_the_next_run_continues_one_without_time(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    for task in ("first", "second"):
        await upload_text(app, task)
    await add_parts(ctx, "first", 2 * COMMIT_SIZES["parts"])
    clock.advance(days=91)

    reports = [await purge(ctx, make_spent_budget())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, make_spent_budget()))

    assert max(report.counts.total() for report in reports) <= max(COMMIT_SIZES.values())
    # Three runs for each workspace, two more for the further pages of parts, and the last one.
    assert len(reports) == 2 * 3 + 2 + 1
    counts = sum((report.counts for report in reports), Counter[str]())
    assert counts == ONE_WORKSPACE + ONE_WORKSPACE + Counter(parts=2 * COMMIT_SIZES["parts"])
    assert await read_write_times(ctx, "users/") == {}
