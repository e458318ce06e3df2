"""The job `extract` works with the client of Vertex AI, whose server is a fake."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

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
    read_visibility,
    run_extract,
)
from tests.support.fakes.vertex import (
    FakeVertex,
)
from tests.support.jobs import make_job_context

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
    generator = make_generator(vertex)
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
