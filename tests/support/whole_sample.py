"""Runs all jobs of a night on the whole sample, which is served as a Readwise library.

With `WordVertex` as Vertex AI, the final state of the database is the same on any machine.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.extract.job import JOB as EXTRACT
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from functions.jobs.purge.job import JOB as PURGE
from functions.jobs.repair.job import JOB as REPAIR
from infra.local.local_database import SAMPLE
from shared.core.dates import Clock
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Job, Report, run_job
from tests.support.database_state import State
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.fakes.vertex import FakeVertex

JOBS_IN_ORDER: Final = (INGEST, EMBED, CARDS, CLUSTER, EXTRACT, INDEX, REPAIR, PURGE)
"""The jobs of a night, in order."""
STATE_FILE: Final = Path(__file__).with_name("sample_state.json")
"""The expected final state of the database, in the format of `database_state`."""


def read_pinned_state() -> State:
    """Return the expected final state of the database."""
    state: State = json.loads(STATE_FILE.read_text(encoding="utf-8"))
    return state


def fill_library(readwise: FakeReadwise) -> None:
    """Add the sample's books and highlights to a library."""
    for book in read_exported_books():
        fields = {name: value for name, value in book.items() if name != "highlights"}
        readwise.put_book(book["user_book_id"], **fields)
        for position, highlight in enumerate(book["highlights"]):
            readwise.put_highlight(position=position, **highlight)


def read_exported_books() -> list[dict[str, Any]]:
    """Return the sample's books in Readwise's format."""
    export: dict[str, list[dict[str, Any]]] = json.loads(SAMPLE.read_text(encoding="utf-8"))
    return export["results"]


def make_settings(project: str, readwise: FakeReadwise, vertex: FakeVertex) -> Settings:
    """Return the settings of a deployment that syncs the library and uses Google's models."""
    return Settings(
        google_cloud_project=project,
        readwise_token=SecretStr(TOKEN),
        readwise_url=readwise.base_url,
        embedding_provider="vertex",
        generation_provider="vertex",
        vertex_base_url=vertex.base_url,
    )


@asynccontextmanager
async def open_app(settings: Settings, clock: Clock) -> AsyncIterator[App]:
    """Open an app with empty caches, as a new process does."""
    app = App(settings, clock=clock)
    yield app
    await app.aclose()


async def run_all_jobs(settings: Settings, clock: Clock) -> dict[str, Report]:
    """Run each job of a night once, in a new app; return the reports by the job's name."""
    return {job.name: await run_single_job(job, settings, clock) for job in JOBS_IN_ORDER}


async def run_single_job(job: Job, settings: Settings, clock: Clock) -> Report:
    """Run a job in a new app until the job is finished, and return its report."""
    async with open_app(settings, clock) as app:
        report = await run_job(job, app)
    assert isinstance(report, Report)
    return report
