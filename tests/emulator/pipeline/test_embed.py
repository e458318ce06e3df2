"""The embed job gives every pending chunk its vector, even if other chunks fail.

A chunk whose text fails is tried later; after five tries it is a dead letter, and is left alone.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.embed.job import count_pending, embed
from shared.ai.embedding import Purpose, Vector
from shared.core.errors import CarrelError, Conflict, InvalidInput, PlatformFault, Unavailable
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.embedder import DIMENSION, WordEmbedder
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import chunk_source, ingest_sources, set_fields
from tests.support.stored_documents import read_chunks_by_text, read_documents

BatchHook = Callable[[Sequence[str]], Awaitable[None]]

REFUSAL = "VALIDATION_ERROR: The provider refuses this text."
"""The reason for which `refuse_odd` fails, as it is stored and reported."""
NOTES = Source(
    source_id="notes",
    title="Notes",
    sections=tuple(Section(f"Note {number}.") for number in range(10)),
)
OTHER_STEPS = dict.fromkeys(("index", "card", "extract"), NOON)
"""The pending steps of a new note other than `embed`."""
STEPS_AFTER_EMBED = OTHER_STEPS | {"cluster": NOON}
"""The pending steps of a note that has its vector."""
ODD_NOTE = "Note 3."
"""The note that the provider refuses in some tests, or that is edited or deleted."""
ODD_ID = chunk_source(NOTES).chunks[3].chunk_id


async def accept_all(_texts: Sequence[str]) -> None:
    """Embed every text."""


@dataclass
class ScriptedEmbedder:
    """An embedder with vectors of three numbers.

    Attributes:
        before_batch: Is called with each batch of texts before it is embedded, and may raise.
    """

    before_batch: BatchHook = accept_all
    model: str = "scripted-1"
    dimension: int = 3
    batch_size: int = 4
    purposes: set[Purpose] = field(default_factory=set)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Return the same vector for every text."""
        self.purposes.add(purpose)
        await self.before_batch(texts)
        return [(0.6, 0.8, 0.0)] * len(texts)

    async def aclose(self) -> None:
        """Do nothing."""


def fail_on_odd(error: CarrelError) -> BatchHook:
    """Return a hook that fails for every batch that contains the odd note."""

    async def fail_on_odd_note(texts: Sequence[str]) -> None:
        if any(ODD_NOTE in text for text in texts):
            raise error

    return fail_on_odd_note


refuse_odd = fail_on_odd(InvalidInput("The provider refuses this text."))


def fail_after(batches: int) -> BatchHook:
    """Return a hook that fails after this number of batches."""
    numbers = count()

    async def fail_after_batches(_texts: Sequence[str]) -> None:
        if next(numbers) >= batches:
            raise Unavailable("The provider is down.", retry_after=30)

    return fail_after_batches


@pytest.fixture
def embedder() -> ScriptedEmbedder:
    """The embedder of the app, which accepts every text until a test changes its hook."""
    return ScriptedEmbedder()


@pytest.fixture
async def notes(ctx: Context) -> Context:
    """A knowledge base of ten pending notes."""
    await ingest_sources(ctx, NOTES)
    return ctx


async def run_embed(ctx: Context) -> Report:
    return await embed(ctx, make_ample_budget())


async def assert_nothing_is_deferred(ctx: Context) -> None:
    chunks = (await read_documents(ctx, "chunks")).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)


async def test_every_note_gets_a_vector_of_unit_length(notes: Context, app: App) -> None:
    app.embedder = WordEmbedder()
    notes = make_job_context(app)
    assert await count_pending(notes) == 10
    progress: list[int] = []
    report = await embed(notes, Budget(math.inf, progress.append))
    assert report == Report(Counter(embedded=10))
    assert sum(progress) == 10
    for data in (await read_documents(notes, "chunks")).values():
        assert len(data["embedding"]) == DIMENSION
        assert math.hypot(*data["embedding"]) == pytest.approx(1)
        assert data["embedding_model"] == WordEmbedder.model
        assert data["pending"] == STEPS_AFTER_EMBED
        assert data["tries"] == data["parked"] == {}
    assert await count_pending(notes) == 0

    notes = make_job_context(app)
    assert await run_embed(notes) == Report()
    assert notes.meter.documents_read == 1
    assert notes.meter.documents_written == 0


async def test_the_model_of_the_vectors_is_stored(
    notes: Context, embedder: ScriptedEmbedder
) -> None:
    await run_embed(notes)
    space = {"model": "scripted-1", "dimension": 3}
    assert await read_documents(notes, "meta") == {"embedding": space}
    assert embedder.purposes == {Purpose.DOCUMENT}


async def test_another_model_conflicts_and_writes_nothing(notes: Context) -> None:
    space = {"model": "other", "dimension": 7}
    await set_fields(notes, "meta/embedding", space)
    before = await read_documents(notes, "chunks")
    with pytest.raises(Conflict, match=r"embedded with other \(7 dimensions\)"):
        await run_embed(notes)
    assert await read_documents(notes, "chunks") == before
    assert await read_documents(notes, "meta") == {"embedding": space}


async def test_a_refused_text_is_deferred_until_it_is_accepted(
    notes: Context, embedder: ScriptedEmbedder, clock: SettableClock
) -> None:
    embedder.before_batch = refuse_odd
    report = await run_embed(notes)
    chunks = await read_chunks_by_text(notes)
    odd = chunks.pop(ODD_NOTE)
    assert [failure.reason for failure in report.failures] == [REFUSAL]
    assert report.counts == {"embedded": 9}
    assert report.finished
    assert all("embedding" in data for data in chunks.values())
    clock.advance(minutes=2)
    assert odd["pending"] == OTHER_STEPS | {"embed": clock()}
    assert odd["tries"] == {"embed": 1}
    assert odd["parked"] == {}

    clock.advance(minutes=-1)
    assert await run_embed(notes) == Report()
    clock.advance(minutes=1)
    embedder.before_batch = accept_all
    assert (await run_embed(notes)).counts == {"embedded": 1}
    odd = (await read_chunks_by_text(notes))[ODD_NOTE]
    assert odd["pending"] == OTHER_STEPS | {"cluster": clock()}
    assert odd["tries"] == odd["parked"] == {}
    assert "embedding" in odd


async def test_an_edited_dead_letter_is_retried(notes: Context) -> None:
    dead_letter = {
        "tries": {"embed": 5},
        "parked": {"embed": "refused"},
        "pending": {"embed": DELETE_FIELD},
    }
    await set_fields(notes, f"chunks/{ODD_ID}", dead_letter)
    assert await count_pending(notes) == 9

    await ingest_sources(notes, replace(NOTES, title="Renamed"))
    await run_embed(notes)
    odd = (await read_chunks_by_text(notes))[ODD_NOTE]
    assert odd["pending"] == STEPS_AFTER_EMBED
    assert odd["tries"] == odd["parked"] == {}
    assert "embedding" in odd


@pytest.mark.parametrize("batches", [0, 2])
async def test_an_outage_stops_the_run_and_loses_nothing(
    notes: Context, embedder: ScriptedEmbedder, batches: int
) -> None:
    embedder.before_batch = fail_after(batches)
    with pytest.raises(Unavailable, match="The provider is down"):
        await run_embed(notes)
    chunks = (await read_documents(notes, "chunks")).values()
    assert {"embedding" in data for data in chunks} == {False, batches > 0}
    for data in chunks:
        expected = STEPS_AFTER_EMBED if "embedding" in data else OTHER_STEPS | {"embed": NOON}
        assert data["pending"] == expected
    await assert_nothing_is_deferred(notes)

    embedder.before_batch = accept_all
    await run_embed(notes)
    assert await count_pending(notes) == 0


async def test_a_provider_that_refuses_every_text_defers_none(
    notes: Context, embedder: ScriptedEmbedder
) -> None:
    async def refuse_all(_texts: Sequence[str]) -> None:
        raise InvalidInput("No such dimension.")

    embedder.before_batch = refuse_all
    with pytest.raises(InvalidInput, match="No such dimension"):
        await run_embed(notes)
    await assert_nothing_is_deferred(notes)


async def test_a_run_out_of_time_keeps_its_vectors(
    notes: Context, embedder: ScriptedEmbedder
) -> None:
    """Of three batches, of 4, 4 and 2 notes, the last one is not embedded."""
    assert await embed(notes, make_spent_budget()) == Report(finished=False)
    assert await count_pending(notes) == 10
    first_batch_is_stored = asyncio.Event()
    batches: list[Sequence[str]] = []

    async def hold_second_batch(texts: Sequence[str]) -> None:
        batches.append(texts)
        if len(batches) == 2:
            await first_batch_is_stored.wait()

    embedder.before_batch = hold_second_batch
    budget = make_one_step_budget(lambda _: first_batch_is_stored.set())
    assert await embed(notes, budget) == Report(Counter(embedded=8), finished=False)
    assert await count_pending(notes) == 2
    assert (await run_embed(notes)).counts == {"embedded": 2}


@pytest.mark.parametrize(
    "error", [Unavailable("Not now.", retry_after=1), PlatformFault("A vector of nothing.")]
)
async def test_a_text_that_always_fails_blocks_no_other(
    notes: Context, embedder: ScriptedEmbedder, error: CarrelError
) -> None:
    embedder.before_batch = fail_on_odd(error)
    report = await run_embed(notes)
    assert await count_pending(notes) == 1
    assert [failure.reason for failure in report.failures] == [f"{error.code}: {error.message}"]


async def test_a_queue_of_failing_texts_alone_is_not_blocked(
    ctx: Context, embedder: ScriptedEmbedder
) -> None:
    """The four failing texts are a whole batch."""
    sections = tuple(Section(f"{ODD_NOTE} {number}") for number in range(4))
    await ingest_sources(ctx, Source("odd", "Odd", sections=sections))
    embedder.before_batch = fail_on_odd(PlatformFault("A vector of nothing."))
    assert len((await run_embed(ctx)).failures) == 4
