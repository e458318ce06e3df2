"""The embed job and a search work with Vertex AI's client, against a fake server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from google.oauth2.credentials import Credentials

from functions.jobs.embed.job import embed
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.fakes.vertex import FakeVertex, Reply, make_error_reply
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, chunk_source, ingest_sources

TOKEN = "test-token"


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """The fake of Vertex AI."""
    with FakeVertex() as server:
        yield server


@pytest.fixture
async def cloud(settings: Settings, vertex: FakeVertex) -> AsyncIterator[Context]:
    """An app that embeds with Vertex AI, with five pending chunks."""
    embedder = VertexEmbedder(
        project="p",
        location="europe-west1",
        credentials=Credentials(token=TOKEN),
        base_url=vertex.base_url,
        time_limit=50,
        breaker=CircuitBreaker("Vertex AI", pause=0),  # as if the next run began much later
    )
    app = App(settings, embedder=embedder)
    ctx = app.context(Caller(), Meter())
    await ingest_sources(ctx, BAKING, SAILING)
    yield ctx
    await embedder.aclose()
    await app.aclose()


async def run_embed(ctx: Context) -> Report:
    return await embed(ctx, make_ample_budget())


async def test_chunks_are_embedded_and_found(cloud: Context) -> None:
    assert (await run_embed(cloud)).counts == {"embedded": 5}
    text = chunk_source(SAILING).chunks[1].embedding_text
    best = (await search_kb(In(query=text), cloud)).results[0]
    assert best.title == "Under Sail"
    assert best.similarity == 1.0
    assert await EmbeddingSpace(cloud.database).load_space() == ("gemini-embedding-001", 768)


async def test_the_next_run_completes_one_stopped_by_an_outage(
    cloud: Context, vertex: FakeVertex
) -> None:
    vertex.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
    with pytest.raises(Unavailable) as error:
        await run_embed(cloud)
    assert error.value.retry_after is not None
    assert error.value.retry_after >= 60

    vertex.usual = Reply()
    assert (await run_embed(cloud)).counts == {"embedded": 5}


async def test_a_refused_text_is_deferred(cloud: Context, vertex: FakeVertex) -> None:
    vertex.rejected_words = "sourdough"
    report = await run_embed(cloud)
    assert report.counts == {"embedded": 4}
    [failure] = report.failures
    assert failure.reason.startswith("VALIDATION_ERROR")
