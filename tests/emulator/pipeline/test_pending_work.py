"""A step of a job over pending chunks defers the failing ones, and ends if all of them fail.

If a chunk fails, the step is probed with an input that must work, to find out which is the case.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.knowledge.queue import ChunkQueue, PendingChunk, StepResult
from shared.knowledge.source import Section, Source
from shared.pipeline.worker import StepWork, process_pending
from shared.runtime.context import Context
from shared.runtime.job import Budget, Report
from tests.support.clock import NOON, SettableClock
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks

ODD = "Note 3."
"""The note that fails in some tests."""


@dataclass
class MarkingStep:
    """A step that marks chunks.

    Attributes:
        errors: The errors that it raises for certain chunks, by their texts.
        next_errors: The errors of the next attempts, whatever the chunk.
        probe_error: The error that the probe raises.
        attempts: The texts of the chunks that it was given, in order.
        probe_count: The number of probes.
    """

    errors: dict[str, Exception] = field(default_factory=dict)
    next_errors: list[Exception] = field(default_factory=list)
    probe_error: Exception | None = None
    attempts: list[str] = field(default_factory=list)
    probe_count: int = 0

    async def mark(self, chunk: PendingChunk) -> StepResult:
        """Mark a chunk, or fail."""
        self.attempts.append(chunk.content)
        if self.next_errors:
            raise self.next_errors.pop(0)
        if chunk.content in self.errors:
            raise self.errors[chunk.content]
        return StepResult(chunk, {"marked": True})

    async def probe(self) -> None:
        """Report whether the step works at all."""
        self.probe_count += 1
        if self.probe_error:
            raise self.probe_error


@pytest.fixture
async def notes(ctx: Context) -> Context:
    """A knowledge base of ten pending notes."""
    sections = tuple(Section(f"Note {number}.") for number in range(10))
    await ingest_sources(ctx, Source("notes", "Notes", sections=sections))
    return ctx


async def run_step(ctx: Context, step: MarkingStep, budget: Budget | None = None) -> Report:
    """Process the pending chunks in batches of four."""
    report = Report()
    work = StepWork("card", "card", step.mark, step.probe, batch_size=4)
    await process_pending(work, ctx, budget or make_ample_budget(), report)
    return report


async def count_marked(ctx: Context) -> int:
    return sum("marked" in data for data in (await read_chunks(ctx)).values())


async def test_every_pending_chunk_is_processed(notes: Context) -> None:
    progress: list[int] = []
    step = MarkingStep()
    report = await run_step(notes, step, Budget(make_ample_budget().deadline, progress.append))
    assert report == Report(Counter(card=10))
    assert await count_marked(notes) == 10
    assert sum(progress) == 10
    assert step.probe_count == 0
    assert await ChunkQueue(notes.database).count_pending("card") == 0


async def test_a_failing_chunk_is_deferred_and_blocks_no_other(
    notes: Context, clock: SettableClock
) -> None:
    step = MarkingStep({ODD: InvalidInput("Not this one.")})

    report = await run_step(notes, step)

    assert report.counts == {"card": 9}
    [failure] = report.failures
    assert failure.reason == "VALIDATION_ERROR: Not this one."
    assert step.probe_count == 1
    odd = (await read_chunks(notes))[failure.name]
    assert odd["content"] == ODD
    assert odd["tries"] == {"card": 1}
    assert odd["pending"]["card"] == NOON + timedelta(minutes=2)
    clock.advance(minutes=1)
    assert await run_step(notes, MarkingStep()) == Report()
    clock.advance(minutes=1)
    assert (await run_step(notes, MarkingStep())).counts == {"card": 1}


async def test_an_unexpected_error_blocks_no_other_chunk(
    notes: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such an error may contain a text of the user, which must not be logged."""
    report = await run_step(notes, MarkingStep({ODD: ValueError("what a reader wrote")}))
    assert [failure.reason for failure in report.failures] == ["INTERNAL_ERROR: ValueError"]
    assert await count_marked(notes) == 9
    assert "what a reader wrote" not in capsys.readouterr().err


@pytest.mark.parametrize("failure_count", [1, 3, 4])
async def test_an_error_common_to_all_chunks_ends_the_run(
    notes: Context, failure_count: int
) -> None:
    """The probe fails, too. The chunks of the first batch that did not fail are marked."""
    errors: dict[str, Exception] = {
        f"Note {number}.": PlatformFault("No.") for number in range(failure_count)
    }
    with pytest.raises(Unavailable, match="It is down"):
        await run_step(notes, MarkingStep(errors, probe_error=Unavailable("It is down.")))
    chunks = (await read_chunks(notes)).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)
    assert 4 - failure_count <= await count_marked(notes) < 10


async def test_a_short_outage_defers_no_chunk(notes: Context) -> None:
    step = MarkingStep(next_errors=[Unavailable("It was down.") for _ in range(3)])
    report = await run_step(notes, step)
    assert report == Report(Counter(card=10))
    assert len(step.attempts) == 10 + 3


async def test_a_chunk_that_is_always_unavailable_is_deferred(notes: Context) -> None:
    step = MarkingStep({ODD: Unavailable("Too slow.")})
    report = await run_step(notes, step)
    assert [failure.reason for failure in report.failures] == ["UNAVAILABLE: Too slow."]
    assert step.attempts.count(ODD) == 2
    assert step.probe_count == 2


async def test_a_run_out_of_time_keeps_its_results(notes: Context) -> None:
    step = MarkingStep()
    assert await run_step(notes, step, make_spent_budget()) == Report(finished=False)
    assert step.attempts == []
    report = await run_step(notes, step, make_one_step_budget())
    assert report == Report(Counter(card=4), finished=False)
    assert await count_marked(notes) == 4
