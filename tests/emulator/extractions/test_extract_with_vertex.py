"""The extract job with Vertex AI's client, against a server that speaks its wire."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from google.oauth2.credentials import Credentials

from shared.ai.vertex_generation import VertexGenerator
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.runtime.context import App
from tests.support.extract_job import (
    FINDINGS,
    KEYS,
    NOTHING,
    RETRIES,
    book,
    decision,
    ingest_books,
    make_generator,
    pending_texts,
    run_extract,
    visibility,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    HANG,
    MODEL,
    NO_CANDIDATES,
    FakeVertex,
    Reply,
    answered,
    blocked,
    refusal,
    said,
)
from tests.support.stored_documents import chunks_by_content

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.monotonic_clock import Monotonic

LIMIT = 60.0
"""Seconds that the model has for a passage; nobody waits for them."""
HANG_SECONDS = 60.0
"""Only a server that hangs takes so long."""

pytestmark = pytest.mark.anyio

BROKEN = {"decisions": [decision(content={"question": "No options?"})]}
BOTH = {"Natural or surrogate key? (tables)", "Retries at every layer (tables)"}


def findings(text: str) -> Any:
    """What the model says of a passage."""
    return next((visibility for words, visibility in FINDINGS.items() if words in text), {})


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """The server."""
    with FakeVertex() as server:
        server.answers["Findings"] = findings
        yield server


@pytest.fixture
async def cloud(settings: Settings, vertex: FakeVertex) -> AsyncIterator[Context]:
    """What a run may use where Gemini is the language model; three passages wait."""
    generator = VertexGenerator(
        project="p",
        location="europe-west1",
        model=MODEL,
        credentials=Credentials(token="test-token"),  # type: ignore[no-untyped-call]
        base_url=vertex.base_url,
        time_limit=LIMIT,
        breaker=CircuitBreaker("Vertex AI", pause=0),  # the next run is an hour away
    )
    app = App(settings, embedder=WordEmbedder(), generator=generator)
    ctx = app.context(Caller(), Meter())
    await ingest_books(ctx, book("tables", KEYS, RETRIES), book("evenings", NOTHING))
    yield ctx
    await generator.aclose()
    await app.aclose()


async def test_findings_are_stored_with_one_call_a_passage(
    cloud: Context, vertex: FakeVertex
) -> None:
    report = await run_extract(cloud)
    assert {"read": 3, "found": 2, "unfounded": 0} == report.counts
    assert BOTH == set(await visibility(cloud))
    assert 3 == len(vertex.calls)
    assert cloud.meter.input_tokens > 0 < cloud.meter.output_tokens
    [call] = [request for request in vertex.calls if KEYS in request.text]
    assert f"Tables\n\n{KEYS}" == call.text
    instruction = call.body["systemInstruction"]["parts"][0]["text"]
    assert "word for word" in instruction


@pytest.mark.parametrize(
    "trouble",
    [refusal(429, "RESOURCE_EXHAUSTED"), refusal(500, "INTERNAL"), CUT_CONNECTION],
)
async def test_a_transient_error_is_retried(
    cloud: Context, vertex: FakeVertex, trouble: Reply
) -> None:
    vertex.script.append(trouble)
    report = await run_extract(cloud)
    assert [] == report.failures
    assert (BOTH, set()) == (set(await visibility(cloud)), await pending_texts(cloud))


@pytest.mark.parametrize(
    "answer",
    [
        said("{"),
        said("I would rather not."),
        said(json.dumps({"decisions": [decision()]})[:-10], finish="MAX_TOKENS"),
        answered(BROKEN),
        NO_CANDIDATES,
    ],
)
async def test_a_malformed_answer_is_requested_again(
    cloud: Context, vertex: FakeVertex, answer: Reply
) -> None:
    vertex.script.append(answer)
    report = await run_extract(cloud)
    assert [] == report.failures
    assert (4, BOTH) == (len(vertex.calls), set(await visibility(cloud)))


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (said("{"), "INTERNAL_ERROR"),
        (answered(BROKEN), "INTERNAL_ERROR"),
        (NO_CANDIDATES, "INTERNAL_ERROR"),
        (blocked(), "VALIDATION_ERROR"),
        (said("", finish="SAFETY"), "VALIDATION_ERROR"),
        (refusal(400, "INVALID_ARGUMENT"), "VALIDATION_ERROR"),
        (refusal(500, "INTERNAL", retry_after="60"), "UNAVAILABLE"),
        (HANG, "UNAVAILABLE"),
    ],
)
async def test_a_passage_without_an_answer_is_deferred_alone(
    cloud: Context, vertex: FakeVertex, monotonic: Monotonic, trouble: Reply, reason: str
) -> None:
    others_answered = threading.Semaphore(0)

    def answer(text: str) -> Any:
        others_answered.release()
        return findings(text)

    def time_out() -> None:
        """Let the time of a call be over once the other two passages have their answers."""
        if len([call for call in vertex.calls if KEYS in call.text]) == 1:
            assert all(others_answered.acquire(timeout=HANG_SECONDS) for _ in range(2))
        monotonic.turn_soon(LIMIT)

    vertex.answers["Findings"] = answer
    vertex.on_hang = time_out
    vertex.troubles[KEYS] = trouble
    report = await run_extract(cloud)
    [failure] = report.failures
    assert failure.reason.startswith(reason)
    assert ({KEYS}, {"Retries at every layer (tables)"}) == (
        await pending_texts(cloud),
        set(await visibility(cloud)),
    )
    assert {"extract": 1} == (await chunks_by_content(cloud))[KEYS]["tries"]


@pytest.mark.usefixtures("sleepless")
@pytest.mark.parametrize(
    "outage",
    [
        refusal(503, "UNAVAILABLE", retry_after="60"),
        refusal(429, "RESOURCE_EXHAUSTED"),
        CUT_CONNECTION,
        HANG,
    ],
)
async def test_an_outage_ends_the_run_and_the_next_resumes(
    cloud: Context, vertex: FakeVertex, outage: Reply, monotonic: Monotonic
) -> None:
    vertex.usual = outage
    vertex.on_hang = partial(monotonic.turn_soon, LIMIT)
    with pytest.raises(Unavailable):
        await run_extract(cloud)
    assert [{}] * 3 == [chunk["tries"] for chunk in (await chunks_by_content(cloud)).values()]
    vertex.usual = Reply()
    assert 3 == (await run_extract(cloud)).counts["read"]
    assert BOTH == set(await visibility(cloud))


async def test_the_scripted_model_answers_as_the_server(settings: Settings) -> None:
    """Tests with either mean the same."""
    model = make_generator()
    app = App(settings, embedder=WordEmbedder(), generator=model)
    ctx = app.context(Caller(), Meter())
    await ingest_books(ctx, book("tables", KEYS, RETRIES), book("evenings", NOTHING))
    await run_extract(ctx)
    assert BOTH == set(await visibility(ctx))
    await app.aclose()
