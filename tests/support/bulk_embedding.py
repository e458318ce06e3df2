"""Runs of bulk embedding with fakes of Vertex AI and Cloud Storage, and their results.

Bulk embedding sends many passages in one batch job of Vertex AI, which reads and writes files in
Cloud Storage.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from google.oauth2.credentials import Credentials

from shared.ai.batch_files import BatchFiles
from shared.ai.embedding import unit_vector
from shared.ai.vertex_batch import VertexBatch
from shared.ai.vertex_client import VertexEndpoint
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.dates import Clock
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.pipeline.embedding.bulk import BulkServices
from shared.pipeline.embedding.chunks import embed_in_bulk
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.vertex import hash_words
from tests.support.fakes.vertex_batch import FakeVertexBatch
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks_by_text, read_documents

DIMENSION: Final = 8
"""The dimension of vectors: short vectors are compared and stored quickly."""
NOTES_PER_SOURCE: Final = 12
"""The default number of notes in a source: more than the ten that are embedded in bulk."""


def make_source_of_notes(name: str, count: int = NOTES_PER_SOURCE) -> Source:
    """Return a source with notes such as "Name 0." and "Name 1."."""
    sections = tuple(Section(f"{name} {number}.") for number in range(count))
    return Source(source_id=name.lower(), title="Notes", sections=sections)


def build_embedded_text(content: str) -> str:
    """Return the text that is embedded for a note."""
    return f"Notes {content}"


@asynccontextmanager
async def open_bulk_services(vertex: FakeVertexBatch) -> AsyncIterator[BulkServices]:
    """Open the services that embed ten or more passages in bulk, and poll every 10 ms."""
    client = VertexBatch(
        _make_endpoint(vertex), model="gemini-embedding-001", dimension=DIMENSION, time_limit=60
    )
    files = BatchFiles("gs://bulk/work", "p", attempt_seconds=30, retry_seconds=1)
    services = BulkServices(client, files, min_passages=10, poll_seconds=0.01)
    yield services
    await services.aclose()


@asynccontextmanager
async def open_pending_base(
    settings: Settings, vertex: FakeVertexBatch, clock: Clock
) -> AsyncIterator[Context]:
    """Open a knowledge base with twelve pending notes and Vertex AI as its embedder."""
    endpoint = _make_endpoint(vertex)
    embedder = VertexEmbedder(
        project=endpoint.project,
        location=endpoint.location,
        dimension=DIMENSION,
        credentials=endpoint.credentials,
        base_url=endpoint.base_url,
        time_limit=50,
        breaker=CircuitBreaker("Vertex AI", pause=0),
    )
    app = App(settings, embedder=embedder, clock=clock)
    ctx = app.context(Caller(), Meter())
    await ingest_sources(ctx, make_source_of_notes("Note"))
    yield ctx
    await embedder.aclose()
    await app.aclose()


def _make_endpoint(vertex: FakeVertexBatch) -> VertexEndpoint:
    credentials = Credentials(token="token")
    return VertexEndpoint(
        project="p",
        location="europe-west1",
        credentials=credentials,
        base_url=vertex.base_url,
    )


async def run_bulk_embedding(ctx: Context, bulk: BulkServices, seconds: float = 60) -> Report:
    """Run the part of the embed job that embeds in bulk, for at most `seconds`."""
    report = Report()
    await embed_in_bulk(bulk, ctx, Budget(time.monotonic() + seconds), report)
    return report


async def read_vectors(ctx: Context) -> dict[str, list[float]]:
    """Return the stored vector of each embedded note, by its text."""
    chunks = await read_chunks_by_text(ctx)
    return {
        content: list(data["embedding"]) for content, data in chunks.items() if "embedding" in data
    }


def compute_expected_vector(content: str) -> list[float]:
    """Return the unit vector that a note must have."""
    return list(unit_vector(hash_words(build_embedded_text(content), DIMENSION), DIMENSION))


async def assert_all_embedded_once(ctx: Context, vertex: FakeVertexBatch, *names: str) -> None:
    """Assert that all notes of the sources `names` have their vectors, and none is pending.

    Vertex AI has embedded each note exactly once.
    """
    contents = [f"{name} {number}." for name in names for number in range(NOTES_PER_SOURCE)]
    expected = {content: pytest.approx(compute_expected_vector(content)) for content in contents}
    assert await read_vectors(ctx) == expected
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0
    assert vertex.embedding_counts == dict.fromkeys(map(build_embedded_text, contents), 1)


async def assert_no_bulk_files_left(ctx: Context, storage: FakeCloudStorage) -> None:
    """Assert that a finished bulk run left no files in the bucket, and no record of its job."""
    assert storage.list_names("bulk") == []
    assert await read_documents(ctx, "meta") == {}


def replace_vector_by_error(line: bytes) -> bytes:
    """Turn an output line of a batch job into the line of a text that could not be embedded."""
    answer: dict[str, Any] = json.loads(line)
    return json.dumps(answer | {"response": {}, "status": "INVALID_ARGUMENT"}).encode()
