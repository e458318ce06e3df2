"""A base migrates to another embedding model, in steps that can be interrupted anywhere."""

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
    announce_migration,
    brief_budget,
    clear_vectors,
    complete_migration,
    expected_spaces,
    get_model,
    job_context,
    previous_model,
    run_reembed,
    stored_spaces,
)
from tests.support.stored_documents import ample_budget, chunks_by_content, one_step, spent_budget
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
"""The number of chunks, extractions and traces of the base."""


async def stamp(app: App) -> dict[str, Any]:
    space: dict[str, Any] = (await stored(job_context(app), "meta"))["embedding"]
    return space


async def test_everything_is_embedded_again_once(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    assert await count_documents(job_context(new_app)) == DOCUMENTS
    report = await complete_migration(new_app, clock)
    assert (report.counts, report.failures) == ({"embedded": DOCUMENTS}, [])
    assert (report.finished, report.note) == (
        True, "The knowledge base is now embedded with words-2.",
    )  # fmt: skip
    assert await stored_spaces(old_app) == expected_spaces("words-2", 24)
    assert await stamp(old_app) == {"model": "words-2", "dimension": 24}
    assert set(get_model(new_app).embedding_counts.values()) == {1}
    assert await count_documents(job_context(new_app)) == 0


async def test_migration_waits_for_earlier_calls(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    report = await announce_migration(new_app)
    assert (report.counts, report.finished) == ({}, False)
    assert report.note == "Waiting for work with the former model to end."
    clock.advance(minutes=2)
    elsewhere = job_context(old_app)
    await Leases(elsewhere.database).acquire("ingest_materials", 600, clock)
    assert (await run_reembed(new_app, brief_budget())).counts == {}
    assert (await stored_spaces(old_app))["chunks"] == {("words-1", 16)}
    await Leases(elsewhere.database).release()
    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENTS}


async def test_vectors_of_two_models_never_coexist(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await clear_vectors(new_app, clock)
    assert await stored_spaces(old_app) == expected_spaces(None, 0)


async def test_embed_job_continues_a_migration(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    clock.advance(minutes=2)
    report = await embed(job_context(new_app), ample_budget())
    assert (report.counts, await stored_spaces(old_app)) == (
        {"embedded": DOCUMENTS},
        expected_spaces("words-2", 24),
    )
    assert await stamp(new_app) == {"model": "words-2", "dimension": 24}


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_embed_job_of_the_old_model_does_nothing(
    old_app: App, new_app: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    await (clear_vectors(new_app, clock) if is_cleared else announce_migration(new_app))
    before = await stored_spaces(old_app)
    with pytest.raises(Unavailable, match="being embedded again"):
        await embed(job_context(old_app), ample_budget())
    with pytest.raises(Unavailable, match="being embedded again"):
        await ingest_materials(job_context(old_app), ample_budget())
    assert await stored_spaces(old_app) == before


async def test_trace_gets_its_new_vector_now_or_later(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    for app in (old_app, new_app):
        answer = await call(app, "contribute_trace", **sample(5))
        assert answer.error
        assert answer.error.code == "UNAVAILABLE"
    await clear_vectors(new_app, clock)
    assert (await call(old_app, "contribute_trace", **sample(5))).error
    await call_result(new_app, "contribute_trace", **sample(5))
    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENTS}
    assert len(await stored(job_context(new_app), "traces")) == 4
    assert await stored_spaces(new_app) == expected_spaces("words-2", 24)


async def test_chunks_changed_during_a_migration_are_embedded(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await clear_vectors(new_app, clock)
    sections = (Section("Rye needs a sour dough."),)
    await Ingestion(job_context(old_app).database).save(
        [with_chunks(Source("rye", "Rye", sections=sections))], clock()
    )
    await run_reembed(new_app)
    assert "Rye needs a sour dough." in await chunks_by_content(job_context(new_app))
    assert await stored_spaces(new_app) == expected_spaces("words-2", 24)


async def test_deleted_chunk_is_not_queued_again(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    gone = Source("baking", "Bread at Home", sections=())
    await Ingestion(job_context(old_app).database).save([with_chunks(gone)], clock())
    report = await complete_migration(new_app, clock)
    assert (report.counts, report.finished) == ({"embedded": DOCUMENTS - 3}, True)
    await index_all(job_context(new_app))
    assert len(await stored(job_context(new_app), "chunks")) == 2


async def test_running_out_of_time_at_any_step_loses_nothing(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    clock.advance(minutes=2)
    assert (await run_reembed(new_app, spent_budget())).finished is False
    report = await run_reembed(new_app, one_step())
    assert (report.counts, report.finished) == ({"embedded": 5}, False)
    while not (report := await run_reembed(new_app, one_step())).finished:
        pass
    assert (expected_spaces("words-2", 24), {1}) == (
        await stored_spaces(new_app),
        set(get_model(new_app).embedding_counts.values()),
    )
    assert await stamp(old_app) == {"model": "words-2", "dimension": 24}


async def test_next_run_continues_a_migration_after_an_outage(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await clear_vectors(new_app, clock)
    assert (await stamp(old_app))["model"] == "words-1"
    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENTS}
    assert await stored_spaces(old_app) == expected_spaces("words-2", 24)


async def test_refused_text_is_reported_and_blocks_nothing(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    get_model(new_app).refuses = sample(1)["title"]
    report = await complete_migration(new_app, clock)
    [failure] = report.failures
    assert failure.name.startswith("traces/")
    assert (report.counts, report.finished) == ({"embedded": DOCUMENTS - 1}, True)
    assert (await stored_spaces(old_app))["traces"] == {("words-2", 24), (None, 0)}
    get_model(new_app).refuses = ""
    answer = await call_result(new_app, "search_traces", None, query=sample(1)["title"])
    assert sample(1)["title"] in [result["title"] for result in answer["results"]]


async def test_dead_letter_is_retried_with_the_new_model(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    [name, *_] = await stored(job_context(old_app), "chunks")
    await set_fields(job_context(old_app), f"chunks/{name}", {"parked": {"embed": "refused"}})
    await complete_migration(new_app, clock)
    assert (await stored(job_context(new_app), "chunks"))[name]["parked"] == {}


@pytest.mark.parametrize("model", [Model("words-1", 24), Model("words-2", 16)])
async def test_other_dimension_or_name_is_another_model(
    old_app: App, open_app: Open, clock: SettableClock, model: Model
) -> None:
    report = await complete_migration(open_app(model), clock)
    assert report.counts == {"embedded": DOCUMENTS}
    expected = expected_spaces(model.model, model.dimension)
    assert await stored_spaces(old_app) == expected


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_migration_can_be_reversed(
    old_app: App, new_app: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    await (clear_vectors(new_app, clock) if is_cleared else announce_migration(new_app))
    report = await complete_migration(old_app, clock)
    assert (report.finished, await stamp(old_app)) == (True, {"model": "words-1", "dimension": 16})
    assert await stored_spaces(old_app) == expected_spaces("words-1", 16)


@pytest.mark.usefixtures("old_app")
async def test_base_with_the_model_costs_one_read(open_app: Open) -> None:
    again = job_context(open_app(previous_model()))
    assert await JOB.run(again, ample_budget()) == Report()
    assert (again.meter.documents_read, again.meter.documents_written) == (1, 0)


async def test_empty_base_needs_no_migration(new_app: App) -> None:
    assert (await run_reembed(new_app), await count_documents(job_context(new_app))) == (
        Report(),
        0,
    )
    assert await stored(job_context(new_app), "meta") == {}


async def test_reembed_and_embed_exclude_each_other(old_app: App, new_app: App) -> None:
    assert JOB.lease == "embed"
    await Leases(job_context(old_app).database).acquire("embed", 600, lambda: NOON)
    assert not isinstance(await run_job(JOB, new_app), Report)
