"""The job `extract` works with the client of Vertex AI, whose server is a fake."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from shared.core.errors import Unavailable
from shared.runtime.context import Context
from tests.support.apps import Apps
from tests.support.cards import make_generator
from tests.support.extract_job import (
    FINDINGS,
    KEYS,
    NOTHING,
    RETRIES_PASSAGE,
    ingest_books,
    make_book,
    make_reported_decision,
    read_pending_texts,
    read_visibility,
    run_extract,
)
from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    HANG,
    FakeVertex,
    Reply,
    make_blocked_reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
)
from tests.support.jobs import make_job_context
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_chunks_by_text

LIMIT = 60.0
"""The seconds that the model has for a passage. Tests advance the clock instead of waiting."""
INCOMPLETE_FINDINGS = {"decisions": [make_reported_decision(content={"question": "No options?"})]}
BOTH_EXTRACTIONS = {"Natural or surrogate key? (tables)", "Retries at every layer (tables)"}
"""The extractions from `KEYS` and `RETRIES_PASSAGE`, as `read_visibility` names them."""


def answer_findings(text: str) -> Any:
    return next((findings for words, findings in FINDINGS.items() if words in text), {})


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    with FakeVertex() as server:
        server.answers["Findings"] = answer_findings
        yield server


@pytest.fixture
async def vertex_context(apps: Apps, vertex: FakeVertex) -> AsyncIterator[Context]:
    """The context of a run with Gemini as language model and three passages in the queue."""
    generator = make_generator(vertex, LIMIT)
    ctx = make_job_context(apps(generator=generator))
    await ingest_books(
        ctx, make_book("tables", KEYS, RETRIES_PASSAGE), make_book("evenings", NOTHING)
    )
    yield ctx
    await generator.aclose()


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
    ("reply", "reason"),
    [
        (make_text_reply("{"), "INTERNAL_ERROR"),
        (make_json_reply(INCOMPLETE_FINDINGS), "INTERNAL_ERROR"),
        (make_blocked_reply(), "VALIDATION_ERROR"),
        (make_error_reply(500, "INTERNAL", retry_after="60"), "UNAVAILABLE"),
    ],
)
async def test_a_passage_without_an_answer_is_deferred_alone(
    vertex_context: Context, vertex: FakeVertex, reply: Reply, reason: str
) -> None:
    vertex.replies_by_words[KEYS] = reply
    report = await run_extract(vertex_context)
    [failure] = report.failures
    assert failure.reason.startswith(reason)
    assert await read_pending_texts(vertex_context) == {KEYS}
    assert set(await read_visibility(vertex_context)) == {"Retries at every layer (tables)"}
    assert (await read_chunks_by_text(vertex_context))[KEYS]["tries"] == {"extract": 1}


@pytest.mark.usefixtures("instant_sleep")
@pytest.mark.parametrize(
    "outage", [make_error_reply(503, "UNAVAILABLE", retry_after="60"), CUT_CONNECTION, HANG]
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
