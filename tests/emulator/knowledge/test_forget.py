"""The tool `forget` removes sources and passages from the knowledge base, and restores them.

The job `purge` deletes them for good in the end. A record of each stays, and ingest leaves them
out. A call of `forget` with `forgotten=False` deletes the record, and the next ingest of their file
stores them again.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.purge.job import purge
from shared.core.ids import make_passage_id
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import call_before_commit
from tests.support.forgetting import (
    EDITOR,
    OWNER,
    forget,
    save_sources,
    search_ids,
    store_base,
)
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, index_all, store_sources
from tests.support.small_sources import store_and_index
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call, call_error, call_message, call_result


async def test_no_tool_shows_a_forgotten_passage(app: App, ctx: Context) -> None:
    chunks = await store_base(ctx)
    chunk_id = chunks[0].chunk_id

    out = await forget(app, chunk_id=chunk_id, reason="wrong")
    postings = out["removed"].pop("postings")  # the number of entries in the index
    assert postings > 10
    assert out["removed"] == {"chunks": 1, "vectors": 1, "cards": 1, "extractions": 2}
    assert "Knead the dough" in str(await read_documents(ctx, "forgotten"))

    error = await call_error(app, "get_chunk", OWNER, chunk_id=chunk_id)
    assert error.code == "NOT_FOUND"
    assert chunk_id not in await search_ids(app, "knead dough smooth")
    source = await call_result(app, "get_source", OWNER, source_id="baking")
    assert source["chunk_count"] == 2
    assert "Knead" not in str(source)
    assert (await call_result(app, "get_warnings", OWNER))["results"] == []
    [decision] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert decision["chunk_id"] == chunks[3].chunk_id  # which makes the same decision

    await index_all(ctx)
    assert chunk_id not in await read_documents(ctx, "chunks")


async def test_a_passage_without_a_source_can_be_forgotten(app: App, ctx: Context) -> None:
    chunks = await store_and_index(ctx, SAILING)
    await ctx.database.connection.client.document("sources/sailing").delete()
    target: dict[str, Any] = {"chunk_id": chunks[0].chunk_id}

    assert (await call_error(app, "forget", EDITOR, **target)).code == "FORBIDDEN"
    out = await forget(app, **target)
    assert (out["removed"]["chunks"], out["removed"]["vectors"]) == (1, 0)
    assert "undo" not in out
    assert (await call_error(app, "get_chunk", OWNER, **target)).code == "NOT_FOUND"
    assert (await call_error(app, "forget", OWNER, **target, forgotten=False)).code == "CONFLICT"

    await save_sources(ctx, SAILING)
    assert chunks[0].chunk_id not in (await search_ids(app, "sail"))
    await forget(app, **target, forgotten=False)
    assert (await call_result(app, "get_chunk", OWNER, **target))["content"] == chunks[0].content


async def test_ingest_leaves_forgotten_passages_and_sources_out(app: App, ctx: Context) -> None:
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")
    edited = replace(BAKING, title="Bread in the Oven")
    counts = await save_sources(ctx, edited, SAILING)
    assert counts == {"sources": 1, "updated": 2, "forgotten": 1}
    await index_all(ctx)
    assert set(await read_documents(ctx, "chunks")) == {chunk.chunk_id for chunk in chunks[1:3]}
    assert (await read_documents(ctx, "sources"))["baking"]["chunk_count"] == 2
    assert await save_sources(ctx, edited) == {}


async def test_forgetting_a_passage_removes_its_tags_from_the_source(
    app: App, ctx: Context
) -> None:
    chunks = await store_sources(ctx, BAKING)
    assert chunks[0].tags == ("food", "dough")
    await forget(app, chunk_id=chunks[0].chunk_id)
    await index_all(ctx)
    for tag, count in (("dough", 0), ("food", 1)):
        assert len((await call_result(app, "list_sources", OWNER, tag=tag))["sources"]) == count
    await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    await index_all(ctx)
    assert (await call_result(app, "list_sources", OWNER, tag="dough"))["sources"]


@pytest.mark.parametrize("forgotten", [True, False])
@pytest.mark.parametrize("is_expired", [True, False])
async def test_what_others_forgot_looks_like_what_never_was(
    app: App, ctx: Context, *, forgotten: bool, is_expired: bool
) -> None:
    """Neither the error nor the counts of the receipt tell the two apart."""
    first, *_, last = await store_sources(ctx, BAKING, SAILING)
    await forget(app, chunk_id=first.chunk_id)
    await forget(app, source_id="sailing")
    if is_expired:
        await purge(replace(ctx, clock=lambda: NOON + timedelta(days=9999)), make_ample_budget())
    never = {"source_id": "fishing", "chunk_id": make_passage_id("fishing", "Cast.")}

    async def describe_refusal(name: str, target_id: str) -> tuple[str, int, int]:
        """Return what an editor learns from the error, without the id."""
        arguments: dict[str, Any] = {name: target_id, "forgotten": forgotten}
        answer = await call(app, "forget", EDITOR, **arguments)
        assert answer.error is not None
        assert answer.error.code == "NOT_FOUND"
        error = answer.error.model_dump_json().replace(target_id, "ID")
        return error, answer.receipt.round_trips, answer.receipt.documents_read

    for name, target_id in (
        ("source_id", "sailing"),
        ("chunk_id", first.chunk_id),
        ("chunk_id", last.chunk_id),
    ):
        assert await describe_refusal(name, target_id) == await describe_refusal(name, never[name])


async def test_repeating_a_call_changes_nothing(app: App, ctx: Context) -> None:
    """The document of a note contains the whole text, so it is forgotten with any passage."""
    chunks = await store_sources(ctx, BAKING, SAILING)
    note = await call_result(app, "save_note", EDITOR, text="Rye keeps for a week.", title="Rye")
    [note_chunk] = (await read_documents(ctx, "chunks")).keys() - {c.chunk_id for c in chunks}
    for caller, target in (
        (OWNER, {"source_id": "sailing"}),
        (OWNER, {"chunk_id": chunks[0].chunk_id}),
        (EDITOR, {"source_id": note["source_id"]}),
        (EDITOR, {"chunk_id": note_chunk}),
    ):
        assert (await forget(app, caller, **target))["changed"]
        again = await forget(app, caller, **target)
        assert (again["changed"], again["forgotten"]) == (False, True)
        source_id = again["source_id"]
        restored = {"source_id": source_id} if source_id == note["source_id"] else target
        for is_first in (True, False):
            out = await forget(app, caller, **restored, forgotten=False)
            assert (out["changed"], out["forgotten"]) == (is_first, False)


async def test_an_unknown_id_gets_a_clear_error(app: App) -> None:
    for arguments, words in (
        ({"chunk_id": "nope"}, "search_kb"),
        ({"chunk_id": "nope", "forgotten": False}, "never forgotten"),
        ({"source_id": "nope", "forgotten": False}, "never forgotten"),
    ):
        error = await call_error(app, "forget", OWNER, **arguments)
        assert (error.code, words in error.message) == ("NOT_FOUND", True)


async def test_the_last_day_to_undo_it_is_the_owners(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    clock.now = NOON
    app.settings = app.settings.model_copy(update={"time_zone": "Pacific/Auckland"})
    await store_sources(ctx, SAILING)
    result = await call_result(app, "forget", OWNER, source_id="sailing")
    assert result["restorable_until"] == "2024-07-01"
    assert result["message"].startswith("Forgotten. No tool shows it any longer")


async def test_a_source_cannot_be_restored_once_purge_has_begun_on_it(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The job has deleted the source's document, and was killed before it deleted the passages."""
    await store_sources(ctx, BAKING)
    await forget(app, source_id="baking")
    record = Reference("forgotten_sources", "baking")
    await ctx.database.commit([Update(record, {"document": DELETE_FIELD})])
    restoring = {"source_id": "baking", "forgotten": False}
    error = await call_error(app, "forget", OWNER, **restoring)
    assert error.code == "CONFLICT"
    assert "purge" in error.message
    clock.now += RESTORABLE_SOURCES.duration
    await purge(ctx, make_ample_budget())
    assert await read_documents(ctx, "forgotten") == {}
    assert (await forget(app, source_id="baking", forgotten=False))["changed"]


async def test_a_source_restored_while_purge_runs_stays(
    app: App, ctx: Context, apps: Apps, clock: SettableClock
) -> None:
    chunks = await store_sources(ctx, BAKING)
    await forget(app, source_id="baking")

    async def restore() -> None:
        await forget(app, source_id="baking", forgotten=False)

    later = apps(call_before_commit(1, restore), clock=clock() + RESTORABLE_SOURCES.duration)
    report = await purge(make_job_context(later), make_ample_budget())
    assert (report.counts["forgotten"], report.failures) == (0, [])
    assert set(await read_documents(ctx, "chunks")) == {chunk.chunk_id for chunk in chunks}


async def test_a_passage_forgotten_alone_stays_so_when_its_purged_source_returns(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    first, *others = [chunk.chunk_id for chunk in await store_sources(ctx, BAKING)]
    await forget(app, chunk_id=first)
    await forget(app, source_id="baking")
    clock.now += RESTORABLE_SOURCES.duration
    await purge(ctx, make_ample_budget())
    await forget(app, source_id="baking", forgotten=False)
    await save_sources(ctx, BAKING)
    await index_all(ctx)
    assert set(await read_documents(ctx, "chunks")) == set(others)


async def test_purge_deletes_all_but_the_record(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """Until it runs, nothing can be restored any more; then, `forget` lets ingest store it."""
    chunks = await store_base(ctx)
    targets: tuple[dict[str, Any], ...] = (
        {"chunk_id": chunks[0].chunk_id},
        {"source_id": "sailing"},
    )
    for target in targets:
        await forget(app, **target, reason="outdated")
    clock.now += RESTORABLE_SOURCES.duration
    for target in targets:
        error = await call_error(app, "forget", OWNER, **target, forgotten=False)
        assert error.code == "CONFLICT"
        assert "could be restored until" in error.message

    assert (await purge(ctx, make_ample_budget())).counts["forgotten"] == 3
    [record] = (await read_documents(ctx, "forgotten")).values()
    assert record.keys() == {"forgotten_at", "forgotten_by", "forgotten_with", "reason"}
    assert record["reason"] == "outdated"
    source = (await read_documents(ctx, "forgotten_sources"))["sailing"]
    assert source["whole"]
    assert "document" not in source

    assert await save_sources(ctx, SAILING) == {"forgotten": 1}
    for target in targets:
        text = await call_message(app, "forget", OWNER, **target, forgotten=False)
        assert "come back when their file" in text
    counts = await save_sources(ctx, BAKING, SAILING)
    assert counts == {"sources": 2, "created": 3}
    assert set(await read_documents(ctx, "chunks")) >= {chunk.chunk_id for chunk in chunks}
