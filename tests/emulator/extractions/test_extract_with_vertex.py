"""The job `extract` works with the client of Vertex AI, whose server is a fake."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from shared.ai.vertex_generation import VertexGenerator
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.extract_job import (
    FINDINGS,
    KEYS,
    NOTHING,
    RETRIES_PASSAGE,
    ingest_books,
    make_book,
    make_generator,
    make_reported_decision,
    read_pending_texts,
    read_visibility,
    run_extract,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    HANG,
    MODEL,
    NO_CANDIDATES,
    FakeVertex,
    Reply,
    make_blocked_reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
)
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_chunks_by_text

LIMIT = 60.0
"""The seconds that the model has for a passage. Tests advance the clock instead of waiting."""
MAX_WAIT_SECONDS = 60.0
"""The real seconds after which a test fails because the server hangs."""
INCOMPLETE_FINDINGS = {"decisions": [make_reported_decision(content={"question": "No options?"})]}
TRUNCATED_FINDINGS = json.dumps({"decisions": [make_reported_decision()]})[:-10]
BOTH_EXTRACTIONS = {"Natural or surrogate key? (tables)", "Retries at every layer (tables)"}
"""The extractions from `KEYS` and `RETRIES_PASSAGE`, as `read_visibility` names them."""


def answer_findings(text: str) -> Any:
    """Return the model's findings in a passage."""
    return next((findings for words, findings in FINDINGS.items() if words in text), {})


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """A fake server whose model finds `FINDINGS`."""
    with FakeVertex() as server:
        server.answers["Findings"] = answer_findings
        yield server


@pytest.fixture
async def vertex_context(settings: Settings, vertex: FakeVertex) -> AsyncIterator[Context]:
    """The context of a run with Gemini as language model and three passages in the queue."""
    generator = VertexGenerator(
        project="p",
        location="europe-west1",
        model=MODEL,
        credentials=Credentials(token="test-token"),
        base_url=vertex.base_url,
        time_limit=LIMIT,
        breaker=CircuitBreaker("Vertex AI", pause=0),  # the next run is an hour away
    )
    app = App(settings, embedder=WordEmbedder(), generator=generator)
    ctx = app.context(Caller(), Meter())
    await ingest_books(
        ctx, make_book("tables", KEYS, RETRIES_PASSAGE), make_book("evenings", NOTHING)
    )
    yield ctx
    await generator.aclose()
    await app.aclose()


async def test_findings_are_stored_with_one_call_a_passage(
    vertex_context: Context, vertex: FakeVertex
) -> None:
    report = await run_extract(vertex_context)
    assert report.counts == {"read": 3, "found": 2, "unfounded": 0}
    assert set(await read_visibility(vertex_context)) == BOTH_EXTRACTIONS
    assert len(vertex.calls) == 3
    assert vertex_context.meter.input_tokens > 0
    assert vertex_context.meter.output_tokens > 0

    [call] = [request for request in vertex.calls if KEYS in request.text]
    assert call.text == f"Tables\n\n{KEYS}"
    instruction = call.body["systemInstruction"]["parts"][0]["text"]
    assert "word for word" in instruction


@pytest.mark.parametrize(
    "reply",
    [
        make_error_reply(429, "RESOURCE_EXHAUSTED"),
        make_error_reply(500, "INTERNAL"),
        CUT_CONNECTION,
    ],
)
async def test_a_transient_error_is_retried(
    vertex_context: Context, vertex: FakeVertex, reply: Reply
) -> None:
    vertex.script.append(reply)
    report = await run_extract(vertex_context)
    assert report.failures == []
    assert set(await read_visibility(vertex_context)) == BOTH_EXTRACTIONS
    assert await read_pending_texts(vertex_context) == set()


@pytest.mark.parametrize(
    "answer",
    [
        make_text_reply("{"),
        make_text_reply("I would rather not."),
        make_text_reply(TRUNCATED_FINDINGS, finish="MAX_TOKENS"),
        make_json_reply(INCOMPLETE_FINDINGS),
        NO_CANDIDATES,
    ],
)
async def test_a_malformed_answer_is_requested_again(
    vertex_context: Context, vertex: FakeVertex, answer: Reply
) -> None:
    vertex.script.append(answer)
    report = await run_extract(vertex_context)
    assert report.failures == []
    assert len(vertex.calls) == 3 + 1  # one for each passage, and the repeated one
    assert set(await read_visibility(vertex_context)) == BOTH_EXTRACTIONS


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (make_text_reply("{"), "INTERNAL_ERROR"),
        (make_json_reply(INCOMPLETE_FINDINGS), "INTERNAL_ERROR"),
        (NO_CANDIDATES, "INTERNAL_ERROR"),
        (make_blocked_reply(), "VALIDATION_ERROR"),
        (make_text_reply("", finish="SAFETY"), "VALIDATION_ERROR"),
        (make_error_reply(400, "INVALID_ARGUMENT"), "VALIDATION_ERROR"),
        (make_error_reply(500, "INTERNAL", retry_after="60"), "UNAVAILABLE"),
        (HANG, "UNAVAILABLE"),
    ],
)
async def test_a_passage_without_an_answer_is_deferred_alone(
    vertex_context: Context,
    vertex: FakeVertex,
    monotonic: MonotonicClock,
    reply: Reply,
    reason: str,
) -> None:
    others_answered = threading.Semaphore(0)

    def answer_and_count(text: str) -> Any:
        others_answered.release()
        return answer_findings(text)

    def time_out_after_others() -> None:
        """Let the call time out once the other two passages have their answers."""
        if len([call for call in vertex.calls if KEYS in call.text]) == 1:
            assert all(others_answered.acquire(timeout=MAX_WAIT_SECONDS) for _ in range(2))
        monotonic.advance_soon(LIMIT)

    vertex.answers["Findings"] = answer_and_count
    vertex.on_hang = time_out_after_others
    vertex.replies_by_words[KEYS] = reply
    report = await run_extract(vertex_context)
    [failure] = report.failures
    assert failure.reason.startswith(reason)
    assert await read_pending_texts(vertex_context) == {KEYS}
    assert set(await read_visibility(vertex_context)) == {"Retries at every layer (tables)"}
    assert (await read_chunks_by_text(vertex_context))[KEYS]["tries"] == {"extract": 1}


@pytest.mark.usefixtures("instant_sleep")
@pytest.mark.parametrize(
    "outage",
    [
        make_error_reply(503, "UNAVAILABLE", retry_after="60"),
        make_error_reply(429, "RESOURCE_EXHAUSTED"),
        CUT_CONNECTION,
        HANG,
    ],
)
async def test_an_outage_ends_the_run_and_the_next_resumes(
    vertex_context: Context, vertex: FakeVertex, outage: Reply, monotonic: MonotonicClock
) -> None:
    vertex.usual = outage
    vertex.on_hang = partial(monotonic.advance_soon, LIMIT)
    with pytest.raises(Unavailable):
        await run_extract(vertex_context)
    for chunk in (await read_chunks_by_text(vertex_context)).values():
        assert chunk["tries"] == {}

    vertex.usual = Reply()
    assert (await run_extract(vertex_context)).counts["read"] == 3
    assert set(await read_visibility(vertex_context)) == BOTH_EXTRACTIONS


async def test_the_scripted_model_answers_as_the_server(settings: Settings) -> None:
    """Tests with the scripted model are as good as tests with the client and its server."""
    model = make_generator()
    app = App(settings, embedder=WordEmbedder(), generator=model)
    ctx = app.context(Caller(), Meter())
    await ingest_books(
        ctx, make_book("tables", KEYS, RETRIES_PASSAGE), make_book("evenings", NOTHING)
    )
    await run_extract(ctx)
    assert set(await read_visibility(ctx)) == BOTH_EXTRACTIONS
    await app.aclose()
