"""The embed job gives every pending chunk its vector, even if other chunks fail.

A chunk whose text fails is tried later; after five tries it is a dead letter, and is left alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.embed.job import JOB, count_pending, embed
from shared.ai.embedding import Embedder, Purpose, Vector
from shared.core.caller import Caller
from shared.core.errors import CarrelError, Conflict, InvalidInput, PlatformFault, Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report, run_job
from tests.support.fakes.embedder import DIMENSION, WordEmbedder
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import chunk_source, ingest_sources, set_fields
from tests.support.stored_documents import (
    read_chunks_by_text,
    read_documents,
    read_leased_jobs,
    read_tombstones,
)

BatchHook = Callable[[Sequence[str]], Awaitable[None]]
OpenApp = Callable[..., App]


REFUSAL = "VALIDATION_ERROR: The provider refuses this text."
"""The reason for which `refuse_odd` fails, as it is stored and reported."""
NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
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


@dataclass
class ScriptedEmbedder:
    """An embedder with vectors of three numbers.

    Attributes:
        before_batch: Is called with each batch of texts before it is embedded, and may raise.
    """

    before_batch: BatchHook
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


async def accept_all(_texts: Sequence[str]) -> None:
    """Embed every text."""


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
async def notes(ctx: Context) -> Context:
    """A knowledge base of ten pending notes."""
    await ingest_sources(ctx, NOTES, now=NOON)
    return ctx


@pytest.fixture
async def open_app(settings: Settings) -> AsyncIterator[OpenApp]:
    """A function that makes an app with this embedder and time, on the same database."""
    apps: list[App] = []

    def make_app(embedder: Embedder, moment: datetime = NOON) -> App:
        apps.append(App(settings, embedder=embedder, clock=lambda: moment))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


async def run_embed(app: App, budget: Budget | None = None) -> Report:
    """Run the job, by default until nothing is pending."""
    return await embed(make_job_context(app), budget or make_ample_budget())


async def test_every_note_gets_a_vector_of_unit_length(ctx: Context, notes: Context) -> None:
    report = await embed(notes, make_ample_budget())
    assert report == Report(Counter(embedded=10))
    for data in (await read_documents(ctx, "chunks")).values():
        assert len(data["embedding"]) == DIMENSION
        assert math.hypot(*data["embedding"]) == pytest.approx(1)
        assert data["embedding_model"] == WordEmbedder.model
        assert set(data["pending"]) == set(STEPS_AFTER_EMBED)
        assert data["tries"] == {}
        assert data["parked"] == {}
    assert await count_pending(notes) == 0


async def test_the_model_of_the_vectors_is_stored(notes: Context, open_app: OpenApp) -> None:
    model = ScriptedEmbedder(accept_all)
    await run_embed(open_app(model))
    space = {"model": "scripted-1", "dimension": 3}
    assert await read_documents(notes, "meta") == {"embedding": space}
    assert model.purposes == {Purpose.DOCUMENT}


async def test_another_model_conflicts_and_writes_nothing(
    notes: Context, open_app: OpenApp
) -> None:
    space = {"model": "other", "dimension": 7}
    await set_fields(notes, "meta/embedding", space)
    before = await read_documents(notes, "chunks")

    with pytest.raises(Conflict, match=r"embedded with other \(7 dimensions\)"):
        await run_embed(open_app(ScriptedEmbedder(accept_all)))

    assert await read_documents(notes, "chunks") == before
    assert await read_documents(notes, "meta") == {"embedding": space}


async def test_a_second_run_has_nothing_to_do(notes: Context, app: App) -> None:
    await embed(notes, make_ample_budget())
    meter = Meter()
    report = await embed(app.context(Caller(), meter), make_ample_budget())
    assert report == Report()
    assert meter.documents_read == 1
    assert meter.documents_written == 0


async def test_a_note_edited_during_the_run_is_embedded_again(
    notes: Context, open_app: OpenApp
) -> None:
    async def edit_odd_note(texts: Sequence[str]) -> None:
        if f"Notes {ODD_NOTE}" in texts:
            await set_fields(notes, f"chunks/{ODD_ID}", {"content": "Note 3, edited."})

    report = await run_embed(open_app(ScriptedEmbedder(edit_odd_note)))

    assert report.counts == {"embedded": 10}
    assert (await read_chunks_by_text(notes))["Note 3, edited."]["pending"] == STEPS_AFTER_EMBED


async def test_a_note_deleted_during_the_run_stays_deleted(
    notes: Context, open_app: OpenApp
) -> None:
    async def delete_all_notes(texts: Sequence[str]) -> None:
        if f"Notes {ODD_NOTE}" in texts:
            await ingest_sources(notes, replace(NOTES, sections=()), now=NOON)

    report = await run_embed(open_app(ScriptedEmbedder(delete_all_notes)))

    assert report.failures == []
    tombstones = (await read_tombstones(notes)).values()
    assert ["embedding" in data for data in tombstones] == [False] * 10
    assert await count_pending(notes) == 0


async def test_a_refused_text_is_deferred_and_blocks_no_other(
    notes: Context, open_app: OpenApp
) -> None:
    report = await run_embed(open_app(ScriptedEmbedder(refuse_odd)))

    chunks = await read_chunks_by_text(notes)
    odd = chunks.pop(ODD_NOTE)
    assert [failure.reason for failure in report.failures] == [REFUSAL]
    assert report.counts == {"embedded": 9}
    assert report.finished
    assert all("embedding" in data for data in chunks.values())
    assert odd["pending"] == OTHER_STEPS | {"embed": NOON + timedelta(minutes=2)}
    assert odd["tries"] == {"embed": 1}
    assert odd["parked"] == {}


async def test_a_deferred_text_is_not_sent_before_its_time(
    notes: Context, open_app: OpenApp
) -> None:
    await run_embed(open_app(ScriptedEmbedder(refuse_odd)))
    soon = NOON + timedelta(minutes=1)
    assert await run_embed(open_app(ScriptedEmbedder(refuse_odd), soon)) == Report()
    assert await count_pending(notes) == 1


async def test_a_text_accepted_later_gets_its_vector(notes: Context, open_app: OpenApp) -> None:
    await run_embed(open_app(ScriptedEmbedder(refuse_odd)))
    await run_embed(open_app(ScriptedEmbedder(accept_all), NOON + timedelta(minutes=2)))
    odd = (await read_chunks_by_text(notes))[ODD_NOTE]
    assert set(odd["pending"]) == set(STEPS_AFTER_EMBED)
    assert odd["tries"] == {}
    assert odd["parked"] == {}
    assert "embedding" in odd


async def test_a_text_refused_five_times_is_dead_lettered(
    notes: Context, open_app: OpenApp
) -> None:
    moment = NOON
    for _ in range(5):
        report = await run_embed(open_app(ScriptedEmbedder(refuse_odd), moment))
        assert len(report.failures) == 1
        moment += timedelta(hours=1)
    odd = (await read_chunks_by_text(notes))[ODD_NOTE]
    assert odd["pending"] == OTHER_STEPS
    assert odd["parked"] == {"embed": REFUSAL}
    assert await run_embed(open_app(ScriptedEmbedder(refuse_odd), moment)) == Report()


async def test_an_edited_dead_letter_is_retried(notes: Context, open_app: OpenApp) -> None:
    dead_letter = {
        "tries": {"embed": 5},
        "parked": {"embed": "refused"},
        "pending": {"embed": DELETE_FIELD},
    }
    await set_fields(notes, f"chunks/{ODD_ID}", dead_letter)
    assert await count_pending(notes) == 9

    await ingest_sources(notes, replace(NOTES, title="Renamed"), now=NOON)
    await run_embed(open_app(ScriptedEmbedder(accept_all)))

    odd = (await read_chunks_by_text(notes))[ODD_NOTE]
    assert odd["pending"] == STEPS_AFTER_EMBED
    assert odd["tries"] == {}
    assert odd["parked"] == {}
    assert "embedding" in odd


async def test_an_outage_stops_the_run_and_loses_nothing(notes: Context, open_app: OpenApp) -> None:
    with pytest.raises(Unavailable, match="The provider is down"):
        await run_embed(open_app(ScriptedEmbedder(fail_after(2))))

    chunks = (await read_documents(notes, "chunks")).values()
    assert {"embedding" in data for data in chunks} == {True, False}
    for data in chunks:
        expected = STEPS_AFTER_EMBED if "embedding" in data else OTHER_STEPS | {"embed": NOON}
        assert data["pending"] == expected
        assert data["tries"] == {}

    await run_embed(open_app(ScriptedEmbedder(accept_all)))
    assert await count_pending(notes) == 0


async def test_a_stopped_run_releases_its_lease(notes: Context, open_app: OpenApp) -> None:
    with pytest.raises(Unavailable, match="The provider is down"):
        await run_job(JOB, open_app(ScriptedEmbedder(fail_after(2))))
    assert await read_leased_jobs(notes) == set()


async def test_a_run_that_lost_its_lease_stores_no_vectors(
    notes: Context, open_app: OpenApp
) -> None:
    later_app = open_app(ScriptedEmbedder(accept_all), NOON + timedelta(hours=1))

    async def take_lease(_texts: Sequence[str]) -> None:
        leases = Leases(make_job_context(later_app).database)
        await leases.acquire("embed", 30, later_app.clock)

    with pytest.raises(LeaseLost):
        await run_job(JOB, open_app(ScriptedEmbedder(take_lease, batch_size=20)))

    assert await count_pending(notes) == 10
    assert await read_leased_jobs(notes) == {"embed"}


async def test_a_run_without_time_embeds_nothing(notes: Context, open_app: OpenApp) -> None:
    report = await run_embed(open_app(ScriptedEmbedder(accept_all)), make_spent_budget())
    assert report.counts == {}
    assert not report.finished
    assert await count_pending(notes) == 10


async def test_a_run_out_of_time_keeps_its_vectors(notes: Context, open_app: OpenApp) -> None:
    """Of three batches, of 4, 4 and 2 notes, the last one is not embedded."""
    first_batch_is_stored = asyncio.Event()

    async def hold_second_batch(texts: Sequence[str]) -> None:
        if "Notes Note 0." not in texts and len(texts) == 4:
            await first_batch_is_stored.wait()

    budget = make_one_step_budget(lambda _: first_batch_is_stored.set())
    report = await run_embed(open_app(ScriptedEmbedder(hold_second_batch)), budget)

    assert report.counts == {"embedded": 8}
    assert not report.finished
    assert await count_pending(notes) == 2
    assert (await run_embed(open_app(ScriptedEmbedder(accept_all)))).counts == {"embedded": 2}


async def test_the_reported_progress_ends_at_the_total(notes: Context, open_app: OpenApp) -> None:
    batch_sizes: list[int] = []
    total = await count_pending(notes)
    budget = Budget(make_ample_budget().deadline, batch_sizes.append)
    await run_embed(open_app(ScriptedEmbedder(accept_all)), budget)
    assert total == sum(batch_sizes) == 10


@pytest.mark.parametrize(
    "error", [Unavailable("Not now.", retry_after=1), PlatformFault("A vector of nothing.")]
)
async def test_a_text_that_always_fails_blocks_no_other(
    notes: Context, open_app: OpenApp, error: CarrelError
) -> None:
    report = await run_embed(open_app(ScriptedEmbedder(fail_on_odd(error))))
    assert await count_pending(notes) == 1
    assert [failure.reason for failure in report.failures] == [f"{error.code}: {error.message}"]


async def test_an_outage_does_not_count_as_a_try(notes: Context, open_app: OpenApp) -> None:
    for _ in range(6):
        with pytest.raises(Unavailable, match="The provider is down"):
            await run_embed(open_app(ScriptedEmbedder(fail_after(0))))
    chunks = (await read_documents(notes, "chunks")).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)


async def test_a_provider_that_refuses_every_text_defers_none(
    notes: Context, open_app: OpenApp
) -> None:
    async def refuse_all(_texts: Sequence[str]) -> None:
        raise InvalidInput("No such dimension.")

    with pytest.raises(InvalidInput, match="No such dimension"):
        await run_embed(open_app(ScriptedEmbedder(refuse_all)))
    chunks = (await read_documents(notes, "chunks")).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)


async def test_a_queue_of_failing_texts_alone_is_not_blocked(
    ctx: Context, open_app: OpenApp
) -> None:
    """The four failing texts are a whole batch."""
    sections = tuple(Section(f"{ODD_NOTE} {number}") for number in range(4))
    source = Source("odd", "Odd", sections=sections)
    await ingest_sources(ctx, source, now=NOON)
    embedder = ScriptedEmbedder(fail_on_odd(PlatformFault("A vector of nothing.")))
    report = await run_embed(open_app(embedder))
    assert len(report.failures) == 4
