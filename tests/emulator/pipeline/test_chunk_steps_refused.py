"""The result of a step that the database rejects, such as a card, delays no other chunk."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.core.errors import PlatformFault
from shared.firestore.database import MAX_COMMIT_BYTES
from shared.firestore.documents import Reference
from shared.firestore.writes import Set, Write
from shared.knowledge.queue import ChunkQueue, PendingChunk, RefusedChunks, StepResult
from shared.knowledge.source import Section, Source
from shared.pipeline.worker import StepWork, process_pending
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_documents

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
SOURCE = Source("notes", "Notes", sections=tuple(Section(f"Note {n}.") for n in range(10)))
TOO_LONG = "x" * 1_100_000
"""A text that is longer than a document may be."""
LONG_TEXT = "x" * (MAX_COMMIT_BYTES // 6)
"""A text of which a document, but not ten documents together, fits into a commit."""


async def store_pending_chunks(ctx: Context) -> list[PendingChunk]:
    """Store a source, and return its ten chunks, which wait for knowledge cards."""
    await ingest_sources(ctx, SOURCE, now=NOON)
    return await ChunkQueue(ctx.database).load_pending("card", NOON, 20)


def make_result(chunk: PendingChunk, oversized_id: str) -> StepResult:
    """Return the result for a chunk, which is too long to store if the chunk has the given id."""
    return StepResult(chunk, {"mark": TOO_LONG if chunk.chunk_id == oversized_id else "short"})


def make_extra_write(name: str, text: str) -> Write:
    """Return a write that creates a document of another collection."""
    return Set(Reference("extras", name), {"text": text})


async def test_only_an_oversized_result_is_not_stored(ctx: Context) -> None:
    chunks = await store_pending_chunks(ctx)
    oversized_id = chunks[3].chunk_id
    results = [make_result(chunk, oversized_id) for chunk in chunks]

    with pytest.raises(RefusedChunks) as error:
        await ChunkQueue(ctx.database).complete("card", results)

    assert error.value.stored == 9
    assert [chunk.chunk_id for chunk in error.value.chunks] == [oversized_id]
    stored_chunks = await read_documents(ctx, "chunks")
    pending_ids = {name for name, data in stored_chunks.items() if "card" in data["pending"]}
    assert pending_ids == {oversized_id}


async def test_a_large_batch_is_stored_in_several_commits(ctx: Context) -> None:
    chunks = await store_pending_chunks(ctx)
    results = [
        StepResult(chunk, {"mark": 1}, (make_extra_write(chunk.chunk_id, LONG_TEXT),))
        for chunk in chunks
    ]
    assert await ChunkQueue(ctx.database).complete("card", results) == len(chunks)
    assert set(await read_documents(ctx, "extras")) == {chunk.chunk_id for chunk in chunks}


async def test_a_run_defers_rejected_results_and_stores_the_others(ctx: Context) -> None:
    chunks = await store_pending_chunks(ctx)
    oversized_id = chunks[0].chunk_id

    async def process(chunk: PendingChunk) -> StepResult:
        return make_result(chunk, oversized_id)

    async def probe() -> None:
        """Report that the step works."""

    work = StepWork(step="card", count="cards", process=process, probe=probe)
    report = Report()
    await process_pending(work, ctx, make_ample_budget(), report)
    assert report.counts == {"cards": 9}
    (failure,) = report.failures
    assert failure.name == oversized_id
    assert "too large" in failure.reason
    assert (await read_documents(ctx, "chunks"))[oversized_id]["tries"]["card"] == 1


async def test_an_oversized_commit_is_split(ctx: Context) -> None:
    writes = [make_extra_write(str(number), LONG_TEXT) for number in range(10)]
    assert await ctx.database.commit_skipping_conflicts(writes) == 10


async def test_an_oversized_document_is_an_error(ctx: Context) -> None:
    write = make_extra_write("oversized", TOO_LONG)
    with pytest.raises(PlatformFault):
        await ctx.database.commit_skipping_conflicts([write])
