"""A base migrates to another embedding model, in steps that can be interrupted anywhere.

The job first announces the migration, then waits until work with the old model has ended, deletes
the old vectors, and stores the new ones. `old_app` and `new_app` use the same database, with the
old model (words-1, 16 dimensions) and with the new one (words-2, 24 dimensions).
"""

from collections.abc import Callable
from typing import Any

import pytest

from functions.jobs.embed.job import embed
from functions.jobs.ingest_materials.job import ingest_materials
from functions.jobs.reembed.job import JOB, count_documents
from shared.core.errors import Unavailable
from shared.firestore.leases import Leases
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.embedding_model import FakeEmbeddingModel
from tests.support.jobs import (
    make_ample_budget,
    make_brief_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import index_all, ingest_sources, set_fields
from tests.support.model_migration import (
    announce_migration,
    clear_vectors,
    complete_migration,
    get_model,
    make_expected_spaces,
    make_previous_model,
    read_spaces,
    run_reembed,
)
from tests.support.stored_documents import read_app_documents, read_chunks_by_text
from tests.support.tool_calls import call, call_result
from tests.support.traces import make_sample_trace

OpenApp = Callable[[FakeEmbeddingModel], App]


DOCUMENT_COUNT = 10
"""The number of chunks, extractions and traces of the base."""


async def read_space(app: App) -> dict[str, Any]:
    """Return the stored model and dimension of the base's vectors."""
    return (await read_app_documents(app, "meta"))["embedding"]


async def test_every_text_is_embedded_again_once(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    """A dead letter of the old model is retried."""
    assert await count_documents(make_job_context(new_app)) == DOCUMENT_COUNT
    [chunk_id, *_] = await read_app_documents(old_app, "chunks")
    dead_letter = {"parked": {"embed": "refused"}}
    await set_fields(make_job_context(old_app), f"chunks/{chunk_id}", dead_letter)
    report = await complete_migration(new_app, clock)
    assert (await read_app_documents(new_app, "chunks"))[chunk_id]["parked"] == {}
    assert report.counts == {"embedded": DOCUMENT_COUNT}
    assert report.failures == []
    assert report.finished
    assert report.note == "The knowledge base is now embedded with words-2."
    assert await read_spaces(old_app) == make_expected_spaces("words-2", 24)
    assert await read_space(old_app) == {"model": "words-2", "dimension": 24}
    assert set(get_model(new_app).embedding_counts.values()) == {1}
    assert await count_documents(make_job_context(new_app)) == 0


async def test_a_migration_waits_for_work_with_the_old_model(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    report = await announce_migration(new_app)
    assert report.counts == {}
    assert not report.finished
    assert report.note == "Waiting for work with the former model to end."

    clock.advance(minutes=2)
    leases = Leases(make_job_context(old_app).database)
    await leases.acquire("ingest_materials", 600, clock)
    assert (await run_reembed(new_app, make_brief_budget())).counts == {}
    assert (await read_spaces(old_app))["chunks"] == {("words-1", 16)}

    await leases.release()
    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENT_COUNT}


async def test_the_embed_job_continues_a_migration(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    clock.advance(minutes=2)
    report = await embed(make_job_context(new_app), make_ample_budget())
    assert report.counts == {"embedded": DOCUMENT_COUNT}
    assert await read_spaces(old_app) == make_expected_spaces("words-2", 24)
    assert await read_space(new_app) == {"model": "words-2", "dimension": 24}


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_jobs_with_the_old_model_are_refused_during_a_migration(
    old_app: App, new_app: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    if is_cleared:
        await clear_vectors(new_app, clock)
    else:
        await announce_migration(new_app)
    before = await read_spaces(old_app)

    with pytest.raises(Unavailable, match="being embedded again"):
        await embed(make_job_context(old_app), make_ample_budget())
    with pytest.raises(Unavailable, match="being embedded again"):
        await ingest_materials(make_job_context(old_app), make_ample_budget())

    assert await read_spaces(old_app) == before


async def test_a_trace_can_be_contributed_once_the_old_vectors_are_gone(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    """It is then embedded with the new model, and the app of the old model still refuses it."""
    await announce_migration(new_app)
    for app in (old_app, new_app):
        answer = await call(app, "contribute_trace", **make_sample_trace(5))
        assert answer.error
        assert answer.error.code == "UNAVAILABLE"

    await clear_vectors(new_app, clock)
    assert (await call(old_app, "contribute_trace", **make_sample_trace(5))).error
    await call_result(new_app, "contribute_trace", **make_sample_trace(5))

    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENT_COUNT}
    assert len(await read_app_documents(new_app, "traces")) == 4
    assert await read_spaces(new_app) == make_expected_spaces("words-2", 24)


async def test_chunks_changed_during_a_migration_are_embedded(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await clear_vectors(new_app, clock)
    assert await read_spaces(old_app) == make_expected_spaces(None, 0)
    assert (await read_space(old_app))["model"] == "words-1"
    source = Source("rye", "Rye", sections=(Section("Rye needs a sour dough."),))
    await ingest_sources(make_job_context(old_app), source)
    assert (await run_reembed(new_app)).counts == {"embedded": DOCUMENT_COUNT + 1}
    assert "Rye needs a sour dough." in await read_chunks_by_text(make_job_context(new_app))
    assert await read_spaces(new_app) == make_expected_spaces("words-2", 24)


async def test_a_deleted_chunk_is_neither_embedded_nor_restored(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    emptied = Source("baking", "Bread at Home", sections=())  # without its three chunks
    await ingest_sources(make_job_context(old_app), emptied)

    report = await complete_migration(new_app, clock)

    assert report.counts == {"embedded": DOCUMENT_COUNT - 3}
    assert report.finished
    await index_all(make_job_context(new_app))
    assert len(await read_app_documents(new_app, "chunks")) == 2


async def test_running_out_of_time_at_any_step_loses_nothing(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    clock.advance(minutes=2)

    assert not (await run_reembed(new_app, make_spent_budget())).finished
    report = await run_reembed(new_app, make_one_step_budget())
    assert report.counts == {"embedded": 5}
    assert not report.finished
    for _ in range(DOCUMENT_COUNT):
        if (await run_reembed(new_app, make_one_step_budget())).finished:
            break
    else:
        pytest.fail("The migration does not end.")

    assert await read_spaces(new_app) == make_expected_spaces("words-2", 24)
    assert set(get_model(new_app).embedding_counts.values()) == {1}
    assert await read_space(old_app) == {"model": "words-2", "dimension": 24}


async def test_a_refused_text_is_reported_and_blocks_no_other(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    get_model(new_app).rejected_words = make_sample_trace(1)["title"]
    report = await complete_migration(new_app, clock)
    [failure] = report.failures
    assert failure.name.startswith("traces/")
    assert report.counts == {"embedded": DOCUMENT_COUNT - 1}
    assert report.finished
    assert (await read_spaces(old_app))["traces"] == {("words-2", 24), (None, 0)}

    get_model(new_app).rejected_words = ""
    answer = await call_result(new_app, "search_traces", None, query=make_sample_trace(1)["title"])
    assert make_sample_trace(1)["title"] in [result["title"] for result in answer["results"]]

    await complete_migration(old_app, clock)
    assert await read_spaces(old_app) == make_expected_spaces("words-1", 16)


async def test_a_trace_withdrawn_while_it_waits_is_not_embedded(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await clear_vectors(new_app, clock)
    trace_id = next(iter(await read_app_documents(new_app, "traces")))
    await call_result(new_app, "withdraw_trace", trace_id=trace_id)

    report = await run_reembed(new_app)
    assert report.counts == {"embedded": DOCUMENT_COUNT - 1}
    assert report.finished
    withdrawn = (await read_app_documents(old_app, "traces"))[trace_id]
    assert "embedding_model" not in withdrawn
    assert "pending" not in withdrawn


@pytest.mark.parametrize(
    "model", [FakeEmbeddingModel("words-1", 24), FakeEmbeddingModel("words-2", 16)]
)
async def test_another_dimension_or_name_is_another_model(
    old_app: App, open_app: OpenApp, clock: SettableClock, model: FakeEmbeddingModel
) -> None:
    report = await complete_migration(open_app(model), clock)
    assert report.counts == {"embedded": DOCUMENT_COUNT}
    expected = make_expected_spaces(model.model, model.dimension)
    assert await read_spaces(old_app) == expected


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_a_migration_can_be_reversed(
    old_app: App, new_app: App, clock: SettableClock, *, is_cleared: bool
) -> None:
    await (clear_vectors(new_app, clock) if is_cleared else announce_migration(new_app))
    report = await complete_migration(old_app, clock)
    assert report.finished
    assert await read_space(old_app) == {"model": "words-1", "dimension": 16}
    assert await read_spaces(old_app) == make_expected_spaces("words-1", 16)


@pytest.mark.usefixtures("old_app")
async def test_a_run_without_a_new_model_costs_one_read(open_app: OpenApp) -> None:
    ctx = make_job_context(open_app(make_previous_model()))
    assert await JOB.run(ctx, make_ample_budget()) == Report()
    assert ctx.meter.documents_read == 1
    assert ctx.meter.documents_written == 0


async def test_an_empty_base_needs_no_migration(new_app: App) -> None:
    assert await run_reembed(new_app) == Report()
    assert await count_documents(make_job_context(new_app)) == 0
    assert await read_app_documents(new_app, "meta") == {}


async def test_reembed_and_embed_exclude_each_other(old_app: App, new_app: App) -> None:
    assert JOB.lease == "embed"
    await Leases(make_job_context(old_app).database).acquire("embed", 600, lambda: NOON)
    assert isinstance(await run_job(JOB, new_app), AlreadyRunning)
