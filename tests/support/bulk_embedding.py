"""Embedding in bulk against servers of the wire: what a test needs, and what it looks for."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
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
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.pipeline.embedding.bulk import BulkServices
from shared.pipeline.embedding.chunks import embed_in_bulk
from shared.runtime.context import App
from shared.runtime.job import Budget, Report
from tests.support.fakes.vertex import vector_of
from tests.support.knowledge import with_chunks
from tests.support.stored_documents import chunks_by_content, documents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.vertex_batch import FakeVertexBatch

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
DIMENSION: Final = 8
NOTES: Final = 12


def source(name: str, count: int = NOTES) -> Source:
    """So many notes of this name."""
    sections = tuple(Section(f"{name} {number}.") for number in range(count))
    return Source(source_id=name.lower(), title="Notes", sections=sections)


def text_of(content: str) -> str:
    """What is embedded of a note."""
    return f"Notes {content}"


@asynccontextmanager
async def opened_bulk(vertex: FakeVertexBatch) -> AsyncIterator[BulkServices]:
    """Embedding in bulk, from ten passages on, with little patience."""
    client = VertexBatch(
        _endpoint(vertex), model="gemini-embedding-001", dimension=DIMENSION, time_limit=60
    )
    files = BatchFiles("gs://bulk/work", "p", attempt_seconds=30, retry_seconds=1)
    made = BulkServices(client, files, min_passages=10, poll_seconds=0.01)
    yield made
    await made.aclose()


@asynccontextmanager
async def opened_base(
    settings: Settings, vertex: FakeVertexBatch, clock: Clock
) -> AsyncIterator[Context]:
    """A knowledge base of twelve notes that wait, in a deployment that embeds with Vertex AI."""
    endpoint = _endpoint(vertex)
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
    await add(ctx, source("Note"))
    yield ctx
    await embedder.aclose()
    await app.aclose()


def _endpoint(vertex: FakeVertexBatch) -> VertexEndpoint:
    credentials = Credentials(token="token")  # type: ignore[no-untyped-call]
    return VertexEndpoint(
        project="p",
        location="europe-west1",
        credentials=credentials,
        base_url=vertex.base_url,
    )


async def add(ctx: Context, notes: Source) -> None:
    """Put a source in, or what has become of it."""
    await Ingestion(ctx.database).save([with_chunks(notes)], ctx.clock())


async def run(ctx: Context, bulk: BulkServices, seconds: float = 60) -> Report:
    """One run of what the embed job does."""
    report = Report()
    await embed_in_bulk(bulk, ctx, Budget(time.monotonic() + seconds), report)
    return report


async def embedded(ctx: Context) -> dict[str, list[float]]:
    """The vectors of the notes that have one, by what the notes say."""
    stored = await chunks_by_content(ctx)
    return {
        content: list(data["embedding"]) for content, data in stored.items() if "embedding" in data
    }


def vector(content: str) -> list[float]:
    """The vector that a note is to have."""
    return list(unit_vector(vector_of(text_of(content), DIMENSION), DIMENSION))


async def assert_all_embedded_once(ctx: Context, vertex: FakeVertexBatch, *names: str) -> None:
    """Each note has the vector of its text, none waits, and each was paid for once."""
    contents = [f"{name} {number}." for name in names for number in range(NOTES)]
    assert {content: pytest.approx(vector(content)) for content in contents} == await embedded(ctx)
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0
    assert dict.fromkeys(map(text_of, contents), 1) == vertex.paid


async def assert_nothing_left(ctx: Context, storage: FakeCloudStorage) -> None:
    """No file, and no word of the task."""
    assert (storage.names("bulk"), await documents(ctx, "meta")) == ([], {})


def without_vector(line: bytes) -> bytes:
    """The answer of a job that made no vector of a text."""
    answer: dict[str, Any] = json.loads(line)
    return json.dumps(answer | {"response": {}, "status": "INVALID_ARGUMENT"}).encode()
