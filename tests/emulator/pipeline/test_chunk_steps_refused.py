"""A result that the database rejects delays no other chunk."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shared.core.errors import PlatformFault
from shared.firestore.database import MAX_COMMIT_BYTES
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue, RefusedChunks, StepResult
from shared.knowledge.source import Section, Source
from shared.pipeline.worker import StepWork, process_pending
from shared.runtime.job import Report
from tests.support.knowledge import with_chunks
from tests.support.stored_documents import ample, documents

if TYPE_CHECKING:
    from shared.firestore.database import Write
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
NOTES = Source("notes", "Notes", sections=tuple(Section(f"Note {n}.") for n in range(10)))
TOO_LONG = "x" * 1_100_000
"""A text longer than a document may be."""


async def pending_chunks(ctx: Context) -> list[PendingChunk]:
    await Ingestion(ctx.database).save([with_chunks(NOTES)], NOON)
    return await ChunkQueue(ctx.database).pending("card", NOON, 20)


def extra_write(ctx: Context, name: str, text: str) -> Write:
    reference = ctx.database.document("notes", name)
    return lambda batch: batch.set(reference, {"text": text})


async def test_only_an_oversized_result_is_not_stored(ctx: Context) -> None:
    chunks = await pending_chunks(ctx)
    odd = chunks[3].chunk_id
    made = [
        StepResult(chunk, {"mark": TOO_LONG if chunk.chunk_id == odd else "well"})
        for chunk in chunks
    ]
    with pytest.raises(RefusedChunks) as refused:
        await ChunkQueue(ctx.database).complete("card", made)
    assert (9, [odd]) == (refused.value.stored, [chunk.chunk_id for chunk in refused.value.chunks])
    stored = await documents(ctx, "chunks")
    assert {name for name, data in stored.items() if "card" in data["pending"]} == {odd}


async def test_large_batch_is_stored_in_several_commits(ctx: Context) -> None:
    chunks = await pending_chunks(ctx)
    text = "x" * (MAX_COMMIT_BYTES // 6)
    made = [
        StepResult(chunk, {"mark": 1}, (extra_write(ctx, chunk.chunk_id, text),))
        for chunk in chunks
    ]
    assert len(chunks) == await ChunkQueue(ctx.database).complete("card", made)
    assert {chunk.chunk_id for chunk in chunks} == set(await documents(ctx, "notes"))


async def test_run_defers_rejected_results_and_stores_the_rest(ctx: Context) -> None:
    chunks = await pending_chunks(ctx)
    odd = chunks[0].chunk_id

    async def make(chunk: PendingChunk) -> StepResult:
        return StepResult(chunk, {"mark": TOO_LONG if chunk.chunk_id == odd else "well"})

    async def probe() -> None:
        """Succeed."""

    report = Report()
    await process_pending(StepWork("card", "cards", make, probe), ctx, ample(), report)
    assert report.counts == {"cards": 9}
    (failure,) = report.failures
    assert failure.name == odd
    assert "too large" in failure.reason
    assert (await documents(ctx, "chunks"))[odd]["tries"]["card"] == 1


async def test_oversized_commit_is_split(ctx: Context) -> None:
    text = "x" * (MAX_COMMIT_BYTES // 6)
    writes = [extra_write(ctx, str(n), text) for n in range(10)]
    assert await ctx.database.commit_skipping_conflicts(writes) == 10
    with pytest.raises(PlatformFault):
        await ctx.database.commit_skipping_conflicts([*writes, extra_write(ctx, "odd", TOO_LONG)])
