"""Pending chunks: failing ones are deferred; an error common to all chunks ends the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.core.deferral import MAX_TRIES
from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.core.meter import Meter
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue, PendingChunk, StepResult
from shared.knowledge.source import Section, Source
from shared.pipeline.worker import StepWork, process_pending
from shared.runtime.context import App
from shared.runtime.job import Budget, Failure, Report
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.knowledge import chunk_source
from tests.support.stored_documents import read_chunks, read_chunks_by_text

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
ODD = "Note 3."


@dataclass
class Maker:
    """Marks chunks, unless something is wrong with one or with all.

    Attributes:
        wrong: What is raised for a chunk that says so.
        passing: Errors of the next attempts, whatever the chunk.
        down: What the probe raises.
        made: What was worked on, in order.
        probes: How often it was probed.
    """

    wrong: dict[str, Exception] = field(default_factory=dict)
    passing: list[Exception] = field(default_factory=list)
    down: Exception | None = None
    made: list[str] = field(default_factory=list)
    probes: int = 0

    async def make(self, chunk: PendingChunk) -> StepResult:
        self.made.append(chunk.content)
        if self.passing:
            raise self.passing.pop(0)
        if chunk.content in self.wrong:
            raise self.wrong[chunk.content]
        return StepResult(chunk, {"marked": True})

    async def probe(self) -> None:
        self.probes += 1
        if self.down:
            raise self.down


def make_context(settings: Settings, moment: datetime = NOON) -> Context:
    return App(settings, clock=lambda: moment).context(Caller(), Meter())


@pytest.fixture
async def notes(settings: Settings) -> Context:
    """Ten pending notes."""
    ctx = make_context(settings)
    sections = tuple(Section(f"Note {number}.") for number in range(10))
    source = chunk_source(Source("notes", "Notes", sections=sections))
    await Ingestion(ctx.database).save([source], NOON)
    return ctx


async def run(ctx: Context, maker: Maker, budget: Budget | None = None) -> Report:
    report = Report()
    work = StepWork("card", "card", maker.make, maker.probe, batch_size=4)
    await process_pending(work, ctx, budget or make_ample_budget(), report)
    return report


async def count_marked(ctx: Context) -> int:
    return sum("marked" in data for data in (await read_chunks(ctx)).values())


async def test_every_pending_chunk_is_processed(notes: Context) -> None:
    done: list[int] = []
    maker = Maker()
    report = await run(notes, maker, Budget(make_ample_budget().deadline, done.append))
    assert report == Report(Counter(card=10))
    assert await count_marked(notes) == 10
    assert sum(done) == 10
    assert maker.probes == 0
    assert await ChunkQueue(notes.database).count_pending("card") == 0


async def test_failing_chunk_is_deferred_and_blocks_no_other(
    notes: Context, settings: Settings
) -> None:
    maker = Maker({ODD: InvalidInput("Not this one.")})
    report = await run(notes, maker)
    ((name, odd),) = [(n, d) for n, d in (await read_chunks(notes)).items() if d["content"] == ODD]
    assert [Failure(name, "VALIDATION_ERROR: Not this one.")] == report.failures
    assert report.counts == {"card": 9}
    assert maker.probes == 1
    assert {"card": 1} == odd["tries"]
    assert NOON + timedelta(minutes=2) == odd["pending"]["card"]
    assert await run(make_context(settings, NOON + timedelta(minutes=1)), Maker()) == Report()
    assert (await run(make_context(settings, NOON + timedelta(minutes=2)), Maker())).counts == {
        "card": 1
    }


async def test_unexpected_error_blocks_no_other_chunk(
    notes: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await run(notes, Maker({ODD: ValueError("what a reader wrote")}))
    assert [failure.reason for failure in report.failures] == ["INTERNAL_ERROR: ValueError"]
    assert await count_marked(notes) == 9
    assert "what a reader wrote" not in capsys.readouterr().err


async def test_fifth_failure_dead_letters_the_chunk(notes: Context, settings: Settings) -> None:
    maker = Maker({ODD: PlatformFault("It cannot be read.")})
    for number in range(MAX_TRIES):
        assert (
            len((await run(make_context(settings, NOON + timedelta(hours=number)), maker)).failures)
            == 1
        )
    odd = (await read_chunks_by_text(notes))[ODD]
    assert odd["parked"] == {"card": "INTERNAL_ERROR: It cannot be read."}
    assert await run(make_context(settings, NOON + timedelta(days=9)), maker) == Report()


@pytest.mark.parametrize("failures", [1, 3, 4])
async def test_error_common_to_all_chunks_ends_the_run(notes: Context, failures: int) -> None:
    wrong: dict[str, Exception] = {f"Note {n}.": PlatformFault("No.") for n in range(failures)}
    with pytest.raises(Unavailable, match="It is down"):
        await run(notes, Maker(wrong, down=Unavailable("It is down.")))
    stored = (await read_chunks(notes)).values()
    assert all((data["tries"], data["parked"]) == ({}, {}) for data in stored)
    assert 4 - failures <= await count_marked(notes) < 10


async def test_short_outage_defers_no_chunk(notes: Context) -> None:
    maker = Maker(passing=[Unavailable("It was down.") for _ in range(3)])
    report = await run(notes, maker)
    assert report == Report(Counter(card=10))
    assert len(maker.made) == 13


async def test_chunk_that_is_always_unavailable_is_deferred(notes: Context) -> None:
    maker = Maker({ODD: Unavailable("Too slow.")})
    report = await run(notes, maker)
    assert [failure.reason for failure in report.failures] == ["UNAVAILABLE: Too slow."]
    assert maker.made.count(ODD) == 2
    assert maker.probes == 2


async def test_run_without_time_does_nothing(notes: Context) -> None:
    maker = Maker()
    report = await run(notes, maker, make_spent_budget())
    assert not report.finished
    assert maker.made == []
    assert report.counts == {}


async def test_run_out_of_time_keeps_its_results(notes: Context) -> None:
    report = await run(notes, Maker(), make_one_step_budget())
    assert not report.finished
    assert report.counts["card"] == 4
    assert await count_marked(notes) == 4
