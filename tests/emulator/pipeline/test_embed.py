"""The embed job gives every pending chunk its vector, even if others fail."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.embed.job import JOB, count_pending, embed
from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.errors import CarrelError, Conflict, InvalidInput, PlatformFault, Unavailable
from shared.core.meter import Meter
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from shared.runtime.job import Budget, Report, run_job
from tests.support.fakes.embedder import DIMENSION, WordEmbedder
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.knowledge import chunk_source, set_fields
from tests.support.stored_documents import (
    read_chunks_by_text,
    read_documents,
    read_leased_jobs,
    read_tombstones,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from shared.ai.embedding import Embedder, Vector
    from shared.core.settings import Settings
    from shared.runtime.context import Context

REFUSAL = "VALIDATION_ERROR: The provider refuses this text."

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
NOTES = Source(
    source_id="notes",
    title="Notes",
    sections=tuple(Section(f"Note {number}.") for number in range(10)),
)
OTHERS = dict.fromkeys(("index", "card", "extract"), NOON)
"""The pending steps of a new note other than `embed`."""
EMBEDDED = OTHERS | {"cluster": NOON}
"""The pending steps of a note that has its vector."""
ODD = "Note 3."
ODD_ID = chunk_source(NOTES).chunks[3].chunk_id


@dataclass
class ScriptedEmbedder:
    """An embedder with vectors of three numbers, which runs a function before each batch."""

    before: Callable[[Sequence[str]], Awaitable[None]]
    model: str = "scripted-1"
    dimension: int = 3
    batch_size: int = 4
    purposes: set[Purpose] = field(default_factory=set)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Return the same vector for every text."""
        self.purposes.add(purpose)
        await self.before(texts)
        return [(0.6, 0.8, 0.0)] * len(texts)

    async def aclose(self) -> None:
        """Do nothing."""


async def accept_all(_texts: Sequence[str]) -> None:
    pass


async def refuse_odd(texts: Sequence[str]) -> None:
    for text in texts:
        if ODD in text:
            raise InvalidInput("The provider refuses this text.")


def fail_after(batches: int) -> Callable[[Sequence[str]], Awaitable[None]]:
    left = iter(range(batches))

    async def before(_texts: Sequence[str]) -> None:
        if next(left, None) is None:
            raise Unavailable("The provider is down.", retry_after=30)

    return before


@pytest.fixture
async def notes(ctx: Context) -> Context:
    """A knowledge base of ten pending notes."""
    await Ingestion(ctx.database).save([chunk_source(NOTES)], NOON)
    return ctx


@pytest.fixture
async def open_app(settings: Settings) -> AsyncIterator[Callable[..., App]]:
    """A function that makes apps with another embedder or clock, on the same database."""
    backends: list[App] = []

    def make(embedder: Embedder, moment: datetime = NOON) -> App:
        backends.append(App(settings, embedder=embedder, clock=lambda: moment))
        return backends[-1]

    yield make
    for app in backends:
        await app.aclose()


async def run(app: App, budget: Budget | None = None) -> Report:
    return await embed(app.context(Caller(), Meter()), budget or make_ample_budget())


async def test_vectors_have_unit_length_and_none_is_pending(ctx: Context, notes: Context) -> None:
    report = await embed(notes, make_ample_budget())
    assert report == Report(Counter(embedded=10))
    for data in (await read_documents(ctx, "chunks")).values():
        assert len(data["embedding"]) == DIMENSION
        assert math.hypot(*data["embedding"]) == pytest.approx(1)
        assert data["embedding_model"] == WordEmbedder.model
        assert set(data["pending"]) == set(EMBEDDED)
        assert data["tries"] == {}
        assert data["parked"] == {}
    assert await count_pending(notes) == 0


async def test_database_is_stamped_with_its_model(
    notes: Context, open_app: Callable[..., App]
) -> None:
    model = ScriptedEmbedder(accept_all)
    await run(open_app(model))
    assert await read_documents(notes, "meta") == {
        "embedding": {"model": "scripted-1", "dimension": 3}
    }
    assert model.purposes == {Purpose.DOCUMENT}


async def test_another_model_conflicts_and_writes_nothing(
    notes: Context, open_app: Callable[..., App]
) -> None:
    await set_fields(notes, "meta/embedding", {"model": "other", "dimension": 7})
    before = await read_documents(notes, "chunks")
    with pytest.raises(Conflict, match=r"embedded with other \(7 dimensions\)"):
        await run(open_app(ScriptedEmbedder(accept_all)))
    assert await read_documents(notes, "chunks") == before
    assert await read_documents(notes, "meta") == {"embedding": {"model": "other", "dimension": 7}}


async def test_second_run_has_nothing_to_do(notes: Context, app: App) -> None:
    await embed(notes, make_ample_budget())
    meter = Meter()
    report = await embed(app.context(Caller(), meter), make_ample_budget())
    assert report == Report()
    assert meter.documents_read == 1
    assert meter.documents_written == 0


async def test_note_edited_during_the_run_is_embedded_again(
    notes: Context, open_app: Callable[..., App]
) -> None:
    edit: dict[str, object] = {"content": "Note 3, edited."}

    async def editing(texts: Sequence[str]) -> None:
        if f"Notes {ODD}" in texts:
            await set_fields(notes, f"chunks/{ODD_ID}", edit)

    report = await run(open_app(ScriptedEmbedder(editing)))
    assert report.counts == {"embedded": 10}
    assert (await read_chunks_by_text(notes))["Note 3, edited."]["pending"] == EMBEDDED


async def test_note_deleted_during_the_run_stays_deleted(
    notes: Context, open_app: Callable[..., App]
) -> None:
    async def deleting(texts: Sequence[str]) -> None:
        if f"Notes {ODD}" in texts:
            await Ingestion(notes.database).save([chunk_source(replace(NOTES, sections=()))], NOON)

    report = await run(open_app(ScriptedEmbedder(deleting)))
    assert report.failures == []
    left = (await read_tombstones(notes)).values()
    assert ["embedding" in data for data in left] == [False] * 10
    assert await count_pending(notes) == 0


async def test_refused_text_is_deferred_and_blocks_no_other(
    notes: Context, open_app: Callable[..., App]
) -> None:
    report = await run(open_app(ScriptedEmbedder(refuse_odd)))
    chunks = await read_chunks_by_text(notes)
    odd = chunks.pop(ODD)
    assert [failure.reason for failure in report.failures] == [REFUSAL]
    assert report.counts == {"embedded": 9}
    assert report.finished
    assert all("embedding" in data for data in chunks.values())
    assert odd["pending"] == OTHERS | {"embed": NOON + timedelta(minutes=2)}
    assert odd["tries"] == {"embed": 1}
    assert odd["parked"] == {}


async def test_deferred_text_is_not_sent_before_its_time(
    notes: Context, open_app: Callable[..., App]
) -> None:
    await run(open_app(ScriptedEmbedder(refuse_odd)))
    soon = NOON + timedelta(minutes=1)
    assert await run(open_app(ScriptedEmbedder(refuse_odd), soon)) == Report()
    assert await count_pending(notes) == 1


async def test_text_accepted_later_gets_its_vector(
    notes: Context, open_app: Callable[..., App]
) -> None:
    await run(open_app(ScriptedEmbedder(refuse_odd)))
    await run(open_app(ScriptedEmbedder(accept_all), NOON + timedelta(minutes=2)))
    odd = (await read_chunks_by_text(notes))[ODD]
    assert set(odd["pending"]) == set(EMBEDDED)
    assert odd["tries"] == {}
    assert odd["parked"] == {}
    assert "embedding" in odd


async def test_text_refused_five_times_is_dead_lettered(
    notes: Context, open_app: Callable[..., App]
) -> None:
    moment = NOON
    for _ in range(5):
        report = await run(open_app(ScriptedEmbedder(refuse_odd), moment))
        assert len(report.failures) == 1
        moment += timedelta(hours=1)
    odd = (await read_chunks_by_text(notes))[ODD]
    assert odd["pending"] == OTHERS
    assert odd["parked"] == {"embed": REFUSAL}
    assert await run(open_app(ScriptedEmbedder(refuse_odd), moment)) == Report()


async def test_edited_dead_letter_is_tried_again(
    notes: Context, open_app: Callable[..., App]
) -> None:
    parked: dict[str, object] = {"tries": {"embed": 5}, "parked": {"embed": "refused"}}
    await set_fields(notes, f"chunks/{ODD_ID}", parked | {"pending": {"embed": DELETE_FIELD}})
    assert await count_pending(notes) == 9
    await Ingestion(notes.database).save([chunk_source(replace(NOTES, title="Renamed"))], NOON)
    await run(open_app(ScriptedEmbedder(accept_all)))
    odd = (await read_chunks_by_text(notes))[ODD]
    assert odd["pending"] == EMBEDDED
    assert odd["tries"] == {}
    assert odd["parked"] == {}
    assert "embedding" in odd


async def test_outage_stops_the_run_and_loses_nothing(
    notes: Context, open_app: Callable[..., App]
) -> None:
    with pytest.raises(Unavailable, match="The provider is down"):
        await run(open_app(ScriptedEmbedder(fail_after(2))))
    chunks = (await read_documents(notes, "chunks")).values()
    assert {"embedding" in data for data in chunks} == {True, False}
    for data in chunks:
        waits = EMBEDDED if "embedding" in data else OTHERS | {"embed": NOON}
        assert data["pending"] == waits
        assert data["tries"] == {}
    await run(open_app(ScriptedEmbedder(accept_all)))
    assert await count_pending(notes) == 0


async def test_stopped_run_releases_its_lease(notes: Context, open_app: Callable[..., App]) -> None:
    with pytest.raises(Unavailable, match="The provider is down"):
        await run_job(JOB, open_app(ScriptedEmbedder(fail_after(2))))
    assert await read_leased_jobs(notes) == set()


async def test_run_without_its_lease_stores_no_vectors(
    notes: Context, open_app: Callable[..., App]
) -> None:
    hours_later = open_app(ScriptedEmbedder(accept_all), NOON + timedelta(hours=1))
    other = hours_later.context(Caller(), Meter()).database

    async def overtaken(_texts: Sequence[str]) -> None:
        await Leases(other).acquire("embed", 30, hours_later.clock)

    with pytest.raises(LeaseLost):
        await run_job(JOB, open_app(ScriptedEmbedder(overtaken, batch_size=20)))
    assert await count_pending(notes) == 10
    assert await read_leased_jobs(notes) == {"embed"}


async def test_run_without_time_embeds_nothing(
    notes: Context, open_app: Callable[..., App]
) -> None:
    report = await run(open_app(ScriptedEmbedder(accept_all)), make_spent_budget())
    assert report.counts == {}
    assert not report.finished
    assert await count_pending(notes) == 10


async def test_run_out_of_time_keeps_its_vectors(
    notes: Context, open_app: Callable[..., App]
) -> None:
    stored = asyncio.Event()

    async def after_the_first(texts: Sequence[str]) -> None:
        if "Notes Note 0." not in texts and len(texts) == 4:
            await stored.wait()

    report = await run(
        open_app(ScriptedEmbedder(after_the_first)), make_one_step_budget(lambda _: stored.set())
    )
    assert report.counts == {"embedded": 8}
    assert not report.finished
    assert await count_pending(notes) == 2
    assert (await run(open_app(ScriptedEmbedder(accept_all)))).counts == {"embedded": 2}


async def test_progress_ends_at_the_total(notes: Context, open_app: Callable[..., App]) -> None:
    done: list[int] = []
    announce_migration = await count_pending(notes)
    await run(
        open_app(ScriptedEmbedder(accept_all)), Budget(make_ample_budget().deadline, done.append)
    )
    assert announce_migration == sum(done) == 10


def fail_on_odd(error: CarrelError) -> Callable[[Sequence[str]], Awaitable[None]]:
    """Return an embedder that fails for the text "odd", and for every batch that contains it."""

    async def before(texts: Sequence[str]) -> None:
        if any(ODD in text for text in texts):
            raise error

    return before


@pytest.mark.parametrize(
    "error", [Unavailable("Not now.", retry_after=1), PlatformFault("A vector of nothing.")]
)
async def test_text_that_always_fails_blocks_no_other(
    notes: Context, open_app: Callable[..., App], error: CarrelError
) -> None:
    report = await run(open_app(ScriptedEmbedder(fail_on_odd(error))))
    assert await count_pending(notes) == 1
    assert [failure.reason for failure in report.failures] == [f"{error.code}: {error.message}"]


async def test_outage_counts_no_attempt(notes: Context, open_app: Callable[..., App]) -> None:
    for _ in range(6):
        with pytest.raises(Unavailable, match="The provider is down"):
            await run(open_app(ScriptedEmbedder(fail_after(0))))
    chunks = (await read_documents(notes, "chunks")).values()
    assert all((data["tries"], data["parked"]) == ({}, {}) for data in chunks)


async def test_provider_that_refuses_everything_defers_no_text(
    notes: Context, open_app: Callable[..., App]
) -> None:
    async def refusing(_texts: Sequence[str]) -> None:
        raise InvalidInput("No such dimension.")

    with pytest.raises(InvalidInput, match="No such dimension"):
        await run(open_app(ScriptedEmbedder(refusing)))
    chunks = (await read_documents(notes, "chunks")).values()
    assert all((data["tries"], data["parked"]) == ({}, {}) for data in chunks)


async def test_failing_texts_alone_do_not_block_the_queue(
    ctx: Context, open_app: Callable[..., App]
) -> None:
    odd = tuple(Section(f"{ODD} {number}") for number in range(4))
    await Ingestion(ctx.database).save([chunk_source(Source("odd", "Odd", sections=odd))], NOON)
    report = await run(
        open_app(ScriptedEmbedder(fail_on_odd(PlatformFault("A vector of nothing."))))
    )
    assert len(report.failures) == 4
