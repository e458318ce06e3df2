"""Every job runs only once if two schedulers start it."""

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from infra.build.discovery import jobs
from infra.local.local_database import SAMPLE
from shared.firestore.runs import Runs, RunState
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Budget, Job, Report, run_job
from tests.support.apps import Apps
from tests.support.knowledge import BAKING, SAILING, ingest_sources, store_sources
from tests.support.stored_documents import read_leased_jobs

MAX_WAIT: Final = 300.0
"""The time after which a run without progress fails the test, in seconds."""


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.name)
async def test_concurrent_triggers_run_a_job_once(apps: Apps, ctx: Context, job: Job) -> None:
    await store_sources(ctx, BAKING)
    await ingest_sources(ctx, SAILING)
    other_is_refused = asyncio.Event()

    async def run_when_other_is_refused(ctx: Context, budget: Budget) -> Report:
        async with asyncio.timeout(MAX_WAIT):
            await other_is_refused.wait()
        return await job.run(ctx, budget)

    async def trigger(app: App) -> AlreadyRunning | Report:
        result = await run_job(replace(job, run=run_when_other_is_refused), app)
        other_is_refused.set()
        return result

    results = await asyncio.gather(*(trigger(apps(ingest_path=str(SAMPLE))) for _ in range(2)))

    [report] = [result for result in results if isinstance(result, Report)]
    [record] = await Runs(ctx.database).load_latest(job.name, 2)
    assert record.state == RunState.FINISHED
    assert record.counts == dict(report.counts)
    assert 0 < record.documents_read <= report.cost.documents_read
    assert record.documents_written <= report.cost.documents_written > 0
    assert await read_leased_jobs(ctx) == set()
