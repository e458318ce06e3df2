"""A stored chunk has pending steps, such as `embed` and `index`, each with the time when it is due.

The job of a step loads the due chunks, and stores its results, which ends the step. A chunk that
was edited in between stays pending.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.ai.vector_halves import WeightedVector
from shared.core.errors import PlatformFault
from shared.core.meter import Meter
from shared.firestore.database import MAX_COMMIT_BYTES
from shared.firestore.documents import Reference
from shared.firestore.writes import Set, Write
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.queue import ChunkQueue, DeadLetter, PendingChunk, StepResult
from shared.pipeline.worker import StepWork, process_pending
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.embedder import DIMENSION
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import (
    BAKING,
    SAILING,
    ingest_sources,
    set_fields,
    store_sources,
)
from tests.support.stored_documents import read_documents

OTHER_STEPS = ("index", "card", "extract")
"""The steps of a new chunk other than `embed`."""
UNIT_VECTOR = (1.0,) + (0.0,) * (DIMENSION - 1)


async def store_baking_chunks(ctx: Context) -> list[PendingChunk]:
    """Store three chunks with a pending `embed` step; return them in the order of their ids."""
    await ingest_sources(ctx, BAKING, now=NOON)
    return await ChunkQueue(ctx.database).load_pending("embed", NOON, 10)


async def store_unit_vectors(ctx: Context, *chunks: PendingChunk) -> int:
    """Store the same vector for each chunk; return the number of chunks that got it."""
    vectors = [UNIT_VECTOR] * len(chunks)
    return await ChunkQueue(ctx.database).store_vectors(chunks, vectors, "model-1", ctx.clock())


async def defer_embed(ctx: Context, chunk: PendingChunk) -> None:
    """Defer the step `embed` of a chunk at noon."""
    await ChunkQueue(ctx.database).defer("embed", chunk, "too odd", NOON)


async def test_a_chunk_is_read_as_stored(ctx: Context) -> None:
    chunk, *_ = await store_sources(ctx, BAKING)
    stored = await Chunks(ctx.database).get(chunk.chunk_id)
    assert stored is not None
    assert stored.chunk == chunk
    assert stored.vector
    assert len(stored.vector.values) == DIMENSION


async def test_longest_pending_chunks_come_first_up_to_the_limit(
    ctx: Context, meter: Meter
) -> None:
    await ingest_sources(ctx, SAILING, now=NOON)
    await ingest_sources(ctx, BAKING, now=NOON - timedelta(days=1))
    reads_before = meter.documents_read
    queue = ChunkQueue(ctx.database)
    pending = await queue.load_pending("embed", NOON, 4)
    assert [chunk.source_id for chunk in pending] == ["baking", "baking", "baking", "sailing"]
    assert meter.documents_read - reads_before == 4
    assert len(await queue.load_pending("embed", NOON - timedelta(seconds=1), 9)) == 3
    assert await queue.count_pending("embed") == 5
    assert await queue.count_pending("cluster") == 0


async def test_only_an_edited_chunk_stays_pending(ctx: Context) -> None:
    first, edited, last = await store_baking_chunks(ctx)
    change = {"content": "New.", "content_hash": "new"}
    await set_fields(ctx, f"chunks/{edited.chunk_id}", change)

    assert await store_unit_vectors(ctx, first, edited, last) == 2

    stored = await read_documents(ctx, "chunks")
    for chunk in (first, last):
        assert set(stored[chunk.chunk_id]["pending"]) == {*OTHER_STEPS, "cluster"}
        assert "embedding" in stored[chunk.chunk_id]
    assert set(stored[edited.chunk_id]["pending"]) == {*OTHER_STEPS, "embed"}
    assert "embedding" not in stored[edited.chunk_id]


async def test_a_chunk_purged_after_its_read_stays_deleted(ctx: Context) -> None:
    purged, *others = await store_baking_chunks(ctx)
    await ctx.database.connection.client.collection("chunks").document(purged.chunk_id).delete()
    assert await store_unit_vectors(ctx, purged, *others) == 2
    assert set(await read_documents(ctx, "chunks")) == {chunk.chunk_id for chunk in others}


async def test_a_chunk_deleted_after_its_read_gets_no_vector(ctx: Context) -> None:
    chunks = await store_baking_chunks(ctx)
    await ingest_sources(ctx, replace(BAKING, sections=()), now=NOON)
    assert await store_unit_vectors(ctx, *chunks) == 0
    await defer_embed(ctx, chunks[0])
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0
    assert await Chunks(ctx.database).find_nearest(WeightedVector(UNIT_VECTOR), 10) == []


async def test_steps_count_their_tries_separately(ctx: Context) -> None:
    """The step `index` fails again ten minutes after its first failure, at 12:20."""
    chunk_id = (await store_baking_chunks(ctx))[0].chunk_id
    moment = NOON
    for step in ("embed", "index", "index"):
        due = await ChunkQueue(ctx.database).load_pending(step, moment, 10)
        chunk = next(chunk for chunk in due if chunk.chunk_id == chunk_id)
        await ChunkQueue(ctx.database).defer(step, chunk, "too odd", moment)
        moment += timedelta(minutes=10)

    data = (await read_documents(ctx, "chunks"))[chunk_id]
    assert data["tries"] == {"embed": 1, "index": 2}
    assert data["pending"] == {
        **dict.fromkeys(OTHER_STEPS, NOON),
        "embed": NOON + timedelta(minutes=2),
        "index": NOON + timedelta(minutes=20 + 4),
    }


async def test_the_fifth_failure_makes_the_step_a_dead_letter(ctx: Context) -> None:
    chunk_id = (await store_baking_chunks(ctx))[0].chunk_id
    waits: list[timedelta | None] = []
    moment = NOON
    for _ in range(5):
        due = await ChunkQueue(ctx.database).load_pending("embed", moment, 10)
        chunk = next(chunk for chunk in due if chunk.chunk_id == chunk_id)
        await ChunkQueue(ctx.database).defer("embed", chunk, "too odd", moment)
        data = (await read_documents(ctx, "chunks"))[chunk_id]
        retry_at = data["pending"].get("embed")
        waits.append(retry_at and retry_at - moment)
        moment = retry_at

    assert waits == [*(timedelta(minutes=minutes) for minutes in (2, 4, 8, 16)), None]
    assert data["parked"] == {"embed": "too odd"}
    assert data["pending"] == dict.fromkeys(OTHER_STEPS, NOON)


async def test_the_failure_of_an_edited_chunk_is_ignored(ctx: Context) -> None:
    chunk, *_ = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"content": "Something else."})
    await defer_embed(ctx, chunk)
    assert len(await ChunkQueue(ctx.database).load_pending("embed", NOON, 10)) == 3


async def test_opposite_vectors_have_similarity_zero(ctx: Context) -> None:
    chunks = await store_baking_chunks(ctx)
    opposite = tuple(-value for value in UNIT_VECTOR)
    orthogonal = (0.0, *UNIT_VECTOR[:-1])
    vectors = [UNIT_VECTOR, opposite, orthogonal]
    await ChunkQueue(ctx.database).store_vectors(chunks, vectors, "model-1", ctx.clock())
    neighbours = await Chunks(ctx.database).find_nearest(WeightedVector(UNIT_VECTOR), 10)
    assert neighbours[0].document.id == chunks[0].chunk_id
    assert [neighbour.similarity for neighbour in neighbours] == [1.0, 0.0, 0.0]


async def test_an_edit_of_other_fields_does_not_reject_the_vector(ctx: Context) -> None:
    chunks = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{chunks[0].chunk_id}", {"tags": ["new"]})
    assert await store_unit_vectors(ctx, *chunks) == len(chunks)
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0


def make_extra_write(document_id: str, text: str = "") -> Write:
    """Return a write that creates a document of another collection."""
    return Set(Reference("extras", document_id), {"text": text})


async def test_extra_writes_are_committed_with_their_step_or_not_at_all(ctx: Context) -> None:
    unchanged, edited, _ = await store_baking_chunks(ctx)
    change = {"content": "New.", "content_hash": "new"}
    await set_fields(ctx, f"chunks/{edited.chunk_id}", change)
    results = [StepResult(chunk, {"mark": 1}) for chunk in (unchanged, edited)]

    async def build_extra_writes(results: Sequence[StepResult]) -> list[Write]:
        return [make_extra_write(result.chunk.chunk_id) for result in results]

    assert await ChunkQueue(ctx.database).complete("card", results, build_extra_writes) == 1

    assert set(await read_documents(ctx, "extras")) == {unchanged.chunk_id}
    stored = await read_documents(ctx, "chunks")
    assert "mark" in stored[unchanged.chunk_id]
    assert "mark" not in stored[edited.chunk_id]


async def test_an_extraction_stored_during_a_step_is_not_overwritten(ctx: Context) -> None:
    chunk, *_ = await store_baking_chunks(ctx)
    extracted = {"decision-a": "decision-a"}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"extracted": extracted})
    result = StepResult(chunk, {"extracted": {}})
    assert await ChunkQueue(ctx.database).complete("extract", [result]) == 0
    assert (await read_documents(ctx, "chunks"))[chunk.chunk_id]["extracted"] == extracted


async def test_dead_letters_are_listed_and_can_be_retried(ctx: Context) -> None:
    chunk, *_ = await store_baking_chunks(ctx)
    queue = ChunkQueue(ctx.database)
    await queue.defer("embed", replace(chunk, tries=4), "too odd", NOON)
    dead_letters = await queue.load_dead_letters("embed", 10)
    assert dead_letters == [DeadLetter(chunk.chunk_id, "too odd")]
    assert await queue.count_dead_letters("embed") == 1

    assert await queue.retry("embed", NOON) == 1
    assert await queue.load_dead_letters("embed", 10) == []
    tries = {chunk.chunk_id: chunk.tries for chunk in await queue.load_pending("embed", NOON, 9)}
    assert tries[chunk.chunk_id] == 0


TOO_LONG = "x" * 1_100_000
"""A text that is longer than a document may be."""
LONG_TEXT = "x" * (MAX_COMMIT_BYTES // 6)
"""A text of which three documents, but not nine, fit into a commit."""


async def test_a_large_batch_is_stored_in_several_commits(ctx: Context) -> None:
    chunks = await store_baking_chunks(ctx)
    results = [StepResult(chunk, {"mark": 1}) for chunk in chunks]

    async def build_extra_writes(results: Sequence[StepResult]) -> list[Write]:
        ids = [f"{result.chunk.chunk_id} {n}" for result in results for n in range(3)]
        return [make_extra_write(document_id, LONG_TEXT) for document_id in ids]

    queue = ChunkQueue(ctx.database)
    assert await queue.complete("card", results, build_extra_writes) == len(chunks)
    assert len(await read_documents(ctx, "extras")) == 3 * len(chunks)


async def test_a_run_defers_rejected_results_and_stores_the_others(
    ctx: Context, clock: SettableClock
) -> None:
    oversized, *others = await store_baking_chunks(ctx)

    async def process(chunk: PendingChunk) -> StepResult:
        is_oversized = chunk.chunk_id == oversized.chunk_id
        return StepResult(chunk, {"mark": TOO_LONG if is_oversized else "short"})

    async def probe() -> None:
        """Report that the step works."""

    work = StepWork(step="card", count="cards", process=process, probe=probe)
    report = Report()
    await process_pending(work, ctx, make_ample_budget(), report)
    assert report.counts == {"cards": len(others)}
    [failure] = report.failures
    assert failure.name == oversized.chunk_id
    assert "too large" in failure.reason
    stored = await read_documents(ctx, "chunks")
    assert stored[oversized.chunk_id]["tries"] == {"card": 1}
    assert stored[oversized.chunk_id]["pending"]["card"] == clock() + timedelta(minutes=2)
    assert not any("card" in stored[chunk.chunk_id]["pending"] for chunk in others)


async def test_an_oversized_document_is_an_error(ctx: Context) -> None:
    with pytest.raises(PlatformFault):
        await ctx.database.commit_skipping_conflicts([make_extra_write("oversized", TOO_LONG)])
