"""A job is a deployed function, which only Cloud Scheduler may call."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from infra.build.discovery import jobs
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.writer.ingestion import Ingestion
from tests.support.authorized_calls import make_authorization_header, make_trusting_context
from tests.support.cloud_run.cloud import SCHEDULER, Cloud, run_cloud
from tests.support.fakes.otlp import FakeCollector
from tests.support.knowledge import chunk_source
from tests.support.source_files import make_readwise_book, write_export, write_file
from tests.support.stored_documents import read_chunks_by_text, read_leased_jobs

SERVED_JOBS = ("ingest", "embed")
OTHER_JOBS = [job.name for job in jobs() if job.name not in SERVED_JOBS]
MANY_SECTIONS = tuple(Section(f"Note {number}.") for number in range(40))
"""The sections of a source that takes the job `embed` a while."""


@pytest.fixture(scope="module")
def project() -> str:
    """The project of the functions that this file's tests share."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the function of `ingest` reads."""
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def collector() -> Iterator[FakeCollector]:
    """The collector of the spans of the two deployed jobs."""
    with FakeCollector() as fake:
        yield fake


@pytest.fixture(scope="module")
def served_jobs(project: str, folder: Path, collector: FakeCollector) -> Iterator[Cloud]:
    """Two deployed jobs behind the fake Cloud Run."""
    environment = {
        "GOOGLE_CLOUD_PROJECT": project,
        "INGEST_PATH": str(folder),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
    }
    with run_cloud(SERVED_JOBS, environment, log=folder.parent / "jobs.log") as fake_cloud:
        yield fake_cloud


@pytest.fixture(scope="module")
def other_jobs(project: str, folder: Path) -> Iterator[Cloud]:
    """All other deployed jobs."""
    environment = {"GOOGLE_CLOUD_PROJECT": project}
    with run_cloud(OTHER_JOBS, environment, log=folder.parent / "others.log") as fake_cloud:
        yield fake_cloud


@contextmanager
def rename_folder(folder: Path) -> Iterator[None]:
    """Rename the folder until the block ends."""
    renamed = folder.rename(folder.with_name("renamed"))
    yield
    renamed.rename(folder)


def make_client(served_jobs: Cloud, name: str, account: str = SCHEDULER) -> httpx2.AsyncClient:
    """Return a client of a job's function, by default with the account of Cloud Scheduler."""
    return httpx2.AsyncClient(
        base_url=served_jobs.urls[name],
        headers=make_authorization_header(served_jobs, account, name),
        verify=make_trusting_context(served_jobs),
        timeout=60,
    )


async def run_job(served_jobs: Cloud, name: str) -> tuple[int, dict[str, Any]]:
    """Run a job as Cloud Scheduler does; return the status and the body."""
    async with make_client(served_jobs, name) as scheduler:
        response = await scheduler.post("/")
    body: dict[str, Any] = response.json()
    return response.status_code, body


async def test_a_post_request_runs_the_job(served_jobs: Cloud, ctx: Context, folder: Path) -> None:
    write_export(folder, make_readwise_book())
    empty_file = write_file(folder, "broken.md", "")
    status, body = await run_job(served_jobs, "ingest")
    empty_file.unlink()
    assert status == 200
    assert body == {
        "state": "finished",
        "counts": {"read": 1, "sources": 1, "created": 1},
        "failures": [{"name": "broken.md", "reason": "has no text"}],
    }
    assert set(await read_chunks_by_text(ctx)) == {"Simplify."}
    assert await read_leased_jobs(ctx) == set()


async def test_the_spans_of_a_run_are_exported_before_its_answer(
    served_jobs: Cloud, ctx: Context, collector: FakeCollector
) -> None:
    chunked = chunk_source(Source("spans", "Spans", sections=(Section("A note on spans."),)))
    await Ingestion(ctx.database).save([chunked], datetime.now(UTC))
    collector.bodies.clear()
    status, _ = await run_job(served_jobs, "embed")
    spans = collector.spans
    assert status == 200
    [job] = [span for span in spans if span.name == "job embed"]
    assert {span.service for span in spans} == {"embed"}
    assert {span.trace_id for span in spans} == {job.trace_id}
    names = {span.name for span in spans if span.parent_id == job.span_id}
    embedding = "embeddings all-MiniLM-L6-v2-onnx-int8+use-multilingual-v3"
    assert {"get leases", "query chunks", embedding, "commit"} <= names


async def test_a_post_request_during_a_run_answers_busy(served_jobs: Cloud, ctx: Context) -> None:
    chunked = chunk_source(Source("notes", "Notes", sections=MANY_SECTIONS))
    await Ingestion(ctx.database).save([chunked], datetime.now(UTC))
    responses = await asyncio.gather(run_job(served_jobs, "embed"), run_job(served_jobs, "embed"))
    assert [status for status, _ in responses] == [200, 200]
    bodies = {body["state"]: body for _, body in responses}
    assert bodies.keys() == {"busy", "finished"}
    busy, finished = bodies["busy"], bodies["finished"]
    assert datetime.fromisoformat(busy["until"]) > datetime.now(UTC)
    assert finished["counts"]["embedded"] >= len(MANY_SECTIONS)


@pytest.mark.parametrize(
    ("fixture", "name"),
    [
        *(("served_jobs", name) for name in SERVED_JOBS),
        *(pytest.param("other_jobs", name, marks=pytest.mark.slow) for name in OTHER_JOBS),
    ],
)
async def test_a_get_request_returns_the_health_of_a_job(
    request: pytest.FixtureRequest, fixture: str, name: str
) -> None:
    async with make_client(request.getfixturevalue(fixture), name) as client:
        response = await client.get("/")
    assert response.status_code == 200
    assert response.json() == {"name": name, "status": "ok"}


@pytest.mark.parametrize("account", ["carrel-gateway", "carrel-ingest"])
async def test_only_the_scheduler_can_run_a_job(account: str, served_jobs: Cloud) -> None:
    async with make_client(served_jobs, "ingest", account) as client:
        response = await client.post("/")
    assert response.status_code == 403


async def test_an_error_has_an_http_status_and_says_what_to_do(
    served_jobs: Cloud, folder: Path, ctx: Context
) -> None:
    with rename_folder(folder):
        status, body = await run_job(served_jobs, "ingest")
    assert status == 400
    assert body["error"]["code"] == "VALIDATION_ERROR"
    assert "is neither a file nor a folder. Give a folder or a file" in body["error"]["message"]
    assert await read_leased_jobs(ctx) == set()
