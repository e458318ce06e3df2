"""The tool `forget` removes sources and passages from the knowledge base, and restores them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.pipeline.forgotten_expiry import ForgottenContents
from shared.runtime.context import App, Context
from tests.support.clock import NOON
from tests.support.database_state import describe_differences
from tests.support.forgetting import (
    EDITOR,
    OWNER,
    forget,
    read_knowledge,
    save_sources,
    search_ids,
    store_base,
)
from tests.support.knowledge import BAKING, SAILING, index_all, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text


async def test_the_last_day_to_restore_is_the_owners(app: App, ctx: Context) -> None:
    chunk_id = (await store_base(ctx))[0].chunk_id
    app.clock = lambda: NOON
    app.settings = app.settings.model_copy(update={"time_zone": "Pacific/Auckland"})
    out = await forget(app, chunk_id=chunk_id)
    assert out["restorable_until"] == f"{NOON + timedelta(days=31):%Y-%m-%d}"


async def test_no_tool_shows_a_forgotten_passage(app: App, ctx: Context) -> None:
    chunk_id = (await store_base(ctx))[0].chunk_id

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
    for name in ("get_decisions", "get_warnings"):
        assert (await call_result(app, name, OWNER))["results"] == []

    await index_all(ctx)
    assert chunk_id not in await read_documents(ctx, "chunks")


async def test_a_passage_without_a_source_can_be_forgotten(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await ctx.database.connection.client.collection("sources").document("sailing").delete()
    target: dict[str, Any] = {"chunk_id": chunks[0].chunk_id}

    assert (await call_error(app, "forget", EDITOR, **target)).code == "FORBIDDEN"
    out = await forget(app, **target)
    assert out["removed"]["chunks"] == 1
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
    stored = await read_documents(ctx, "chunks")
    assert set(stored) == {chunk.chunk_id for chunk in chunks[1:3]}
    assert (await read_documents(ctx, "sources"))["baking"]["chunk_count"] == 2
    assert await save_sources(ctx, edited) == {}


async def test_forgetting_the_last_passage_forgets_the_source(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    out = await forget(app, chunk_id=chunks[1].chunk_id)
    assert "chunk_id" not in out
    assert await read_documents(ctx, "sources") == {}

    await forget(app, source_id="sailing", forgotten=False)
    assert set(await read_documents(ctx, "chunks")) >= {chunks[1].chunk_id}
    assert (await read_documents(ctx, "forgotten_sources"))["sailing"]["chunk_ids"] == [
        chunks[0].chunk_id
    ]


async def test_a_note_is_forgotten_and_restored_as_a_whole(app: App, ctx: Context) -> None:
    """The document of a note contains the whole text, and no part of the text may stay."""
    text = "Rye needs a sour dough, since its gluten is weak. " * 60
    note = await call_result(app, "save_note", EDITOR, text=text, title="Rye")
    await index_all(ctx)
    before = await read_knowledge(ctx)
    chunk_ids = sorted(await read_documents(ctx, "chunks"))
    assert len(chunk_ids) > 1

    out = await forget(app, EDITOR, chunk_id=chunk_ids[0])
    assert out["source_id"] == note["source_id"]
    assert await read_documents(ctx, "sources") == {}
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}

    await forget(app, EDITOR, source_id=note["source_id"], forgotten=False)
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""


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
        async for _ in ForgottenContents(ctx.database).delete_expired(NOON + timedelta(days=9999)):
            pass
    never = {"source_id": "fishing", "chunk_id": "fishing-000000000000"}
    targets = [
        ("source_id", "sailing"), ("chunk_id", first.chunk_id), ("chunk_id", last.chunk_id)
    ]  # fmt: skip
    for name, target_id in targets:
        expected = await describe_refusal(app, name, never[name], forgotten=forgotten)
        assert await describe_refusal(app, name, target_id, forgotten=forgotten) == expected


async def describe_refusal(
    app: App, name: str, target_id: str, *, forgotten: bool
) -> tuple[str, int, int]:
    """Return what an editor learns from the error of `forget`, without the id."""
    arguments: dict[str, Any] = {name: target_id, "forgotten": forgotten}
    answer = await call(app, "forget", EDITOR, **arguments)
    assert answer.error is not None
    assert answer.error.code == "NOT_FOUND"
    error = answer.error.model_dump_json().replace(target_id, "ID")
    return error, answer.receipt.round_trips, answer.receipt.documents_read


async def test_an_editor_can_repeat_forgetting_a_note(app: App, ctx: Context) -> None:
    note = await call_result(app, "save_note", EDITOR, text="Rye keeps for a week.", title="Rye")
    [chunk_id] = await read_documents(ctx, "chunks")
    await forget(app, EDITOR, source_id=note["source_id"])
    for target in ({"source_id": note["source_id"]}, {"chunk_id": chunk_id}):
        again = await forget(app, EDITOR, **target)
        assert again["changed"] is False
        assert again["title"] == "Rye"


async def test_repeating_a_call_changes_nothing(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    targets: list[dict[str, Any]] = [{"source_id": "sailing"}, {"chunk_id": chunks[0].chunk_id}]
    for target in targets:
        for forgotten in (True, False):
            assert (await forget(app, **target, forgotten=forgotten))["changed"]
            again = await forget(app, **target, forgotten=forgotten)
            assert again["changed"] is False
            assert again["forgotten"] == forgotten


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"chunk_id": "nope"}, "search_kb"),
        ({"chunk_id": "nope", "forgotten": False}, "never forgotten"),
        ({"source_id": "nope", "forgotten": False}, "never forgotten"),
    ],
)
async def test_an_unknown_id_gets_a_clear_error(
    app: App, arguments: dict[str, Any], words: str
) -> None:
    error = await call_error(app, "forget", OWNER, **arguments)
    assert error.code == "NOT_FOUND"
    assert words in error.message


async def test_the_text_says_what_was_removed_and_how_to_undo(app: App, ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    text = await call_text(app, "forget", OWNER, source_id="sailing")
    assert text.startswith('Forgot "Under Sail". Removed: 2 passages, 2 vectors, 0 cards')
    assert "follow with the next index run" in text
    assert 'call forget with {"source_id": "sailing", "forgotten": false}' in text
