"""Stored chunks: their pending steps, and the writes that end them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue, DeadLetter, StepResult
from tests.support.fakes.embedder import DIMENSION
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.firestore.database import Write
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = ("index", "card", "extract")
"""The steps of a new chunk other than `embed`."""
UNIT = (1.0,) + (0.0,) * (DIMENSION - 1)


async def store_baking_chunks(ctx: Context) -> list[PendingChunk]:
    """Store three chunks with a pending `embed` step; return them in the order of their ids."""
    await Ingestion(ctx.database).save([chunk_source(BAKING)], NOON)
    return await ChunkQueue(ctx.database).load_pending("embed", NOON, 10)


async def test_chunk_is_read_as_stored(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING)
    stored = await Chunks(ctx.database).get(chunks[0].chunk_id)
    assert stored is not None
    moment = (await read_documents(ctx, "chunks"))[chunks[0].chunk_id]["created_at"]
    assert replace(chunks[0], dated_at=moment) == stored.chunk
    assert len(stored.vector or ()) == DIMENSION


async def test_missing_chunk_is_none(ctx: Context) -> None:
    assert await Chunks(ctx.database).get("nowhere") is None


async def test_pending_chunk_has_its_embedding_text(ctx: Context) -> None:
    expected = {chunk.chunk_id: chunk.embedding_text for chunk in chunk_source(BAKING).chunks}
    assert {chunk.chunk_id: chunk.text for chunk in await store_baking_chunks(ctx)} == expected


async def test_pending_chunks_are_limited(ctx: Context, meter: Meter) -> None:
    await store_baking_chunks(ctx)
    before = meter.documents_read
    assert len(await ChunkQueue(ctx.database).load_pending("embed", NOON, 2)) == 2
    assert meter.documents_read - before == 2


async def test_longest_pending_chunks_come_first(ctx: Context) -> None:
    await Ingestion(ctx.database).save([chunk_source(SAILING)], NOON)
    await Ingestion(ctx.database).save([chunk_source(BAKING)], NOON - timedelta(days=1))
    waiting = await ChunkQueue(ctx.database).load_pending("embed", NOON, 4)
    expected = ["baking", "baking", "baking", "sailing"]
    assert [chunk.chunk_id.partition("-")[0] for chunk in waiting] == expected


async def test_deferred_chunk_is_counted_but_not_due(ctx: Context) -> None:
    await store_baking_chunks(ctx)
    assert (
        await ChunkQueue(ctx.database).load_pending("embed", NOON - timedelta(seconds=1), 10) == []
    )
    assert await ChunkQueue(ctx.database).count_pending("embed") == 3
    assert await ChunkQueue(ctx.database).count_pending("cluster") == 0


async def test_only_an_edited_chunk_stays_pending(
    ctx: Context,
) -> None:
    read = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{read[1].chunk_id}", {"content": "New.", "content_hash": "new"})
    assert (
        await ChunkQueue(ctx.database).store_vectors(read, [UNIT] * 3, "model-1", ctx.clock()) == 2
    )
    stored = await read_documents(ctx, "chunks")
    pending = [set(stored[chunk.chunk_id]["pending"]) for chunk in read]
    assert pending == [{*LATER, "cluster"}, {"embed", *LATER}, {*LATER, "cluster"}]
    assert ["embedding" in stored[chunk.chunk_id] for chunk in read] == [True, False, True]


async def test_chunk_deleted_after_its_read_stays_deleted(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    await ctx.database.document("chunks", read[0].chunk_id).delete()
    assert (
        await ChunkQueue(ctx.database).store_vectors(read, [UNIT] * 3, "model-1", ctx.clock()) == 2
    )
    assert set(await read_documents(ctx, "chunks")) == {chunk.chunk_id for chunk in read[1:]}


async def test_chunk_deleted_after_its_read_gets_no_vector(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    await Ingestion(ctx.database).save([chunk_source(replace(BAKING, sections=()))], NOON)
    assert (
        await ChunkQueue(ctx.database).store_vectors(read, [UNIT] * 3, "model-1", ctx.clock()) == 0
    )
    await ChunkQueue(ctx.database).defer("embed", read[0], "too odd", NOON)
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0
    assert await Chunks(ctx.database).find_nearest(UNIT, 10) == []


async def test_failure_defers_the_step_and_counts_an_attempt(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    await ChunkQueue(ctx.database).defer("embed", read[0], "too odd", NOON)
    data = (await read_documents(ctx, "chunks"))[read[0].chunk_id]
    assert data["pending"] == {
        "embed": NOON + timedelta(minutes=2),
        **dict.fromkeys(LATER, NOON),
    }
    assert data["parked"] == {}
    assert data["tries"] == {"embed": 1}


async def test_failed_step_defers_no_other_step(ctx: Context) -> None:
    odd, *others = await store_baking_chunks(ctx)
    await ChunkQueue(ctx.database).defer("embed", odd, "too odd", NOON)
    due = {
        step: await ChunkQueue(ctx.database).load_pending(step, NOON, 10)
        for step in ("embed", "index")
    }
    expected = {chunk.chunk_id for chunk in others}
    assert {chunk.chunk_id for chunk in due["embed"]} == expected
    assert expected | {odd.chunk_id} == {chunk.chunk_id for chunk in due["index"]}


async def test_steps_count_their_attempts_separately(ctx: Context) -> None:
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
        **dict.fromkeys(LATER, NOON),
        "embed": NOON + timedelta(minutes=2),
        "index": NOON + timedelta(minutes=20 + 4),
    }


async def test_storing_a_vector_ends_only_its_own_step(ctx: Context) -> None:
    await ChunkQueue(ctx.database).store_vectors(
        await store_baking_chunks(ctx), [UNIT] * 3, "model-1", ctx.clock()
    )
    counts = [await ChunkQueue(ctx.database).count_pending(step) for step in ("embed", "index")]
    assert counts == [0, 3]


async def test_fifth_failure_dead_letters_the_step(ctx: Context) -> None:
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
    assert data["pending"] == dict.fromkeys(LATER, NOON)


async def test_failure_of_an_edited_chunk_is_ignored(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{read[0].chunk_id}", {"content": "Something else."})
    await ChunkQueue(ctx.database).defer("embed", read[0], "too odd", NOON)
    assert len(await ChunkQueue(ctx.database).load_pending("embed", NOON, 10)) == 3


async def test_storing_a_vector_resets_the_attempts(ctx: Context) -> None:
    chunk = (await store_baking_chunks(ctx))[0]
    await ChunkQueue(ctx.database).defer("embed", chunk, "too odd", NOON)
    due = await ChunkQueue(ctx.database).load_pending("embed", NOON + timedelta(minutes=2), 10)
    await ChunkQueue(ctx.database).store_vectors(due, [UNIT] * 3, "model-1", ctx.clock())
    data = (await read_documents(ctx, "chunks"))[chunk.chunk_id]
    assert data["tries"] == {}
    assert set(data["pending"]) == {*LATER, "cluster"}
    assert data["embedding_model"] == "model-1"


async def test_opposite_vectors_have_similarity_zero(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    opposite = tuple(-value for value in UNIT)
    across = (0.0, *UNIT[:-1])
    await ChunkQueue(ctx.database).store_vectors(
        read, [UNIT, opposite, across], "model-1", ctx.clock()
    )
    neighbours = await Chunks(ctx.database).find_nearest(UNIT, 10)
    assert neighbours[0].document.id == read[0].chunk_id
    assert [neighbour.similarity for neighbour in neighbours] == [1.0, 0.0, 0.0]


async def test_write_of_other_fields_keeps_the_vector(ctx: Context) -> None:
    read = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{read[0].chunk_id}", {"tags": ["new"]})
    stored = await ChunkQueue(ctx.database).store_vectors(
        read, [UNIT] * len(read), "model-1", ctx.clock()
    )
    assert stored == len(read)
    assert await ChunkQueue(ctx.database).count_pending("embed") == 0


async def test_extra_writes_commit_with_their_step_or_not_at_all(ctx: Context) -> None:
    first, second, _ = await store_baking_chunks(ctx)
    await set_fields(ctx, f"chunks/{second.chunk_id}", {"content": "New.", "content_hash": "new"})
    made = [
        StepResult(chunk, {"mark": 1}, (note_write(ctx, chunk.chunk_id),))
        for chunk in (first, second)
    ]
    assert await ChunkQueue(ctx.database).complete("card", made) == 1
    assert set(await read_documents(ctx, "notes")) == {first.chunk_id}
    stored = await read_documents(ctx, "chunks")
    assert ["mark" in stored[chunk.chunk_id] for chunk in (first, second)] == [True, False]


def note_write(ctx: Context, name: str) -> Write:
    reference = ctx.database.document("notes", name)
    return lambda batch: batch.set(reference, {})


async def test_extraction_during_a_step_keeps_it_pending(ctx: Context) -> None:
    first, *_ = await store_baking_chunks(ctx)
    update = {"extracted": {"a": {"type": "decision", "topics": []}}}
    await set_fields(ctx, f"chunks/{first.chunk_id}", update)
    assert (
        await ChunkQueue(ctx.database).complete("extract", [StepResult(first, {"extracted": {}})])
        == 0
    )
    assert (await read_documents(ctx, "chunks"))[first.chunk_id]["extracted"] == update["extracted"]


async def test_dead_letters_are_listed_and_can_be_retried(ctx: Context) -> None:
    first, *_ = await store_baking_chunks(ctx)
    await ChunkQueue(ctx.database).defer("embed", replace(first, tries=4), "too odd", NOON)
    assert await ChunkQueue(ctx.database).load_dead_letters("embed", 10) == [
        DeadLetter(first.chunk_id, "too odd")
    ]
    assert await ChunkQueue(ctx.database).count_dead_letters("embed") == 1
    assert await ChunkQueue(ctx.database).retry("embed", NOON) == 1
    assert await ChunkQueue(ctx.database).load_dead_letters("embed", 10) == []
    again = {
        chunk.chunk_id: chunk.tries
        for chunk in await ChunkQueue(ctx.database).load_pending("embed", NOON, 9)
    }
    assert again[first.chunk_id] == 0
