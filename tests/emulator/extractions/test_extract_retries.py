"""Failing passages are retried, then dead-lettered; outages end the run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.extract.job import JOB
from shared.core.dates import utc_now
from shared.core.errors import Conflict, InvalidInput, PlatformFault, Unavailable
from shared.index.embedding_space import EmbeddingSpace
from tests.support.extract_job import (
    FINDINGS,
    KEYS,
    NOTHING,
    RETRIES,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Purpose, Vector
    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio

BROKEN = {"decisions": [make_reported_decision(content={"question": "No options?"})]}
REFUSED = InvalidInput("It refuses.", details={"input_tokens": 7, "output_tokens": 0})


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


@pytest.mark.parametrize("answer", [BROKEN, REFUSED, "nothing", PlatformFault("A bug.")])
async def test_a_failing_passage_is_deferred_alone(settings: Settings, answer: Any) -> None:
    async with open_extract_context(settings, make_generator({NOTHING: answer, **FINDINGS})) as ctx:
        [failing_chunk, *_] = await ingest_books(
            ctx, make_book("bad", NOTHING), make_book("tables", KEYS, RETRIES)
        )
        report = await run_extract(ctx)
        assert [failure.name for failure in report.failures] == [failing_chunk.chunk_id]
        assert await read_pending_texts(ctx) == {NOTHING}
        assert len(await read_visibility(ctx)) == 2
        assert (await run_extract(ctx)).counts == {}  # not due yet


async def test_a_passage_that_failed_five_times_is_dead_lettered(settings: Settings) -> None:
    hours = [0]
    model = make_generator({NOTHING: BROKEN})
    clock = {"clock": lambda: utc_now() + timedelta(hours=hours[0])}
    async with open_extract_context(settings, model, **clock) as ctx:
        [failing_chunk] = await ingest_books(ctx, make_book("bad", NOTHING))
        for _ in range(7):
            await run_extract(ctx)
            hours[0] += 2
        assert sum(NOTHING in text for text in model.texts) == 5
        assert await read_pending_texts(ctx) == set()
        assert JOB.dead_letters
        [parked] = await JOB.dead_letters.load(ctx, 10)
        assert parked.name == failing_chunk.chunk_id
        assert parked.reason.startswith("INTERNAL_ERROR")
        assert await JOB.dead_letters.retry(ctx) == 1
    async with open_extract_context(settings, make_generator({NOTHING: {}}), **clock) as ctx:
        assert (await run_extract(ctx)).counts["read"] == 1
        assert await JOB.dead_letters.load(ctx, 10) == []


async def test_tokens_of_failures_are_counted(settings: Settings) -> None:
    async with open_extract_context(
        settings, make_generator({NOTHING: BROKEN, RETRIES: REFUSED})
    ) as ctx:
        await ingest_books(ctx, make_book("bad", NOTHING, RETRIES))
        await run_extract(ctx)
        probe = 100
        assert ctx.meter.input_tokens == 200 + 7 + probe
        assert ctx.meter.output_tokens == 20 + 10


async def test_an_outage_of_the_model_ends_the_run(settings: Settings) -> None:
    model = make_generator()
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS, RETRIES))
        model.is_down = True
        with pytest.raises(Unavailable):
            await run_extract(ctx)
        assert [chunk["tries"] for chunk in (await read_chunks_by_text(ctx)).values()] == [{}, {}]
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
    async with open_extract_context(settings) as plain:
        await ingest_books(plain, make_book("tables", KEYS, RETRIES))
    embedder = RefusingEmbedder("multiply", InvalidInput("It refuses."))
    async with open_extract_context(settings, embedder=embedder) as ctx:
        report = await run_extract(ctx)
        assert [failure.reason for failure in report.failures] == ["VALIDATION_ERROR: It refuses."]
        assert await read_pending_texts(ctx) == {RETRIES}
        assert list(await read_visibility(ctx)) == ["Natural or surrogate key? (tables)"]


async def test_another_embedding_model_is_refused_before_a_call(settings: Settings) -> None:
    model = make_generator()
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("tables", KEYS))
        other = WordEmbedder()
        other.model = "another"
        await EmbeddingSpace(ctx.database).claim(other)
    async with open_extract_context(settings, model) as ctx:
        with pytest.raises(Conflict):
            await run_extract(ctx)
        assert model.texts == []
        assert await read_extractions(ctx) == {}
