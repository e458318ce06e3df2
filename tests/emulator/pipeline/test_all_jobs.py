"""What holds of every job: two schedulers run it once, and what was killed is completed.

Runs are killed by SIGKILL, in processes of their own, while they wait for an answer that never
comes, or right after one of their commits. What kills at every commit do to a job is told beside
its other tests: here are those that are not killed there, and all that ask others, one after the
other.
"""

from __future__ import annotations

import asyncio
import os
import random
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
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job
from shared.workspaces.model import content_id
from tests.emulator.pipeline.test_repair import damage
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
from tests.support.knowledge import BAKING, SAILING, chunk_source, store_sources
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
LEASE: Final = {"LEASE_SECONDS": "0.5"}
WAIT: Final = 300.0
"""The seconds after which a run without progress fails the test."""
ANSWERS: Final = {
    "ingest": 5,
    "embed": 40,
    "cards": 20,
    "cluster": 5,
    "extract": 60,
    "health": 7,
}
"""The number of responses before the kill. Most jobs have stored something by then."""
COMMITS: Final = (1, 3, 4)
"""After which repair is killed: it takes the lease; it mends some lists, and some more. All but the
first begin by telling that one has died."""
UNSTORED: Final = 36
"""Of a hundred passages of materials, those beyond the two batches that are stored when the fourth
is embedded: the third may be."""
KILLED: Final = -9


@contextmanager
def start_job(name: str, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `carrel jobs run NAME` in a process that ends with the block."""
    with subprocess.Popen(
        [*CARREL, name],
        cwd=ROOT,
        env={**os.environ, **LEASE, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def run_and_kill(
    name: str, environment: Mapping[str, str], hangs: Callable[[], bool]
) -> None:
    """Run a job until it waits for a response that does not come, and kill it."""
    async with asyncio.timeout(WAIT):
        with start_job(name, environment) as process:
            while not hangs():
                assert process.poll() is None, f"{name} ended before it was killed"
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, 0.02)
    assert process.returncode == KILLED


async def run_to_end(job: Job, app: App) -> Report:
    """Run a job to its end, as soon as the killed run's lease has expired."""
    async with asyncio.timeout(WAIT):
        while isinstance(outcome := await run_job(job, app), AlreadyRunning):
            pass
    return outcome


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.name)
async def test_concurrent_triggers_run_a_job_once(job: Job, project: str) -> None:
    settings = Settings(google_cloud_project=project, ingest_path=str(SAMPLE))
    backends = [App(settings, embedder=WordEmbedder()) for _ in range(2)]
    ctx = make_job_context(backends[0])
    await store_sources(ctx, BAKING)
    await Ingestion(ctx.database).save([chunk_source(SAILING)], ctx.clock())
    was_answered = asyncio.Event()

    async def run(ctx: Context, budget: Budget) -> Report:
        async with asyncio.timeout(WAIT):
            await was_answered.wait()  # until the other scheduler knows what becomes of it
        return await job.run(ctx, budget)

    async def fire(app: App) -> AlreadyRunning | Report:
        outcome = await run_job(replace(job, run=run), app)
        was_answered.set()
        return outcome

    outcomes = await asyncio.gather(*map(fire, backends))
    [report] = [outcome for outcome in outcomes if isinstance(outcome, Report)]
    [record] = await Runs(ctx.database).load_latest(job.name, 2)
    assert (RunState.FINISHED, dict(report.counts)) == (record.state, record.counts)
    assert 0 < record.documents_read <= report.cost.documents_read
    assert record.documents_written <= report.cost.documents_written > 0
    assert await read_leased_jobs(ctx) == set()
    for app in backends:
        await app.aclose()


@pytest.mark.slow
async def test_killed_and_repeated_jobs_end_in_the_pinned_state(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = str(write_credentials_file(tmp_path))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", credentials)
    with FakeReadwise(page_size=20) as library, WordVertex() as models:
        fill_library(library)
        library.advance(days=1)
        settings = make_settings(project, library, models)
        for job in JOBS_IN_ORDER:
            if job.name in ANSWERS:
                hangs = hold_after(library, models, ANSWERS[job.name])
                await run_and_kill(job.name, make_environment(settings), hangs)
                release(library, models)
            async with open_app(settings, utc_now) as app:
                assert (await run_to_end(job, app)).failures == []
        async with open_app(settings, utc_now) as app:
            actual = shorten_state(await read_state(make_job_context(app)))
    assert not (difference := describe_differences(read_pinned_state(), actual)), difference


async def test_repeated_repair_completes_a_killed_one(
    settings: Settings,
) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    async with open_app(settings, utc_now) as app:
        ctx = make_job_context(app)
        sources = [source for source in read(SAMPLE) if isinstance(source, Source)]
        await Ingestion(ctx.database).save(
            [chunk_source(source) for source in sources[:3]], ctx.clock()
        )
        await run_to_end(INDEX, app)
        for _ in range(4):
            await damage(ctx, chance)
        fields = {"google_cloud_project": settings.google_cloud_project, "lease_seconds": 0.001}
        with start_killable_children() as dying:
            for commit in COMMITS:
                assert not dying.survives(fields, commit, job=REPAIR.name)
        report = await run_to_end(REPAIR, app)
        assert report.counts["mended"] > 0
        await assert_postings_are_exact(ctx)


async def test_embedding_of_materials_resumes_after_a_kill(
    project: str,
) -> None:
    text = make_text(100)
    with FakeOpenAI() as model:
        killing = make_openai_settings(model, project, extract_materials_characters=500)
        calmly = make_openai_settings(model, f"{project}-calm")
        async with open_app(killing, utc_now) as app, open_app(calmly, utc_now) as calm:
            expected = await extract_result(calm, QUERY, materials=text)
            await extract_result(app, QUERY, materials=text)
            model.script.extend([openai.Reply()] * 3)
            model.usual, begun = openai.HANG, len(model.calls) + 3
            environment = make_environment(killing)
            await run_and_kill(INGEST_MATERIALS.name, environment, lambda: len(model.calls) > begun)
            model.usual = openai.Reply()
            report = await run_to_end(INGEST_MATERIALS, app)
            assert (report.counts["ready"], report.counts["embedded"] <= UNSTORED) == (1, True)
            result = await extract_result(app, QUERY, document=content_id(text))
            assert result == expected | {"known": True}
            assert await read_workspaces(calm) == await read_workspaces(app)


def make_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process of this deployment."""
    fields = settings.model_dump(exclude_unset=True)
    return {
        name.upper(): value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in fields.items()
    }


def hold_after(library: FakeReadwise, models: WordVertex, answers: int) -> Callable[[], bool]:
    """Let this many responses pass. Return a function that tells whether one more is awaited."""
    begun = len(models.calls) + answers
    library.script.extend([readwise.Reply()] * answers + [readwise.HANG])
    models.script.extend([vertex.Reply()] * answers)
    models.usual = vertex.HANG
    return lambda: not library.script or len(models.calls) > begun


def release(library: FakeReadwise, models: WordVertex) -> None:
    """Let responses pass again."""
    library.script.clear()
    models.script.clear()
    models.usual = vertex.Reply()
