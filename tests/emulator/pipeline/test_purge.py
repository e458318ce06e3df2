"""Purge erases the materials of idle tasks, whole, and nothing else."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import Client

from functions.jobs.purge.idle_tasks import PAGE as TASKS_AT_ONCE
from functions.jobs.purge.idle_tasks import erase_idle
from functions.jobs.purge.job import purge, waiting
from shared.runtime.job import Budget, Report
from shared.workspaces.erasure import PAGES as DELETED_TOGETHER
from tests.support.materials import MAST, PAGES, READER, STRANGER, extract, extracted, refused
from tests.support.stored_documents import ample, nothing
from tests.support.tasks import ask
from tests.support.workspaces import (
    QUESTION,
    bring,
    of_job,
    opened,
    stored,
    task_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import Backend, Deps
    from tests.support.clock import SettableClock

pytestmark = pytest.mark.anyio

GONE = Counter(documents=1, parts=2, passages=4, tasks=1)
"""What is deleted of a task to which `PAGES` were brought."""


@pytest.fixture
async def backend(settings: Settings, clock: SettableClock) -> AsyncIterator[Backend]:
    async with opened(settings, clock) as backend:
        yield backend


@pytest.fixture
def deps(backend: Backend) -> Deps:
    return of_job(backend)


async def tasks_left(deps: Deps) -> set[str]:
    return {path for path in await stored(deps) if path.count("/") == 3 and "/rag_tasks/" in path}


async def test_a_task_is_erased_when_it_was_not_used_for_ninety_days(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    await bring(backend, "old")
    clock.advance(days=1, hours=2)
    await bring(backend, "young")
    young = await stored(deps, "users/reader/rag_tasks/young")
    clock.advance(days=89)
    done: list[int] = []
    assert 1 == await waiting(deps)
    assert Report(GONE) == await purge(deps, Budget(math.inf, done.append))
    assert [1] == done
    assert young == await stored(deps, "users/")
    assert (0, Report()) == (await waiting(deps), await purge(deps, ample()))


async def test_the_ninety_days_are_the_settings(settings: Settings, clock: SettableClock) -> None:
    async with opened(settings.model_copy(update={"materials_days": 2}), clock) as backend:
        await bring(backend, "old")
        clock.advance(days=2, minutes=59)
        assert Report() == await purge(of_job(backend), ample())
        clock.advance(minutes=2)
        assert Report(GONE) == await purge(of_job(backend), ample())


async def test_a_task_stays_ninety_days_after_an_unwritten_use(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    brought = await bring(backend, "notes")
    clock.advance(minutes=59)
    await extracted(backend, QUESTION, document=brought["document"], task_id="notes")
    clock.advance(days=90)
    assert Report() == await purge(deps, ample())
    clock.advance(minutes=2)
    assert Report(GONE) == await purge(deps, ample())


@pytest.mark.parametrize(
    "use",
    [
        {"scope": "task"},
        {"document": "that of the materials"},
        {"document": "that of the materials", "scope": "task"},
        {"materials": PAGES},
        {"materials": PAGES, "scope": "task"},
        {"materials": MAST},
        {"materials": MAST, "scope": "task"},
    ],
)
async def test_every_use_keeps_a_task_alive(
    backend: Backend, deps: Deps, clock: SettableClock, use: dict[str, Any]
) -> None:
    brought = await bring(backend, "notes")
    clock.advance(days=89)
    if "document" in use:
        use = use | {"document": brought["document"]}
    await extracted(backend, QUESTION, task_id="notes", **use)
    whole = await stored(deps, "users/")
    clock.advance(days=89)
    assert Report() == await purge(deps, ample())
    assert whole == await stored(deps, "users/")
    clock.advance(days=2)
    assert 1 == (await purge(deps, ample())).counts["tasks"]
    assert {} == await stored(deps, "users/")


async def test_bringing_again_what_never_arrived_keeps_a_task_alive(
    backend: Backend, deps: Deps, clock: SettableClock, settings: Settings
) -> None:
    async with opened(settings, clock) as other:
        other.embedder.down = True  # type: ignore[attr-defined]
        await refused(other, QUESTION, materials=PAGES, task_id="notes")
    clock.advance(days=89)
    await bring(backend, "notes")
    clock.advance(days=2)
    assert Report() == await purge(deps, ample())


async def test_materials_that_never_arrived_are_erased_too(
    deps: Deps, clock: SettableClock, settings: Settings
) -> None:
    async with opened(settings, clock) as other:
        other.embedder.down = True  # type: ignore[attr-defined]
        await refused(other, QUESTION, materials=PAGES, task_id="notes")
    clock.advance(days=91)
    assert 1 == (await purge(deps, ample())).counts["tasks"]
    assert {} == await stored(deps, "users/")


async def test_a_task_that_is_used_after_it_was_found_idle_stays(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    for task in ("first", "second"):
        await bring(backend, task)
        clock.advance(minutes=1)
    clock.advance(days=91)
    used = task_of(deps, "second").path

    def use(_count: int) -> None:  # while the first is being erased
        client = Client(project=deps.settings.google_cloud_project)
        client.document(used).update({"touched_at": clock()})
        client.close()  # type: ignore[no-untyped-call]

    assert Report(GONE) == await purge(deps, Budget(math.inf, use))
    assert {used} == await tasks_left(deps)
    found = await extracted(backend, QUESTION, scope="task", task_id="second")
    assert MAST == found["contexts"][0]


async def test_nothing_else_of_anybody_is_touched(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    for caller in (READER, STRANGER):
        await bring(backend, "old", caller=caller, idempotency_key="one")
    clock.advance(days=60)
    await bring(backend, "old-too", idempotency_key="two")
    await bring(backend, "old", caller=STRANGER, idempotency_key="three")
    await ask(backend, "add_task", "reader", title="bake", idempotency_key="four")
    before = await stored(deps)
    clock.advance(days=31)
    report = Report()
    await erase_idle(deps, ample(), report)
    assert GONE + Counter(answers=1) == report.counts
    gone = before.keys() - (await stored(deps)).keys()
    assert {"rag_tasks", "replays"} == {path.split("/")[2] for path in gone}
    assert {"reader"} == {path.split("/")[1] for path in gone}
    assert all("/replays/" in path or "/rag_tasks/old" in path for path in gone)
    assert report.counts.total() == len(gone)
    assert {path: at for path, at in before.items() if path not in gone} == await stored(deps)


async def test_an_answer_of_an_erased_task_is_not_repeated(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    arguments: Any = {"materials": PAGES, "task_id": "notes", "idempotency_key": "one"}
    first = await extract(backend, QUESTION, **arguments)
    assert (await extract(backend, QUESTION, **arguments)).receipt.replayed
    clock.advance(days=91)
    await purge(deps, ample())
    fresh = await extract(backend, QUESTION, **arguments)
    assert (None, first.result) == (fresh.receipt.replayed, fresh.result)
    assert fresh.result
    assert not fresh.result["known"]
    assert (await extract(backend, QUESTION, **arguments)).receipt.replayed


async def fill(deps: Deps, task: str, passages: int) -> None:
    """Put more passages into a task, as if they had been brought."""
    folder = deps.database.collection(f"{task_of(deps, task).path}/passages")
    batch = deps.database.client.batch()
    for number in range(passages):
        batch.set(folder.document(f"more-{number}"), {"text": "more", "facets": []})
    await batch.commit()


async def test_a_run_without_time_does_a_little_and_the_next_goes_on(
    backend: Backend, deps: Deps, clock: SettableClock
) -> None:
    for task in ("first", "second"):
        await bring(backend, task)
    await fill(deps, "first", 2 * DELETED_TOGETHER["passages"])
    clock.advance(days=91)
    reports = [await purge(deps, nothing())]
    while not reports[-1].finished:
        reports.append(await purge(deps, nothing()))
    assert max(report.counts.total() for report in reports) <= max(DELETED_TOGETHER.values())
    assert 2 * 4 + 2 + 1 == len(reports)  # commits for each, two more for pages, and the end
    counts = sum((report.counts for report in reports), Counter[str]())
    assert GONE + GONE + Counter(passages=2 * DELETED_TOGETHER["passages"]) == counts
    assert {} == await stored(deps, "users/")


async def test_more_tasks_than_are_read_at_once_are_all_erased(
    deps: Deps, clock: SettableClock
) -> None:
    batch = deps.database.client.batch()
    for number in range(TASKS_AT_ONCE + 3):
        task = task_of(deps, "notes", f"user-{number}")
        batch.create(task.task_reference, {"created_at": clock(), "touched_at": clock()})
    await batch.commit()
    clock.advance(days=91)
    assert TASKS_AT_ONCE + 3 == await waiting(deps)
    assert Report(Counter(tasks=TASKS_AT_ONCE + 3)) == await purge(deps, ample())
