"""The base moves to another embedding model, in steps that can be interrupted anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.embed.job import embed
from functions.jobs.ingest_materials.job import ingest_materials
from functions.jobs.reembed.job import JOB, count_documents
from shared.core.errors import Unavailable
from shared.firestore.leases import Leases
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.runtime.job import Report, run_job
from tests.support.knowledge import index_all, set_fields, with_chunks
from tests.support.model_migration import (
    NOON,
    Model,
    all_with,
    begin,
    brief,
    cleared,
    former,
    model_of,
    move,
    moved,
    of_job,
    spaces,
)
from tests.support.stored_documents import ample, chunks_by_content, nothing, one_step
from tests.support.stored_documents import documents as stored
from tests.support.tool_calls import call, call_result
from tests.support.traces import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.runtime.context import App
    from tests.support.clock import SettableClock

    Open = Callable[[Model], App]

pytestmark = pytest.mark.anyio

DOCUMENTS = 10
"""Passages, extractions and traces of the base."""


async def stamp(app: App) -> dict[str, Any]:
    space: dict[str, Any] = (await stored(of_job(app), "meta"))["embedding"]
    return space


async def test_everything_is_embedded_again_once(old: App, new: App, clock: SettableClock) -> None:
    assert await count_documents(of_job(new)) == DOCUMENTS
    report = await moved(new, clock)
    assert (report.counts, report.failures) == ({"embedded": DOCUMENTS}, [])
    assert (report.finished, report.note) == (
        True, "The knowledge base is now embedded with words-2.",
    )  # fmt: skip
    assert await spaces(old) == all_with("words-2", 24)
    assert await stamp(old) == {"model": "words-2", "dimension": 24}
    assert {1} == set(model_of(new).paid.values())
    assert await count_documents(of_job(new)) == 0


async def test_a_move_waits_until_what_began_before_it_is_over(
    old: App, new: App, clock: SettableClock
) -> None:
    report = await begin(new)
    assert (report.counts, report.finished) == ({}, False)
    assert report.note == "Waiting for work with the former model to end."
    clock.advance(minutes=2)
    elsewhere = of_job(old)
    await Leases(elsewhere.database).acquire("ingest_materials", 600, clock)
    assert (await move(new, brief())).counts == {}
    assert {("words-1", 16)} == (await spaces(old))["chunks"]
    await Leases(elsewhere.database).release()
    assert (await move(new)).counts == {"embedded": DOCUMENTS}


async def test_vectors_of_two_models_never_stand_side_by_side(
    old: App, new: App, clock: SettableClock
) -> None:
    await cleared(new, clock)
    assert await spaces(old) == all_with(None, 0)


async def test_the_embed_job_carries_a_move_on(old: App, new: App, clock: SettableClock) -> None:
    await begin(new)
    clock.advance(minutes=2)
    report = await embed(of_job(new), ample())
    assert (report.counts, await spaces(old)) == ({"embedded": DOCUMENTS}, all_with("words-2", 24))
    assert await stamp(new) == {"model": "words-2", "dimension": 24}


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_the_embed_job_of_the_former_model_stands_back(
    old: App, new: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    await (cleared(new, clock) if is_cleared else begin(new))
    before = await spaces(old)
    with pytest.raises(Unavailable, match="being embedded again"):
        await embed(of_job(old), ample())
    with pytest.raises(Unavailable, match="being embedded again"):
        await ingest_materials(of_job(old), ample())
    assert before == await spaces(old)


async def test_a_trace_of_a_move_has_a_new_vector_at_once_or_later(
    old: App, new: App, clock: SettableClock
) -> None:
    await begin(new)
    for app in (old, new):
        answer = await call(app, "contribute_trace", **sample(5))
        assert answer.error
        assert answer.error.code == "UNAVAILABLE"
    await cleared(new, clock)
    assert (await call(old, "contribute_trace", **sample(5))).error
    await call_result(new, "contribute_trace", **sample(5))
    assert (await move(new)).counts == {"embedded": DOCUMENTS}
    assert len(await stored(of_job(new), "traces")) == 4
    assert await spaces(new) == all_with("words-2", 24)


async def test_passages_that_change_during_a_move_are_embedded_too(
    old: App, new: App, clock: SettableClock
) -> None:
    await cleared(new, clock)
    sections = (Section("Rye needs a sour dough."),)
    await Ingestion(of_job(old).database).save(
        [with_chunks(Source("rye", "Rye", sections=sections))], clock()
    )
    await move(new)
    assert "Rye needs a sour dough." in await chunks_by_content(of_job(new))
    assert await spaces(new) == all_with("words-2", 24)


async def test_a_deleted_passage_does_not_come_back_into_the_queue(
    old: App, new: App, clock: SettableClock
) -> None:
    gone = Source("baking", "Bread at Home", sections=())
    await Ingestion(of_job(old).database).save([with_chunks(gone)], clock())
    report = await moved(new, clock)
    assert (report.counts, report.finished) == ({"embedded": DOCUMENTS - 3}, True)
    await index_all(of_job(new))
    assert len(await stored(of_job(new), "chunks")) == 2


async def test_time_that_ends_at_any_step_loses_nothing(
    old: App, new: App, clock: SettableClock
) -> None:
    await begin(new)
    clock.advance(minutes=2)
    assert (await move(new, nothing())).finished is False
    report = await move(new, one_step())
    assert (report.counts, report.finished) == ({"embedded": 5}, False)
    while not (report := await move(new, one_step())).finished:
        pass
    assert (all_with("words-2", 24), {1}) == (await spaces(new), set(model_of(new).paid.values()))
    assert await stamp(old) == {"model": "words-2", "dimension": 24}


async def test_an_outage_stops_a_move_and_the_next_run_goes_on(
    old: App, new: App, clock: SettableClock
) -> None:
    await cleared(new, clock)
    assert (await stamp(old))["model"] == "words-1"
    assert (await move(new)).counts == {"embedded": DOCUMENTS}
    assert await spaces(old) == all_with("words-2", 24)


async def test_what_the_new_model_refuses_is_reported_and_holds_nothing_up(
    old: App, new: App, clock: SettableClock
) -> None:
    model_of(new).refuses = sample(1)["title"]
    report = await moved(new, clock)
    [failure] = report.failures
    assert failure.name.startswith("traces/")
    assert (report.counts, report.finished) == ({"embedded": DOCUMENTS - 1}, True)
    assert {("words-2", 24), (None, 0)} == (await spaces(old))["traces"]
    model_of(new).refuses = ""
    answer = await call_result(new, "search_traces", None, query=sample(1)["title"])
    assert sample(1)["title"] in [result["title"] for result in answer["results"]]


async def test_a_passage_that_was_dead_lettered_is_tried_with_the_new_model(
    old: App, new: App, clock: SettableClock
) -> None:
    [name, *_] = await stored(of_job(old), "chunks")
    await set_fields(of_job(old), f"chunks/{name}", {"parked": {"embed": "refused"}})
    await moved(new, clock)
    assert (await stored(of_job(new), "chunks"))[name]["parked"] == {}


@pytest.mark.parametrize("model", [Model("words-1", 24), Model("words-2", 16)])
async def test_another_length_and_another_name_are_both_another_model(
    old: App, opened: Open, clock: SettableClock, model: Model
) -> None:
    report = await moved(opened(model), clock)
    assert report.counts == {"embedded": DOCUMENTS}
    expected = all_with(model.model, model.dimension)
    assert expected == await spaces(old)


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_a_move_can_be_taken_back(
    old: App, new: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    await (cleared(new, clock) if is_cleared else begin(new))
    report = await moved(old, clock)
    assert (report.finished, await stamp(old)) == (True, {"model": "words-1", "dimension": 16})
    assert await spaces(old) == all_with("words-1", 16)


@pytest.mark.usefixtures("old")
async def test_a_base_that_has_the_model_costs_one_read(opened: Open) -> None:
    again = of_job(opened(former()))
    assert await JOB.run(again, ample()) == Report()
    assert (again.meter.documents_read, again.meter.documents_written) == (1, 0)


async def test_an_empty_base_needs_no_move(new: App) -> None:
    assert (await move(new), await count_documents(of_job(new))) == (Report(), 0)
    assert await stored(of_job(new), "meta") == {}


async def test_the_job_never_runs_beside_the_embed_job(old: App, new: App) -> None:
    assert JOB.lease == "embed"
    await Leases(of_job(old).database).acquire("embed", 600, lambda: NOON)
    assert not isinstance(await run_job(JOB, new), Report)
