"""Jobs and their requests to embedding and language models are exported as OpenTelemetry spans."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from google.oauth2.credentials import Credentials

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.embed.job import JOB as EMBED
from infra.build.discovery import jobs
from shared.ai.embedding import Embedder
from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core import telemetry
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import CarrelError
from shared.core.settings import Settings
from shared.core.telemetry import SpanKind
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Budget, Job, Report, run_job
from tests.support.apps import Apps
from tests.support.bulk_embedding import open_bulk_services, open_pending_base, run_bulk_embedding
from tests.support.cards import make_card_reply, make_generator, make_source_of_notes
from tests.support.clock import NOON, SettableClock
from tests.support.fakes import openai
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.openai import FakeOpenAI
from tests.support.fakes.otlp import CollectedSpan, FakeCollector
from tests.support.fakes.vertex import MODEL, FakeVertex, make_error_reply
from tests.support.fakes.vertex_batch import FakeVertexBatch
from tests.support.jobs import make_job_context
from tests.support.knowledge import ingest_sources

BATCH_MODEL = "gemini-embedding-001"
SECRET_WORDS = (b"Dough", b"baker", b"oven", b"sk-secret", b"Bread")
"""Words of the sources, and a credential, which must not be exported."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    """A fake collector to which this process exports its spans."""
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
    """Each embedder, with the name of its provider in OpenTelemetry's conventions."""
    if request.param == "vertex":
        vertex_embedder = VertexEmbedder(
            project="p",
            location="europe-west1",
            credentials=Credentials(token="t"),
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


async def run_and_read_spans(
    job: Job, app: App, collector: FakeCollector
) -> dict[str, CollectedSpan]:
    """Store three chunks, run a job, and close the app; return the spans by name."""
    await ingest_sources(make_job_context(app), make_source_of_notes(3))
    try:
        await run_job(job, app)
    finally:
        await telemetry.flush()
        await app.aclose()
    return {span.name: span for span in read_spans_of_one_trace(collector)}


def read_spans_of_one_trace(collector: FakeCollector) -> list[CollectedSpan]:
    """Return all spans; assert that they belong to one job and have no words of the user."""
    spans = collector.spans
    ids = {span.span_id for span in spans}
    [root] = [span for span in spans if span.parent_id not in ids]
    assert root.name.startswith("job ")
    exported = b"".join(collector.bodies)
    assert [word for word in SECRET_WORDS if word in exported] == []
    return spans


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.name)
async def test_every_commit_of_a_job_is_a_span_of_its_trace(
    apps: Apps, collector: FakeCollector, vertex: FakeVertex, tmp_path: Path, job: Job
) -> None:
    (tmp_path / "bread.md").write_text("# Bread\n\nDough rises.")
    generator = make_generator(vertex)
    app = apps(generator=generator)
    await ingest_sources(make_job_context(app), make_source_of_notes(3))

    report = await run_job(job, app)
    await telemetry.flush()
    await generator.aclose()

    assert isinstance(report, Report)
    names = [span.name for span in read_spans_of_one_trace(collector)]
    assert names.count("commit") == report.cost.commits


async def test_an_embedding_is_a_span_of_its_job(
    settings: Settings, collector: FakeCollector, embedder: tuple[str, Embedder]
) -> None:
    provider, model = embedder

    spans = await run_and_read_spans(EMBED, App(settings, embedder=model), collector)

    job, embedding = spans["job embed"], spans[f"embeddings {model.model}"]
    assert job.kind == "SERVER"
    assert job.attributes["carrel.job.embedded"] == 3
    assert job.attributes["carrel.job.outcome"] == "finished"
    assert embedding.parent_id == spans["query chunks"].parent_id == job.span_id
    assert embedding.attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model.model,
        "gen_ai.embeddings.dimension.count": model.dimension,
        "carrel.embedding.texts": 3,
        "gen_ai.usage.input_tokens": 3 * openai.TOKENS_PER_TEXT,
    }


async def test_the_span_of_a_cancelled_operation_is_not_an_error(collector: FakeCollector) -> None:
    """At its end, for example, a job cancels its heartbeat, which may be in a commit."""

    async def commit_slowly() -> None:
        with telemetry.span("commit", kind=SpanKind.CLIENT):
            await asyncio.sleep(60)

    with telemetry.span("job embed", kind=SpanKind.SERVER):
        heartbeat = asyncio.create_task(commit_slowly())
        await asyncio.sleep(0)
        heartbeat.cancel()
        await asyncio.wait([heartbeat])
    await telemetry.flush()
    assert [(span.name, span.is_error) for span in collector.spans] == [
        ("commit", False),
        ("job embed", False),
    ]


async def test_the_span_of_a_run_that_does_not_start_says_so(
    app: App, collector: FakeCollector
) -> None:
    async def start_second_run(_ctx: Context, _budget: Budget) -> Report:
        assert isinstance(await run_job(CARDS, app), AlreadyRunning)
        return Report()

    await run_job(replace(CARDS, run=start_second_run), app)
    await telemetry.flush()

    job_spans = [span for span in collector.spans if span.name == "job cards"]  # in order of end
    outcomes = [span.attributes["carrel.job.outcome"] for span in job_spans]
    assert outcomes == ["busy", "finished"]


async def test_the_calls_of_a_batch_job_are_spans(
    settings: Settings, collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCloudStorage("bulk") as storage, FakeVertexBatch(storage) as batch:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)
        async with (
            open_bulk_services(batch) as services,
            open_pending_base(settings, batch, SettableClock(NOON)) as ctx,
        ):
            commits_before = ctx.meter.commits
            with telemetry.span("job embed", kind=SpanKind.SERVER):
                await run_bulk_embedding(ctx, services)
            await telemetry.flush()

    spans = {span.name: span for span in read_spans_of_one_trace(collector)}
    job = spans["job embed"]
    submission = spans[f"submit_batch {BATCH_MODEL}"]
    poll = spans[f"get_batch_state {BATCH_MODEL}"]
    assert submission.parent_id == poll.parent_id == job.span_id
    assert submission.attributes == {
        "gen_ai.operation.name": "submit_batch",
        "gen_ai.provider.name": "gcp.vertex_ai",
        "gen_ai.request.model": BATCH_MODEL,
    }
    commits = [span for span in collector.spans if span.name == "commit"]
    assert len(commits) == ctx.meter.commits - commits_before


async def test_a_request_to_a_language_model_has_its_tokens(
    settings: Settings, collector: FakeCollector, vertex: FakeVertex
) -> None:
    generator = make_generator(vertex)
    spans = await run_and_read_spans(CARDS, App(settings, generator=generator), collector)
    await generator.aclose()

    request = spans[f"generate_content {MODEL}"]
    assert request.parent_id == spans["job cards"].span_id
    assert request.kind == "CLIENT"
    assert request.attributes["gen_ai.provider.name"] == "gcp.vertex_ai"
    for kind in ("input", "output"):
        tokens = int(str(request.attributes[f"gen_ai.usage.{kind}_tokens"]))
        assert tokens > 0
        job_tokens = spans["job cards"].attributes[f"carrel.job.{kind}_tokens"]
        assert job_tokens == 3 * tokens  # for three chunks


async def test_a_failed_job_has_the_code_of_its_error_not_its_message(
    settings: Settings, collector: FakeCollector, vertex: FakeVertex
) -> None:
    vertex.usual = make_error_reply(403, "PERMISSION_DENIED", "Dough is not allowed.")
    embedder = VertexEmbedder(
        project="p",
        location="europe-west1",
        credentials=Credentials(token="t"),
        base_url=vertex.base_url,
        breaker=CircuitBreaker("Vertex AI", pause=0),
    )
    app = App(settings, embedder=embedder)
    with pytest.raises(CarrelError):
        await run_and_read_spans(EMBED, app, collector)
    await embedder.aclose()

    spans = {span.name: span for span in collector.spans}
    errors = {span.attributes.get("error.type") for span in spans.values() if span.is_error}
    assert spans["job embed"].is_error
    assert errors == {"INTERNAL_ERROR"}
    assert b"allowed" not in b"".join(collector.bodies)
