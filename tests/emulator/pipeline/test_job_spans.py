"""The spans of jobs, embeddings and language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.oauth2.credentials import Credentials

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.embed.job import JOB as EMBED
from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core import telemetry
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import CarrelError
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import run_job
from tests.support.cards import make_card_reply, make_generator, make_source_of_notes
from tests.support.fakes import openai
from tests.support.fakes.openai import FakeOpenAI
from tests.support.fakes.otlp import FakeCollector
from tests.support.fakes.vertex import MODEL, FakeVertex, make_error_reply
from tests.support.knowledge import ingest_sources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from shared.ai.embedding import Embedder
    from shared.runtime.job import Job
    from tests.support.fakes.otlp import CollectedSpan

pytestmark = pytest.mark.anyio

WORDS = (b"Dough", b"baker", b"oven", b"sk-secret", b"Bread")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    """A collector of this process's spans."""
    with FakeCollector() as fake:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", fake.endpoint)
        monkeypatch.setattr(telemetry, "_export", None)
        telemetry.start(Settings(), "jobs")
        yield fake


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """A fake of Vertex AI."""
    with FakeVertex() as server:
        server.answers["GeneratedCard"] = make_card_reply
        yield server


@pytest.fixture(params=["vertex", "openai"])
async def embedder(
    request: pytest.FixtureRequest, vertex: FakeVertex
) -> AsyncIterator[tuple[str, Embedder]]:
    """Each provider of vectors, with its name in the conventions."""
    if request.param == "vertex":
        vertex_embedder = VertexEmbedder(
            project="p",
            location="europe-west1",
            credentials=Credentials(token="t"),  # type: ignore[no-untyped-call]
            base_url=vertex.base_url,
        )
        yield "gcp.vertex_ai", vertex_embedder
        await vertex_embedder.aclose()
    else:
        with FakeOpenAI() as server:
            openai_embedder = OpenAIEmbedder(
                base_url=server.base_url, model=openai.MODEL, dimension=openai.DIMENSION
            )
            yield "openai", openai_embedder
            await openai_embedder.aclose()


async def record(job: Job, app: App, collector: FakeCollector) -> dict[str, CollectedSpan]:
    """Store three chunks, run a job, and return its spans by name."""
    await ingest_sources(app.context(Caller(), Meter()), make_source_of_notes(3))
    try:
        await run_job(job, app)
    finally:
        await telemetry.flush()
        await app.aclose()
    spans = collector.spans
    assert len({span.trace_id for span in spans}) == 1
    exported = b"".join(collector.bodies)
    assert [word for word in WORDS if word in exported] == []
    return {span.name: span for span in spans}


async def test_an_embedding_is_a_span_of_its_job(
    settings: Settings, collector: FakeCollector, embedder: tuple[str, Embedder]
) -> None:
    provider, configured = embedder
    spans = await record(EMBED, App(settings, embedder=configured), collector)
    job, embedding = spans["job embed"], spans[f"embeddings {configured.model}"]
    assert (job.kind, job.attributes["carrel.job.embedded"]) == ("SERVER", 3)
    assert job.attributes["carrel.job.outcome"] == "finished"
    assert embedding.parent_id == spans["query chunks"].parent_id == job.span_id
    assert embedding.attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": configured.model,
        "gen_ai.embeddings.dimension.count": configured.dimension,
        "carrel.embedding.texts": 3,
    }


async def test_a_request_to_a_language_model_has_its_tokens(
    settings: Settings, collector: FakeCollector, vertex: FakeVertex
) -> None:
    generator = make_generator(vertex)
    spans = await record(CARDS, App(settings, generator=generator), collector)
    await generator.aclose()
    request = spans[f"generate_content {MODEL}"]
    assert request.parent_id == spans["job cards"].span_id
    assert request.kind == "CLIENT"
    assert request.attributes["gen_ai.provider.name"] == "gcp.vertex_ai"
    tokens = [request.attributes[f"gen_ai.usage.{kind}_tokens"] for kind in ("input", "output")]
    job_tokens = [
        spans["job cards"].attributes[f"carrel.job.{kind}_tokens"] for kind in ("input", "output")
    ]
    assert all(tokens)
    assert [3 * int(str(count)) for count in tokens] == job_tokens


async def test_a_failed_job_has_the_code_of_its_error_not_its_message(
    settings: Settings, collector: FakeCollector, vertex: FakeVertex
) -> None:
    vertex.usual = make_error_reply(403, "PERMISSION_DENIED", "Dough is not allowed.")
    embedder = VertexEmbedder(
        project="p",
        location="europe-west1",
        credentials=Credentials(token="t"),  # type: ignore[no-untyped-call]
        base_url=vertex.base_url,
        breaker=CircuitBreaker("Vertex AI", pause=0),
    )
    app = App(settings, embedder=embedder)
    with pytest.raises(CarrelError):
        await record(EMBED, app, collector)
    await embedder.aclose()
    spans = {span.name: span for span in collector.spans}
    errors = {span.attributes.get("error.type") for span in spans.values() if span.is_error}
    assert spans["job embed"].is_error
    assert errors == {"INTERNAL_ERROR"}
    assert b"allowed" not in b"".join(collector.bodies)
