"""`JobRuns` runs a job alongside the job that feeds it, and prints reports and progress."""

import asyncio
import io
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import pytest

from infra.local.jobs import JobRuns, Progress, run_jobs
from shared.core.caller import Caller
from shared.core.errors import InvalidInput, Unavailable
from shared.core.meter import Meter
from shared.pipeline.worker import run_isolated
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Job, Report

TIMEOUT_SECONDS = 60
"""A run that takes this long hangs, even on a busy machine."""


def make_job(
    name: str,
    run: Callable[[Context, Budget], Awaitable[Report]],
    count: Callable[[], int] = lambda: 0,
) -> Job:
    """Return a job with a function that runs it, and one that counts the items that wait."""

    async def count_waiting(_: Context) -> int:
        return count()

    return Job(name=name, title=name.title(), run=run, total=count_waiting, schedule="")


async def test_a_job_works_alongside_the_job_that_feeds_it(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job that feeds it waits for it, and so would wait forever if the two ran in turn."""
    queue = ["first"]
    processed = asyncio.Event()

    async def produce(_context: Context, _budget: Budget) -> Report:
        await processed.wait()
        queue.append("last")
        return Report()

    async def consume(_context: Context, budget: Budget) -> Report:
        count = len(queue)
        queue.clear()
        budget.progress(count)
        processed.set()
        return Report(counts=Counter(consumed=count))

    follower = make_job("consume", consume, lambda: len(queue))
    runs = JobRuns(app)
    with click.progressbar(length=1, file=io.StringIO()) as bar:
        progress = Progress(bar)
        producing = asyncio.create_task(runs.run(make_job("produce", produce), progress))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await runs.run_alongside(follower, producing, progress)
    runs.print_counts(follower)
    assert capsys.readouterr().out.startswith("consume: 2 consumed (")
    assert progress.items["consume"] == 2


async def test_failures_are_printed_in_words_and_logged_to_a_file(
    app: App,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "state" / "command.log"
    monkeypatch.setattr("infra.local.jobs.COMMAND_LOG", path)

    async def refuse() -> None:
        raise InvalidInput("Too short.")

    async def fail(context: Context, _budget: Budget) -> Report:
        report = Report()
        await run_isolated("a.md", refuse(), context, report)
        return report

    async def succeed(_context: Context, _budget: Budget) -> Report:
        return Report()

    settings = app.context(Caller(), Meter()).settings
    assert not await asyncio.to_thread(run_jobs, [make_job("fail", fail)], settings)
    printed = capsys.readouterr()
    assert "fail: left out: a.md: Too short." in printed.err
    assert "set_apart" not in printed.err + printed.out
    assert json.loads(path.read_text())["message"] == "set_apart"

    assert await asyncio.to_thread(run_jobs, [make_job("succeed", succeed)], settings)
    assert not path.exists()


async def test_a_job_fails_with_the_job_that_feeds_it(app: App) -> None:
    async def fail(_context: Context, _budget: Budget) -> Report:
        raise Unavailable("The disk does not answer.", retry_after=5)

    runs = JobRuns(app)
    with click.progressbar(length=1, file=io.StringIO()) as bar:
        progress = Progress(bar)
        failing = asyncio.create_task(runs.run(make_job("fail", fail), progress))
        follower = make_job("follow", lambda *_: asyncio.sleep(0, Report()))
        with pytest.raises(Unavailable, match="disk"):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await runs.run_alongside(follower, failing, progress)


async def test_progress_counts_the_items_of_all_jobs_to_their_end() -> None:
    read = make_job("read", lambda *_: asyncio.sleep(0, Report()))
    embed = make_job("embed", lambda *_: asyncio.sleep(0, Report()))
    with click.progressbar(length=1, file=io.StringIO()) as bar:
        progress = Progress(bar, {"read": 2, "embed": 10})
        progress.advance(read, 5)
        progress.expect({"embed": 9})
        assert bar.pct == pytest.approx(10 / 100)
        progress.advance(embed, 8)
        assert bar.pct == pytest.approx(90 / 100)
        progress.advance(embed, 3)
        assert not bar.finished
        progress.finish()
        assert bar.finished
