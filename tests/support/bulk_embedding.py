"""Runs of bulk embedding against fake servers of Vertex AI and Cloud Storage, and their results."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.oauth2.credentials import Credentials

from shared.ai.batch_files import BatchFiles
from shared.ai.embedding import unit_vector
from shared.ai.vertex_batch import VertexBatch
from shared.ai.vertex_client import VertexEndpoint
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.meter import Meter
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.pipeline.embedding.bulk import BulkServices
from shared.pipeline.embedding.chunks import embed_in_bulk
from shared.runtime.context import App
from shared.runtime.job import Budget, Report
from tests.support.fakes.vertex import hash_words
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks_by_text, read_documents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.vertex_batch import FakeVertexBatch

DIMENSION: Final = 8
NOTES_PER_SOURCE: Final = 12
"""By default, a source has this many notes."""


def make_source_of_notes(name: str, count: int = NOTES_PER_SOURCE) -> Source:
    """Return a source with `count` notes."""
    sections = tuple(Section(f"{name} {number}.") for number in range(count))
    return Source(source_id=name.lower(), title="Notes", sections=sections)


def build_embedded_text(content: str) -> str:
    """Return the text that is embedded for a note."""
    return f"Notes {content}"


@asynccontextmanager
async def open_bulk_services(vertex: FakeVertexBatch) -> AsyncIterator[BulkServices]:
    """Open the services for embedding ten or more passages in bulk, with short pauses."""
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
    credentials = Credentials(token="token")  # type: ignore[no-untyped-call]
    return VertexEndpoint(
        project="p",
        location="europe-west1",
        credentials=credentials,
        base_url=vertex.base_url,
    )


async def run_bulk_embedding(ctx: Context, bulk: BulkServices, seconds: float = 60) -> Report:
    """Run the part of the embed job that embeds in bulk."""
    report = Report()
    await embed_in_bulk(bulk, ctx, Budget(time.monotonic() + seconds), report)
    return report


async def read_vectors(ctx: Context) -> dict[str, list[float]]:
    """Return the stored vectors by the notes' texts."""
    chunks = await read_chunks_by_text(ctx)
    return {
        content: list(data["embedding"]) for content, data in chunks.items() if "embedding" in data
    }


def compute_expected_vector(content: str) -> list[float]:
    """Return the expected vector of a note."""
    return list(unit_vector(hash_words(build_embedded_text(content), DIMENSION), DIMENSION))


async def assert_all_embedded_once(ctx: Context, vertex: FakeVertexBatch, *names: str) -> None:
    """Assert that every note has the right vector, was paid for once, and is not pending."""
    contents = [f"{name} {number}." for name in names for number in range(NOTES_PER_SOURCE)]
    expected = {content: pytest.approx(compute_expected_vector(content)) for content in contents}
    assert await read_vectors(ctx) == expected
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0
    assert vertex.embedding_counts == dict.fromkeys(map(build_embedded_text, contents), 1)


async def assert_nothing_left(ctx: Context, storage: FakeCloudStorage) -> None:
    """Assert that the bucket and the record of the bulk run are empty."""
    assert storage.list_names("bulk") == []
    assert await read_documents(ctx, "meta") == {}


def replace_vector_by_error(line: bytes) -> bytes:
    """Turn an output line of a batch job into the line of a text that could not be embedded."""
    answer: dict[str, Any] = json.loads(line)
    return json.dumps(answer | {"response": {}, "status": "INVALID_ARGUMENT"}).encode()
