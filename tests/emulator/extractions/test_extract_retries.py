"""The job `extract` retries a failing passage, and after five tries puts it aside as a dead letter.

An outage of the language model or of the embedder ends the run.
"""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from functions.jobs.extract.job import JOB
from shared.ai.embedding import Purpose, Vector
from shared.core.errors import Conflict, InvalidInput, PlatformFault, Unavailable
from shared.index.embedding_space import EmbeddingSpace
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.extract_job import (
    FINDINGS,
    KEYS,
    NOTHING,
    RETRIES_PASSAGE,
    ingest_books,
    make_book,
    make_generator,
    make_reported_decision,
    open_run,
    read_extractions,
    read_pending_texts,
    read_visibility,
    run_extract,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.stored_documents import read_chunks_by_text

INCOMPLETE_FINDINGS = {"decisions": [make_reported_decision(content={"question": "No options?"})]}
REFUSAL = InvalidInput("It refuses.", details={"input_tokens": 7, "output_tokens": 0})
"""The error of a model that refuses a passage, with the tokens that this costs."""


class RefusingEmbedder(WordEmbedder):
    """An embedder that raises an error for texts with a word."""

    def __init__(self, word: str, error: Exception) -> None:
        super().__init__()
        self._word = word
        self._error = error

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        if any(self._word in text for text in texts):
            raise self._error
        return await super().embed(texts, purpose)


@pytest.mark.parametrize(
    ("answer", "tokens"),
    # An answer costs 100 and 10 tokens, and is requested again if it is invalid.
    [
        (INCOMPLETE_FINDINGS, (200, 20)),
        (REFUSAL, (7, 0)),
        ("nothing", (200, 20)),
        (PlatformFault("A bug."), (0, 0)),
    ],
)
async def test_a_failing_passage_is_deferred_alone(
    apps: Apps, answer: Any, tokens: tuple[int, int]
) -> None:
    model = make_generator({NOTHING: answer, **FINDINGS})
    ctx = open_run(apps, model)
    [failing_chunk, *_] = await ingest_books(
        ctx, make_book("bad", NOTHING), make_book("tables", KEYS, RETRIES_PASSAGE)
    )
    report = await run_extract(ctx)
    assert [failure.name for failure in report.failures] == [failing_chunk.chunk_id]
    assert await read_pending_texts(ctx) == {NOTHING}
    assert len(await read_visibility(ctx)) == 2
    # The two other passages are read, too, and a probe finds out whether the model works at all.
    assert (ctx.meter.input_tokens - 300, ctx.meter.output_tokens - 30) == tokens
    assert (await run_extract(ctx)).counts == {}  # not due yet


async def test_a_passage_that_failed_five_times_is_dead_lettered(apps: Apps) -> None:
    clock = SettableClock()
    model = make_generator({NOTHING: INCOMPLETE_FINDINGS})
    ctx = open_run(apps, model, clock=clock)
    [failing_chunk] = await ingest_books(ctx, make_book("bad", NOTHING))
    for _ in range(7):
        await run_extract(ctx)
        clock.advance(hours=2)
    assert len([text for text in model.texts if NOTHING in text]) == 5
    assert await read_pending_texts(ctx) == set()
    assert JOB.dead_letters
    [dead_letter] = await JOB.dead_letters.load(ctx, 10)
    assert dead_letter.name == failing_chunk.chunk_id
    assert dead_letter.reason.startswith("INTERNAL_ERROR")
    assert await JOB.dead_letters.retry(ctx) == 1

    repaired_model = make_generator({NOTHING: {}})
    ctx = open_run(apps, repaired_model, clock=clock)
    assert (await run_extract(ctx)).counts["read"] == 1
    assert await JOB.dead_letters.load(ctx, 10) == []


@pytest.mark.parametrize("provider", ["generator", "embedder"])
async def test_an_outage_of_the_model_ends_the_run(apps: Apps, provider: str) -> None:
    """So does one of the embedder, which only a passage with findings needs."""
    ctx = open_run(apps)
    await ingest_books(ctx, make_book("tables", KEYS, NOTHING))
    model = cast("ScriptedGenerator | WordEmbedder", getattr(ctx, provider))
    model.is_down = True
    with pytest.raises(Unavailable):
        await run_extract(ctx)
    assert KEYS in await read_pending_texts(ctx)
    assert (await read_chunks_by_text(ctx))[KEYS]["tries"] == {}
    model.is_down = False
    assert (await run_extract(ctx)).counts["found"] == 1


async def test_a_passage_that_cannot_be_embedded_fails_alone(apps: Apps) -> None:
    ctx = open_run(apps)
    await ingest_books(ctx, make_book("tables", KEYS, RETRIES_PASSAGE))
    embedder = RefusingEmbedder("multiply", InvalidInput("It refuses."))
    ctx = open_run(apps, embedder=embedder)
    report = await run_extract(ctx)
    assert [failure.reason for failure in report.failures] == ["VALIDATION_ERROR: It refuses."]
    assert await read_pending_texts(ctx) == {RETRIES_PASSAGE}
    assert list(await read_visibility(ctx)) == ["Natural or surrogate key? (tables)"]


async def test_another_embedding_model_is_refused_before_a_call(apps: Apps) -> None:
    model = make_generator()
    ctx = open_run(apps, model)
    await ingest_books(ctx, make_book("tables", KEYS))
    other_embedder = WordEmbedder()
    other_embedder.model = "another"
    await EmbeddingSpace(ctx.database).claim(other_embedder)
    ctx = open_run(apps, model)
    with pytest.raises(Conflict):
        await run_extract(ctx)
    assert model.texts == []
    assert await read_extractions(ctx) == {}
