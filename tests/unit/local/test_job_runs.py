"""Jobs run while an ingest still reads sources, on the chunks that it has already stored."""

import asyncio
from dataclasses import replace

import click
import pytest

from functions.jobs.embed.job import JOB as EMBED
from infra.local.jobs import JobRuns, Progress, print_problems
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Failure, Job


class CountedRuns(JobRuns):
    """Runs that only count how often a job was started."""

    run_count = 0

    async def run(self, job: Job, progress: Progress) -> None:  # noqa: ARG002 - the same arguments
        self.run_count += 1


@pytest.mark.parametrize(("bucket", "run_count"), [(None, 2), ("gs://bucket/folder", 1)])
async def test_a_deferred_chunk_does_not_repeat_runs(
    monkeypatch: pytest.MonkeyPatch, bucket: str | None, run_count: int
) -> None:
    """A deferred chunk remains after a run; the next run waits for the end of the reading.

    With a bucket, embedding is done in bulk, in one run after the reading.
    """
    settings = Settings(embedding_provider="vertex", bulk_bucket=bucket)
    poll_count = 0
    is_read = asyncio.Event()
    if bucket:
        is_read.set()  # with a bucket, nothing polls before the reading has ended

    async def read_sources() -> None:
        await is_read.wait()

    async def count_one(_ctx: Context) -> int:
        nonlocal poll_count
        poll_count += 1
        if poll_count == 5:
            is_read.set()
        return 1

    monkeypatch.setattr("infra.local.jobs.POLL_SECONDS", 0.001)
    progress = Progress(click.progressbar(length=1))
    app = App(settings)
    runs = CountedRuns(app)
    reading = asyncio.create_task(read_sources())
    await runs.run_alongside(replace(EMBED, total=count_one), reading, progress)
    await app.aclose()
    assert runs.run_count == run_count


def test_problems_are_printed_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Strangers may have named a file that is read. The number beyond a limit is printed."""
    problem = Failure("a\x1b[2Jb\x9b\u202ec", "has\n\tno text")
    line = "left out: a[2Jbc: has\n\tno text\n"
    print_problems("left out", [problem] * 2, 2)
    assert capsys.readouterr().err == 2 * line
    print_problems("left out", [problem] * 3, 2)
    assert capsys.readouterr().err == 2 * line + "  ... and 1 more\n"
