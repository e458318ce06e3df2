"""A run of the embed job that is killed at any request to the cloud pays for no text twice."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from infra.build.discovery import ROOT
from shared.knowledge.source import Section, Source
from tests.support.fakes import cloud_storage, vertex_batch
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.vertex_batch import FakeVertexBatch
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks_by_text, read_documents

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator
    from pathlib import Path

    from shared.runtime.context import Context

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NOTE_COUNT: Final = 12
PROGRAM: Final = """
import pytest

from infra.cli.main import main
from shared.pipeline.embedding import bulk

pytest.MonkeyPatch().setattr(bulk, "MIN_PASSAGES", 10)
main()
"""
COMMAND: Final = [sys.executable, "-c", PROGRAM]


@pytest.fixture
def storage() -> Iterator[FakeCloudStorage]:
    """A server for Cloud Storage."""
    with FakeCloudStorage("bulk") as server:
        yield server


@pytest.fixture
def vertex(storage: FakeCloudStorage) -> Iterator[FakeVertexBatch]:
    """A server for Vertex AI."""
    with FakeVertexBatch(storage) as server:
        yield server


@contextmanager
def start_embed(
    project: str, vertex: FakeVertexBatch, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `carrel jobs run embed` in a process that ends with the block.

    Its output is appended to the log.
    """
    host = vertex.base_url.removeprefix("http://")
    environment = {
        **os.environ,
        "GOOGLE_CLOUD_PROJECT": project,
        "EMBEDDING_PROVIDER": "vertex",
        "VERTEX_BASE_URL": vertex.base_url,
        "EMBEDDING_DIMENSION": "8",
        "BULK_BUCKET": "gs://bulk/work",
        "LEASE_SECONDS": "1",
        "STORAGE_EMULATOR_HOST": vertex.storage.base_url,
        "GCE_METADATA_HOST": host,
        "GCE_METADATA_IP": host,
        "GOOGLE_APPLICATION_CREDENTIALS": "",
        "CLOUDSDK_CONFIG": str(log.parent),
    }
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [*COMMAND, "jobs", "run", "embed"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def run_and_kill(faults: deque[Any], project: str, vertex: FakeVertexBatch, log: Path) -> None:
    """Start a run, and kill it when the server has taken the next of the scripted faults."""
    with start_embed(project, vertex, log) as process:
        while process.poll() is None and faults:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        assert process.poll() is None, log.read_text()


async def test_a_killed_run_pays_for_no_text_twice(
    ctx: Context, project: str, storage: FakeCloudStorage, vertex: FakeVertexBatch, tmp_path: Path
) -> None:
    sections = tuple(Section(f"Note {number}.") for number in range(NOTE_COUNT))
    await ingest_sources(ctx, Source("notes", "Notes", sections=sections))
    log = tmp_path / "log"

    def kill_at_storage_request(operation: cloud_storage.Operation) -> None:
        storage.faults[operation].append(cloud_storage.HANG)
        run_and_kill(storage.faults[operation], project, vertex, log)

    def kill_at_vertex_request(operation: vertex_batch.Operation) -> None:
        vertex.faults[operation].append(vertex_batch.HANG)
        run_and_kill(vertex.faults[operation], project, vertex, log)

    kill_at_storage_request("upload")
    kill_at_vertex_request("create")
    kill_at_vertex_request("get")
    kill_at_storage_request("download")
    kill_at_storage_request("delete")
    with start_embed(project, vertex, log) as process:
        assert process.wait(timeout=300) == 0, log.read_text()

    assert len(vertex.jobs) == 1
    assert vertex.embedding_counts == {f"Notes Note {n}.": 1 for n in range(NOTE_COUNT)}
    chunks = (await read_chunks_by_text(ctx)).values()
    assert [len(data["embedding"]) for data in chunks] == [8] * NOTE_COUNT
    space = {"model": "gemini-embedding-001", "dimension": 8}
    assert await read_documents(ctx, "meta") == {"embedding": space}
    assert storage.list_names("bulk") == []
