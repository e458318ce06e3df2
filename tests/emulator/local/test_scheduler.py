"""On a laptop, one process runs what is due by schedule, and what new texts wait for."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from functions.gateway.catalog import Declaration
from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.ingest.links import queue
from infra.build.discovery import jobs
from infra.local import scheduler
from infra.local.cron import find_last_time
from infra.local.inline import InlineDispatcher
from infra.local.scheduler import WakingDispatcher, wake
from shared.core.errors import Unavailable
from shared.firestore.leases import Leases
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.links import (
    EDITOR,
    ESSAY,
    SITE_URL,
    make_link_fetcher,
    make_text_page,
    serve_site,
)
from tests.support.scheduling import (
    count_runs,
    hurry,
    run_scheduler,
    wait_for_texts,
    wait_until,
)
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result, find_tool, make_call_request

SCHEDULED: Final = frozenset(job.name for job in jobs() if job.schedule)


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state folder without a working process."""
    hurry(monkeypatch, tmp_path / "state")
    return tmp_path / "state"


async def test_what_was_missed_runs_once(app: App, ctx: Context, clock: SettableClock) -> None:
    """Each job runs once when a laptop wakes up, however often it was due."""

    async def have_run(times: int) -> bool:
        runs = await count_runs(ctx)
        return all(runs[name] >= times for name in SCHEDULED)

    clock.now = clock()
    async with run_scheduler(app):
        await wait_until(lambda: have_run(1))
        clock.advance(days=9)
        await wait_until(lambda: have_run(2))
        clock.advance(minutes=5)

        async def has_embedded_materials() -> bool:
            return (await count_runs(ctx))["ingest_materials"] == 3

        await wait_until(has_embedded_materials)
    before = await count_runs(ctx)
    assert set(before.values()) <= {2, 3}

    async def have_steps_run() -> bool:
        return (await count_runs(ctx))["index"] > before["index"]

    async with run_scheduler(app):  # nothing is due, but texts may wait
        await wait_until(have_steps_run)
    assert (await count_runs(ctx))["purge"] == 2


async def test_a_saved_link_is_fetched_and_found(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = find_tool("save_link")
    declaration = Declaration.model_validate(tool.declaration())
    dispatcher = WakingDispatcher(InlineDispatcher(app))
    url = f"{SITE_URL}/essay"

    async def is_found() -> bool:
        answer = await call_result(app, "search_kb", EDITOR, query="reef the mainsail")
        return [hit["title"] for hit in answer["results"]] == ["On Reefing"]

    with serve_site(essay=make_text_page(ESSAY)) as site:
        monkeypatch.setattr(queue, "SafeFetch", lambda _: make_link_fetcher(site))
        async with run_scheduler(app):
            answer = await dispatcher.call(
                declaration, make_call_request(tool, EDITOR, {"url": url})
            )
            assert answer.error is None
            await wait_until(is_found)
    [stored] = (await call_result(app, "get_recent", EDITOR))["links"]
    assert stored["state"] == "stored"


async def test_a_readwise_library_is_followed_every_hour(
    apps: Apps, ctx: Context, clock: SettableClock
) -> None:
    """A saved note or a folder that changes asks Readwise nothing."""
    with FakeReadwise() as readwise:
        readwise.put_book(7, "Reef early.")
        app = apps(
            clock=clock,
            embedder=WordEmbedder(),
            readwise_token=SecretStr(TOKEN),
            readwise_url=readwise.base_url,
        )
        clock.now = clock()
        async with run_scheduler(app):
            await wait_for_texts(ctx, "Reef early.")
            requests, runs = len(readwise.calls), (await count_runs(ctx))["index"]
            wake()

            async def has_run() -> bool:
                return (await count_runs(ctx))["index"] > runs

            await wait_until(has_run)
            assert len(readwise.calls) == requests
            readwise.advance(hours=1)
            readwise.put_book(8, "Heave to.")
            clock.advance(hours=1)
            await wait_for_texts(ctx, "Reef early.", "Heave to.")


async def test_a_failed_job_stops_no_other_and_waits_for_its_time(
    app: App, ctx: Context, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_ctx: Context, _budget: Budget) -> Report:
        raise Unavailable("The language model does not answer.")

    monkeypatch.setattr("functions.jobs.cards.job.JOB", replace(CARDS, run=fail))
    clock.now = clock()

    async def have_run(times: int) -> bool:
        runs = await count_runs(ctx)
        return runs["index"] >= times and runs["cards"] >= times

    async with run_scheduler(app):
        await wait_until(lambda: have_run(1))
        assert (await count_runs(ctx))["cards"] == 1
        clock.advance(minutes=30)
        await wait_until(lambda: have_run(2))
    runs = (await read_documents(ctx, "runs")).values()
    assert [run["state"] for run in runs if run["job"] == "cards"] == ["stopped"] * 2


async def test_another_process_takes_over(apps: Apps, ctx: Context, clock: SettableClock) -> None:
    first, second = (apps(clock=clock, embedder=WordEmbedder()) for _ in range(2))
    clock.now = clock()

    async def have_materials(times: int) -> bool:
        return (await count_runs(ctx))["ingest_materials"] == times

    async with run_scheduler(second) as waiting:
        await waiting.aclose()  # it has never worked
    async with run_scheduler(first) as working:
        await wait_until(lambda: have_materials(1))
        async with run_scheduler(second):
            clock.advance(minutes=5)
            await wait_until(lambda: have_materials(2))
            await working.aclose()
            clock.advance(minutes=5)
            await wait_until(lambda: have_materials(3))
    assert second.commits > 0


async def test_a_run_that_was_killed_is_continued(app: App, ctx: Context) -> None:
    """Its lease ends, and its record says that it runs."""
    leases = Leases(ctx.database)
    await leases.acquire("embed", 1, ctx.clock, "embed.29990101T000000000000.killed")
    ctx.database.lease = None

    async def is_recorded() -> bool:
        runs = await read_documents(ctx, "runs")
        return {"died", "finished"} <= {
            run["state"] for run in runs.values() if run["job"] == "embed"
        }

    async with run_scheduler(app):
        await wait_until(is_recorded)


async def test_a_long_job_gives_way_and_goes_on(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scheduler._TURN_SECONDS, "cards", 0.01)  # noqa: SLF001
    turns: list[int] = []

    async def work(_ctx: Context, budget: Budget) -> Report:
        turns.append((await count_runs(ctx))["index"])
        await asyncio.sleep(budget.deadline - time.monotonic())
        return Report(finished=len(turns) > 1)

    monkeypatch.setattr("functions.jobs.cards.job.JOB", replace(CARDS, run=work))

    async def has_gone_on() -> bool:
        return len(turns) > 1

    async with run_scheduler(app):
        await wait_until(has_gone_on)
    assert turns == [0, 1]


async def test_a_database_that_is_down_does_not_end_it(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter([Unavailable("The database does not answer."), ValueError("A fault.")])

    def fail_twice(*arguments: object) -> object:
        for fault in faults:
            raise fault
        return find_last_time(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scheduler, "find_last_time", fail_twice)

    async def has_run() -> bool:
        return (await count_runs(ctx))["index"] == 1

    async with run_scheduler(app):
        await wait_until(has_run)
    assert await read_chunks(ctx) == {}
