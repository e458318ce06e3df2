"""Jobs as Cloud Functions: each in a process of its own, over HTTP."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from infra.deploy.discovery import ROOT
from infra.local.processes import serve
from shared.domain.source import Section, Source
from shared.settings import Settings
from tests.jobs.documents import chunks_by_content, leases
from tests.jobs.files import book, export, written
from tests.knowledge import in_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.deps import Deps

pytestmark = pytest.mark.anyio

JOBS = ROOT / "functions" / "jobs"
NOTES = tuple(Section(f"Note {number}.") for number in range(40))


@pytest.fixture(scope="module")
def served_project() -> str:
    """The project of the functions that this file's tests share."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def settings(served_project: str) -> Settings:
    """Settings that lead to the functions' database."""
    return Settings(google_cloud_project=served_project)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the ingest function reads."""
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def ingest_url(served_project: str, folder: Path) -> Iterator[str]:
    """The ingest function."""
    environment = {"GOOGLE_CLOUD_PROJECT": served_project, "INGEST_PATH": str(folder)}
    log = folder.parent / "ingest.log"
    with serve(JOBS / "ingest" / "main.py", environment, log=log) as served:
        yield served.url


@pytest.fixture(scope="module")
def embed_url(served_project: str, folder: Path) -> Iterator[str]:
    """The embed function."""
    environment = {"GOOGLE_CLOUD_PROJECT": served_project}
    log = folder.parent / "embed.log"
    with serve(JOBS / "embed" / "main.py", environment, log=log) as served:
        yield served.url


@contextmanager
def gone(folder: Path) -> Iterator[None]:
    """Without the folder."""
    away = folder.rename(folder.with_name("away"))
    yield
    away.rename(folder)


async def posted(url: str) -> tuple[int, dict[str, Any]]:
    """Status and body."""
    async with httpx2.AsyncClient(timeout=60) as client:
        response = await client.post(url)
    body: dict[str, Any] = response.json()
    return response.status_code, body


async def test_a_post_runs_the_job_and_says_what_it_did(
    ingest_url: str, deps: Deps, folder: Path
) -> None:
    export(folder, book())
    broken = written(folder, "broken.md", "")
    status, body = await posted(ingest_url)
    broken.unlink()
    assert (status, body) == (
        200,
        {
            "state": "finished",
            "counts": {"read": 1, "sources": 1, "created": 1},
            "failures": [{"name": "broken.md", "reason": "holds no text"}],
        },
    )
    assert set(await chunks_by_content(deps)) == {"Simplify."}
    assert await leases(deps) == set()


async def test_a_post_while_the_job_runs_says_so(embed_url: str, deps: Deps) -> None:
    chunked = in_chunks(Source("notes", "Notes", sections=NOTES))
    await deps.store.ingestion.save([chunked], datetime.now(UTC))
    answers = await asyncio.gather(posted(embed_url), posted(embed_url))
    assert [status for status, _ in answers] == [200, 200]
    busy, finished = sorted((body for _, body in answers), key=lambda body: str(body["state"]))
    assert (busy["state"], finished["state"]) == ("busy", "finished")
    assert datetime.fromisoformat(busy["until"]) > datetime.now(UTC)
    assert finished["counts"]["embedded"] >= len(NOTES)


async def test_a_post_while_another_process_runs_the_job_says_until_when(
    ingest_url: str, deps: Deps
) -> None:
    await deps.store.leases.acquire("ingest", 40, deps.clock)
    status, body = await posted(ingest_url)
    await deps.store.leases.release()
    until = datetime.fromisoformat(body.pop("until"))
    assert (status, body) == (200, {"state": "busy"})
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=40)


@pytest.mark.parametrize("name", ["ingest", "embed"])
async def test_a_get_tells_how_a_job_is(name: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{name}_url")
    async with httpx2.AsyncClient() as client:
        response = await client.get(url)
    assert (response.status_code, response.json()) == (200, {"name": name, "status": "ok"})


async def test_an_error_has_its_status_and_says_what_to_do(
    ingest_url: str, folder: Path, deps: Deps
) -> None:
    with gone(folder):
        status, body = await posted(ingest_url)
    assert (status, body["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert "is neither a file nor a folder. Give a folder or a file" in body["error"]["message"]
    assert await leases(deps) == set()
