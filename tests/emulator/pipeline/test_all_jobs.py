"""Every job runs only once if two schedulers start it, and completes a run that was killed.

Runs are processes, which are killed by SIGKILL while they wait for a response that never comes, or
right after one of their commits. Most jobs have further tests with kills in files of their own.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from pydantic import SecretStr

from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.readers.reading import read
from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.repair.job import JOB as REPAIR
from infra.build.discovery import ROOT, jobs
from infra.local.local_database import SAMPLE
from shared.core.dates import utc_now
from shared.core.settings import Settings
from shared.firestore.runs import Runs, RunState
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job
from shared.workspaces.model import content_id
from tests.emulator.pipeline.test_repair import damage_postings
from tests.support.database_state import describe_differences, read_state, shorten_state
from tests.support.fakes import openai, readwise, vertex
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.openai import FakeOpenAI
from tests.support.fakes.readwise import FakeReadwise
from tests.support.fakes.word_vertex import WordVertex
from tests.support.google_credentials import write_credentials_file
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_job_context
from tests.support.killable_children import start_killable_children
from tests.support.knowledge import BAKING, SAILING, ingest_sources, store_sources
from tests.support.materials import extract_result
from tests.support.stored_documents import read_leased_jobs
from tests.support.stored_materials import QUERY, make_openai_settings, make_text, read_workspaces
from tests.support.whole_sample import (
    JOBS_IN_ORDER,
    fill_library,
    make_settings,
    open_app,
    read_pinned_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Job

pytestmark = pytest.mark.anyio

CARREL: Final = [sys.executable, "-c", "from infra.cli.main import main; main()", "jobs", "run"]
SHORT_LEASE: Final = {"LEASE_SECONDS": "0.5"}
MAX_WAIT: Final = 300.0
"""The time after which a run without progress fails the test, in seconds."""
RESPONSE_COUNTS: Final = {
    "ingest": 5,
    "embed": 40,
    "cards": 20,
    "cluster": 5,
    "extract": 60,
}
"""The number of responses that a job gets before it is killed. Most have then stored something."""
REPAIR_COMMITS: Final = (1, 3, 4)
"""The numbers of the commits after which repair is killed. The first run takes the lease. The other
runs begin with a record that the one before died, and then repair some postings."""
MAX_UNSTORED: Final = 36
"""The number of passages, out of a hundred, that are not in the first two batches of 32. These are
stored when the run is killed, which happens while it embeds the fourth batch."""


@contextmanager
def start_job(name: str, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start `carrel jobs run NAME` in a process that ends with the block."""
    with subprocess.Popen(
        [*CARREL, name],
        cwd=ROOT,
        env={**os.environ, **SHORT_LEASE, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def run_and_kill(
    name: str, environment: Mapping[str, str], is_hanging: Callable[[], bool]
) -> None:
    """Run a job until it waits for a response that never comes, and kill it."""
    async with asyncio.timeout(MAX_WAIT):
        with start_job(name, environment) as process:
            while not is_hanging():
                assert process.poll() is None, f"{name} ended before it was killed"
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, 0.02)
    assert process.returncode == -signal.SIGKILL


async def run_to_end(job: Job, app: App) -> Report:
    """Run a job to its end, as soon as the killed run's lease has expired."""
    async with asyncio.timeout(MAX_WAIT):
        while isinstance(result := await run_job(job, app), AlreadyRunning):
            pass
    return result


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.name)
async def test_concurrent_triggers_run_a_job_once(job: Job, project: str) -> None:
    settings = Settings(google_cloud_project=project, ingest_path=str(SAMPLE))
    apps = [App(settings, embedder=WordEmbedder()) for _ in range(2)]
    ctx = make_job_context(apps[0])
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

    results = await asyncio.gather(*map(trigger, apps))

    [report] = [result for result in results if isinstance(result, Report)]
    [record] = await Runs(ctx.database).load_latest(job.name, 2)
    assert record.state == RunState.FINISHED
    assert record.counts == dict(report.counts)
    assert 0 < record.documents_read <= report.cost.documents_read
    assert record.documents_written <= report.cost.documents_written > 0
    assert await read_leased_jobs(ctx) == set()
    for app in apps:
        await app.aclose()


@pytest.mark.slow
async def test_killed_and_repeated_jobs_end_in_the_pinned_state(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = str(write_credentials_file(tmp_path))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", credentials)
    with FakeReadwise(page_size=20) as account, WordVertex() as models:
        fill_library(account)
        account.advance(days=1)
        settings = make_settings(project, account, models)
        for job in JOBS_IN_ORDER:
            if job.name in RESPONSE_COUNTS:
                is_hanging = hang_after_responses(account, models, RESPONSE_COUNTS[job.name])
                await run_and_kill(job.name, make_environment(settings), is_hanging)
                answer_again(account, models)
            async with open_app(settings, utc_now) as app:
                assert (await run_to_end(job, app)).failures == []
        async with open_app(settings, utc_now) as app:
            actual = shorten_state(await read_state(make_job_context(app)))
    assert not (difference := describe_differences(read_pinned_state(), actual)), difference


async def test_the_next_repair_completes_several_killed_ones(settings: Settings) -> None:
    generator = random.Random(7)  # noqa: S311 - no secret
    async with open_app(settings, utc_now) as app:
        ctx = make_job_context(app)
        sources = [source for source in read(SAMPLE) if isinstance(source, Source)]
        await ingest_sources(ctx, *sources[:3])
        await run_to_end(INDEX, app)
        for _ in range(4):
            await damage_postings(ctx, generator)

        fields = {"google_cloud_project": settings.google_cloud_project, "lease_seconds": 0.001}
        with start_killable_children() as children:
            for commits in REPAIR_COMMITS:
                assert not children.survives(fields, commits, job=REPAIR.name)

        report = await run_to_end(REPAIR, app)
        assert report.counts["mended"] > 0
        await assert_postings_are_exact(ctx)


async def test_the_embedding_of_materials_resumes_after_a_kill(project: str) -> None:
    """The result is the same as in another database, in which a call embeds the whole text."""
    text = make_text(100)
    with FakeOpenAI() as model:
        settings = make_openai_settings(model, project, extract_materials_characters=500)
        undisturbed_settings = make_openai_settings(model, f"{project}-undisturbed")
        async with (
            open_app(settings, utc_now) as app,
            open_app(undisturbed_settings, utc_now) as undisturbed,
        ):
            expected = await extract_result(undisturbed, QUERY, materials=text)
            await extract_result(app, QUERY, materials=text)

            model.script.extend([openai.Reply()] * 3)
            model.usual = openai.HANG
            answered_calls = len(model.calls) + 3
            await run_and_kill(
                INGEST_MATERIALS.name,
                make_environment(settings),
                lambda: len(model.calls) > answered_calls,
            )

            model.usual = openai.Reply()
            report = await run_to_end(INGEST_MATERIALS, app)
            assert report.counts["ready"] == 1
            assert report.counts["embedded"] <= MAX_UNSTORED
            out = await extract_result(app, QUERY, document=content_id(text))
            assert out == expected | {"known": True}
            assert await read_workspaces(app) == await read_workspaces(undisturbed)


def make_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process of this deployment."""
    fields = settings.model_dump(exclude_unset=True)
    return {
        name.upper(): value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in fields.items()
    }


def hang_after_responses(
    account: FakeReadwise, models: WordVertex, count: int
) -> Callable[[], bool]:
    """Make both servers hang after this many responses.

    Returns:
        A function that returns whether a request hangs.
    """
    answered_calls = len(models.calls) + count
    account.script.extend([readwise.Reply()] * count + [readwise.HANG])
    models.script.extend([vertex.Reply()] * count)
    models.usual = vertex.HANG
    return lambda: not account.script or len(models.calls) > answered_calls


def answer_again(account: FakeReadwise, models: WordVertex) -> None:
    """Make both servers answer every request."""
    account.script.clear()
    models.script.clear()
    models.usual = vertex.Reply()
