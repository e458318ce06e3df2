"""The job `extract` retries a failing passage, and after five tries puts it aside as a dead letter.

An outage of the language model or of the embedder ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from functions.jobs.extract.job import JOB
from shared.ai.embedding import Purpose, Vector
from shared.core.errors import Conflict, InvalidInput, PlatformFault, Unavailable
from shared.core.settings import Settings
from shared.index.embedding_space import EmbeddingSpace
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
    open_extract_context,
    read_extractions,
    read_pending_texts,
    read_visibility,
    run_extract,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import read_chunks_by_text

INCOMPLETE_FINDINGS = {"decisions": [make_reported_decision(content={"question": "No options?"})]}
REFUSAL = InvalidInput("It refuses.", details={"input_tokens": 7, "output_tokens": 0})
"""The error of a model that refuses a passage, with the tokens that this costs."""


class RefusingEmbedder(WordEmbedder):
    """An embedder that raises an error for texts with a word."""

    def __init__(self, word: str, error: Exception) -> None:
        """Raise this error for texts with this word."""
        super().__init__()
        self._word = word
        self._error = error

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed texts without the word."""
        if any(self._word in text for text in texts):
            raise self._error
        return await super().embed(texts, purpose)


@pytest.mark.parametrize(
    "answer", [INCOMPLETE_FINDINGS, REFUSAL, "nothing", PlatformFault("A bug.")]
)
async def test_a_failing_passage_is_deferred_alone(settings: Settings, answer: Any) -> None:
    model = make_generator({NOTHING: answer, **FINDINGS})
    async with open_extract_context(settings, model) as ctx:
        [failing_chunk, *_] = await ingest_books(
            ctx, make_book("bad", NOTHING), make_book("tables", KEYS, RETRIES_PASSAGE)
        )
        report = await run_extract(ctx)
        assert [failure.name for failure in report.failures] == [failing_chunk.chunk_id]
        assert await read_pending_texts(ctx) == {NOTHING}
        assert len(await read_visibility(ctx)) == 2
        assert (await run_extract(ctx)).counts == {}  # not due yet


async def test_a_passage_that_failed_five_times_is_dead_lettered(settings: Settings) -> None:
    clock = SettableClock()
    model = make_generator({NOTHING: INCOMPLETE_FINDINGS})
    async with open_extract_context(settings, model, clock=clock) as ctx:
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
    async with open_extract_context(settings, repaired_model, clock=clock) as ctx:
        assert (await run_extract(ctx)).counts["read"] == 1
        assert await JOB.dead_letters.load(ctx, 10) == []


async def test_tokens_of_failures_are_counted(settings: Settings) -> None:
    model = make_generator({NOTHING: INCOMPLETE_FINDINGS, RETRIES_PASSAGE: REFUSAL})
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("bad", NOTHING, RETRIES_PASSAGE))
        await run_extract(ctx)
        # Each answer costs 100 and 10 tokens. The incomplete one is requested twice. After
        # the failures, a probe finds out whether the model works at all.
        incomplete_input, refused_input, probe_input = 2 * 100, 7, 100
        assert ctx.meter.input_tokens == incomplete_input + refused_input + probe_input
        assert ctx.meter.output_tokens == 2 * 10 + 0 + 10


async def test_an_outage_of_the_model_ends_the_run(settings: Settings) -> None:
    model = make_generator()
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS, RETRIES_PASSAGE))
        model.is_down = True
        with pytest.raises(Unavailable):
            await run_extract(ctx)
        for chunk in (await read_chunks_by_text(ctx)).values():
            assert chunk["tries"] == {}
        model.is_down = False
        assert (await run_extract(ctx)).counts["read"] == 2


async def test_an_outage_of_the_embedder_ends_the_run(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS, NOTHING))
        assert isinstance(ctx.embedder, WordEmbedder)
        ctx.embedder.is_down = True
        with pytest.raises(Unavailable):
            await run_extract(ctx)
        assert await read_pending_texts(ctx) == {KEYS}
        assert (await read_chunks_by_text(ctx))[KEYS]["tries"] == {}
        ctx.embedder.is_down = False
        assert (await run_extract(ctx)).counts["found"] == 1


async def test_a_passage_that_cannot_be_embedded_fails_alone(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS, RETRIES_PASSAGE))
    embedder = RefusingEmbedder("multiply", InvalidInput("It refuses."))
    async with open_extract_context(settings, embedder=embedder) as ctx:
        report = await run_extract(ctx)
        assert [failure.reason for failure in report.failures] == ["VALIDATION_ERROR: It refuses."]
        assert await read_pending_texts(ctx) == {RETRIES_PASSAGE}
        assert list(await read_visibility(ctx)) == ["Natural or surrogate key? (tables)"]


async def test_another_embedding_model_is_refused_before_a_call(settings: Settings) -> None:
    model = make_generator()
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS))
        other_embedder = WordEmbedder()
        other_embedder.model = "another"
        await EmbeddingSpace(ctx.database).claim(other_embedder)
    async with open_extract_context(settings, model) as ctx:
        with pytest.raises(Conflict):
            await run_extract(ctx)
        assert model.texts == []
        assert await read_extractions(ctx) == {}
