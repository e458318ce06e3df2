"""Jobs run next to an ingest, for the chunks that it has already stored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from functions.jobs.embed.job import JOB as EMBED
from infra.local.jobs import JobRuns, Progress
from shared.core.settings import Settings
from shared.runtime.context import App

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Job

pytestmark = pytest.mark.anyio


class CountedRuns(JobRuns):
    """Runs that only count how often a job was started."""

    run_count = 0

    async def run(self, job: Job, progress: Progress) -> None:  # noqa: ARG002 - the same arguments
        """Count a run."""
        self.run_count += 1


@pytest.mark.parametrize(("bucket", "run_count"), [(None, 2), ("gs://bucket/folder", 1)])
async def test_a_deferred_chunk_does_not_repeat_runs(
    monkeypatch: pytest.MonkeyPatch, bucket: str | None, run_count: int
) -> None:
    """One chunk always remains, as it is deferred. A second run follows the reading.

    With a bucket the embedding is done in bulk, so only the run after the reading counts.
    """
    settings = Settings(embedding_provider="vertex", bulk_bucket=bucket)
    polls, is_read = 0, asyncio.Event()
    if bucket:
        is_read.set()

    async def read_sources() -> None:
        await is_read.wait()

    async def count_one(_ctx: Context) -> int:
        nonlocal polls
        polls += 1
        if polls == 5:
            is_read.set()
        return 1

    monkeypatch.setattr("infra.local.jobs.POLL_SECONDS", 0.001)
    app = App(settings)
    runs = CountedRuns(app)
    reading = asyncio.create_task(read_sources())
    await runs.run_alongside(replace(EMBED, total=count_one), reading, Progress(None))  # type: ignore[arg-type]
    await app.aclose()
    assert runs.run_count == run_count
