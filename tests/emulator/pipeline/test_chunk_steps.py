"""Chunks as documents: what waits for a step, and what a job may write of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import Done, Parked, Steps
from tests.support.fakes.embedder import DIMENSION
from tests.support.knowledge import BAKING, SAILING, in_chunks, put_in, write
from tests.support.stored_documents import documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.firestore.database import Write
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = ("index", "card", "extract")
"""What waits on a new chunk beside its embedding."""
UNIT = (1.0,) + (0.0,) * (DIMENSION - 1)


async def baking(deps: Deps) -> list[PendingChunk]:
    """Three chunks that wait for their vectors, in the order of their ids."""
    await Ingestion(deps.database).save([in_chunks(BAKING)], NOON)
    return await Steps(deps.database).pending("embed", NOON, 10)


async def test_a_chunk_is_read_as_it_was_put_in(deps: Deps) -> None:
    chunks = await put_in(deps, BAKING)
    stored = await Chunks(deps.database).get(chunks[0].chunk_id)
    assert stored is not None
    moment = (await documents(deps, "chunks"))[chunks[0].chunk_id]["created_at"]
    assert replace(chunks[0], dated_at=moment) == stored.chunk
    assert len(stored.vector or ()) == DIMENSION


async def test_a_missing_chunk_is_none(deps: Deps) -> None:
    assert await Chunks(deps.database).get("nowhere") is None


async def test_what_waits_carries_what_is_embedded_of_it(deps: Deps) -> None:
    expected = {chunk.chunk_id: chunk.embedding_text for chunk in in_chunks(BAKING).chunks}
    assert expected == {chunk.chunk_id: chunk.text for chunk in await baking(deps)}


async def test_what_waits_is_read_up_to_a_limit(deps: Deps, meter: Meter) -> None:
    await baking(deps)
    before = meter.documents_read
    assert len(await Steps(deps.database).pending("embed", NOON, 2)) == 2
    assert meter.documents_read - before == 2


async def test_those_that_waited_longest_come_first(deps: Deps) -> None:
    await Ingestion(deps.database).save([in_chunks(SAILING)], NOON)
    await Ingestion(deps.database).save([in_chunks(BAKING)], NOON - timedelta(days=1))
    waiting = await Steps(deps.database).pending("embed", NOON, 4)
    expected = ["baking", "baking", "baking", "sailing"]
    assert expected == [chunk.chunk_id.partition("-")[0] for chunk in waiting]


async def test_what_is_not_due_waits_but_is_counted(deps: Deps) -> None:
    await baking(deps)
    assert await Steps(deps.database).pending("embed", NOON - timedelta(seconds=1), 10) == []
    assert await Steps(deps.database).count_pending("embed") == 3
    assert await Steps(deps.database).count_pending("cluster") == 0


async def test_a_chunk_edited_since_it_was_read_alone_stays_pending(
    deps: Deps,
) -> None:
    read = await baking(deps)
    await write(deps, f"chunks/{read[1].chunk_id}", {"content": "New.", "content_hash": "new"})
    assert await Steps(deps.database).embedded(read, [UNIT] * 3, "model-1", deps.clock()) == 2
    stored = await documents(deps, "chunks")
    pending = [set(stored[chunk.chunk_id]["pending"]) for chunk in read]
    assert pending == [{*LATER, "cluster"}, {"embed", *LATER}, {*LATER, "cluster"}]
    assert ["embedding" in stored[chunk.chunk_id] for chunk in read] == [True, False, True]


async def test_a_chunk_deleted_since_it_was_read_does_not_come_back(deps: Deps) -> None:
    read = await baking(deps)
    await deps.database.document("chunks", read[0].chunk_id).delete()
    assert await Steps(deps.database).embedded(read, [UNIT] * 3, "model-1", deps.clock()) == 2
    assert set(await documents(deps, "chunks")) == {chunk.chunk_id for chunk in read[1:]}


async def test_a_chunk_deleted_since_it_was_read_gets_no_vector(deps: Deps) -> None:
    read = await baking(deps)
    await Ingestion(deps.database).save([in_chunks(replace(BAKING, sections=()))], NOON)
    assert await Steps(deps.database).embedded(read, [UNIT] * 3, "model-1", deps.clock()) == 0
    await Steps(deps.database).failed("embed", read[0], "too odd", NOON)
    assert await Steps(deps.database).count_pending("embed") == 0
    assert await Chunks(deps.database).nearest(UNIT, 10) == []


async def test_a_failure_delays_the_step_and_counts_the_try(deps: Deps) -> None:
    read = await baking(deps)
    await Steps(deps.database).failed("embed", read[0], "too odd", NOON)
    data = (await documents(deps, "chunks"))[read[0].chunk_id]
    assert data["pending"] == {
        "embed": NOON + timedelta(minutes=2),
        **dict.fromkeys(LATER, NOON),
    }
    assert (data["parked"], data["tries"]) == ({}, {"embed": 1})


async def test_a_step_that_failed_delays_no_other_step(deps: Deps) -> None:
    odd, *others = await baking(deps)
    await Steps(deps.database).failed("embed", odd, "too odd", NOON)
    due = {step: await Steps(deps.database).pending(step, NOON, 10) for step in ("embed", "index")}
    expected = {chunk.chunk_id for chunk in others}
    assert expected == {chunk.chunk_id for chunk in due["embed"]}
    assert expected | {odd.chunk_id} == {chunk.chunk_id for chunk in due["index"]}


async def test_each_step_counts_its_own_tries(deps: Deps) -> None:
    chunk_id = (await baking(deps))[0].chunk_id
    moment = NOON
    for step in ("embed", "index", "index"):
        due = await Steps(deps.database).pending(step, moment, 10)
        chunk = next(each for each in due if each.chunk_id == chunk_id)
        await Steps(deps.database).failed(step, chunk, "too odd", moment)
        moment += timedelta(minutes=10)
    data = (await documents(deps, "chunks"))[chunk_id]
    assert data["tries"] == {"embed": 1, "index": 2}
    assert data["pending"] == {
        **dict.fromkeys(LATER, NOON),
        "embed": NOON + timedelta(minutes=2),
        "index": NOON + timedelta(minutes=20 + 4),
    }


async def test_a_vector_takes_no_other_step_away(deps: Deps) -> None:
    await Steps(deps.database).embedded(await baking(deps), [UNIT] * 3, "model-1", deps.clock())
    counts = [await Steps(deps.database).count_pending(step) for step in ("embed", "index")]
    assert counts == [0, 3]


async def test_waits_grow_and_after_five_tries_the_step_is_parked(deps: Deps) -> None:
    chunk_id = (await baking(deps))[0].chunk_id
    waits: list[timedelta | None] = []
    moment = NOON
    for _ in range(5):
        due = await Steps(deps.database).pending("embed", moment, 10)
        chunk = next(each for each in due if each.chunk_id == chunk_id)
        await Steps(deps.database).failed("embed", chunk, "too odd", moment)
        data = (await documents(deps, "chunks"))[chunk_id]
        retry_at = data["pending"].get("embed")
        waits.append(retry_at and retry_at - moment)
        moment = retry_at
    assert waits == [*(timedelta(minutes=minutes) for minutes in (2, 4, 8, 16)), None]
    assert data["parked"] == {"embed": "too odd"}
    assert data["pending"] == dict.fromkeys(LATER, NOON)


async def test_a_failure_of_what_was_edited_meanwhile_is_forgotten(deps: Deps) -> None:
    read = await baking(deps)
    await write(deps, f"chunks/{read[0].chunk_id}", {"content": "Something else."})
    await Steps(deps.database).failed("embed", read[0], "too odd", NOON)
    assert len(await Steps(deps.database).pending("embed", NOON, 10)) == 3


async def test_a_vector_forgets_the_tries_before_it(deps: Deps) -> None:
    chunk = (await baking(deps))[0]
    await Steps(deps.database).failed("embed", chunk, "too odd", NOON)
    due = await Steps(deps.database).pending("embed", NOON + timedelta(minutes=2), 10)
    await Steps(deps.database).embedded(due, [UNIT] * 3, "model-1", deps.clock())
    data = (await documents(deps, "chunks"))[chunk.chunk_id]
    assert (data["tries"], set(data["pending"])) == ({}, {*LATER, "cluster"})
    assert data["embedding_model"] == "model-1"


async def test_opposite_directions_are_unrelated(deps: Deps) -> None:
    read = await baking(deps)
    opposite = tuple(-value for value in UNIT)
    across = (0.0, *UNIT[:-1])
    await Steps(deps.database).embedded(read, [UNIT, opposite, across], "model-1", deps.clock())
    found = await Chunks(deps.database).nearest(UNIT, 10)
    assert found[0].document.id == read[0].chunk_id
    assert [each.similarity for each in found] == [1.0, 0.0, 0.0]


async def test_a_write_that_leaves_the_text_alone_keeps_its_vector(deps: Deps) -> None:
    read = await baking(deps)
    await write(deps, f"chunks/{read[0].chunk_id}", {"tags": ["new"]})
    stored = await Steps(deps.database).embedded(read, [UNIT] * len(read), "model-1", deps.clock())
    assert stored == len(read)
    assert await Steps(deps.database).count_pending("embed") == 0


async def test_what_is_beside_a_step_is_written_with_it_or_not_at_all(deps: Deps) -> None:
    first, second, _ = await baking(deps)
    await write(deps, f"chunks/{second.chunk_id}", {"content": "New.", "content_hash": "new"})
    made = [Done(each, {"mark": 1}, (note(deps, each.chunk_id),)) for each in (first, second)]
    assert await Steps(deps.database).done("card", made) == 1
    assert set(await documents(deps, "notes")) == {first.chunk_id}
    stored = await documents(deps, "chunks")
    assert ["mark" in stored[each.chunk_id] for each in (first, second)] == [True, False]


def note(deps: Deps, name: str) -> Write:
    reference = deps.database.document("notes", name)
    return lambda batch: batch.set(reference, {})


async def test_what_was_extracted_meanwhile_keeps_a_step_waiting(deps: Deps) -> None:
    first, *_ = await baking(deps)
    known = {"extracted": {"a": {"type": "decision", "topics": []}}}
    await write(deps, f"chunks/{first.chunk_id}", known)
    assert await Steps(deps.database).done("extract", [Done(first, {"extracted": {}})]) == 0
    assert (await documents(deps, "chunks"))[first.chunk_id]["extracted"] == known["extracted"]


async def test_what_is_parked_is_told_and_can_wait_again(deps: Deps) -> None:
    first, *_ = await baking(deps)
    await Steps(deps.database).failed("embed", replace(first, tries=4), "too odd", NOON)
    assert await Steps(deps.database).parked("embed", 10) == [Parked(first.chunk_id, "too odd")]
    assert await Steps(deps.database).count_parked("embed") == 1
    assert await Steps(deps.database).retry("embed", NOON) == 1
    assert await Steps(deps.database).parked("embed", 10) == []
    again = {
        each.chunk_id: each.tries for each in await Steps(deps.database).pending("embed", NOON, 9)
    }
    assert again[first.chunk_id] == 0
