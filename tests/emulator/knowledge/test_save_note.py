"""`save_note` stores notes that search finds with the next call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.index.job import index
from functions.jobs.repair.job import repair
from functions.tools.knowledge.save_note.arguments import MAX_TEXT_LENGTH
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OTHER_EDITOR, save_note, search_source_ids
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

LONG = "\n\n".join(
    f"Day {number} at sea: the wind turned, the crew reefed." * 8 for number in range(18)
)


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def app(settings: Settings, embedder: WordEmbedder) -> AsyncIterator[WatchedApp]:
    opened = WatchedApp(settings, embedder=embedder)
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    return app.context(Caller(), Meter())


async def assert_nothing_to_repair(ctx: Context) -> None:
    """Check the postings against the chunks, and that repair finds nothing to do."""
    await assert_postings_are_exact(ctx)
    assert await repair(ctx, make_ample_budget()) == Report()


@pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
async def test_a_note_is_found_with_the_next_call(app: App, mode: str) -> None:
    note = await save_note(app)
    assert await search_source_ids(app, "linen", mode) == [note["source_id"]]


async def test_a_note_is_a_source_with_its_fields(app: App, ctx: Context) -> None:
    url = "https://example.com/rye"
    note = await save_note(app, title="Storing rye", tags=["bread", "#kitchen"], url=url)
    assert (note["revision"], note["duplicate"], note["waiting"]) == (1, False, 0)
    source = await call_result(app, "get_source", source_id=note["source_id"], detail="full")
    assert source["title"] == "Storing rye"
    assert source["tags"] == ["bread", "kitchen"]
    assert (source["category"], source["source"], source["revision"]) == ("note", "note", 1)
    assert source["source_url"] == url
    assert [chunk["text"] for chunk in source["chunks"]] == [NOTE_TEXT]
    assert [chunk["chunk_id"] for chunk in source["chunks"]] == note["chunk_ids"]
    stored = (await read_documents(ctx, "sources"))[note["source_id"]]
    assert (stored["saved_by"], stored["text"]) == ("anna", NOTE_TEXT)
    listed = await call_result(app, "list_sources", category="note", tag="kitchen")
    assert [item["source_id"] for item in listed["sources"]] == [note["source_id"]]


@pytest.mark.parametrize("text", [NOTE_TEXT, LONG])
async def test_postings_of_a_note_are_as_repair_makes_them(
    ctx: Context, app: App, text: str
) -> None:
    await store_sources(ctx, BAKING)
    await save_note(app, text, title="Notes", tags=["food"])
    await assert_nothing_to_repair(ctx)
    assert (await index(ctx, make_ample_budget())).counts == {}


async def test_a_long_note_is_cut_into_passages(app: App, ctx: Context) -> None:
    note = await save_note(app, LONG)
    assert len(note["chunk_ids"]) > 1
    stored = await read_chunks(ctx)
    assert stored.keys() == set(note["chunk_ids"])
    assert all("embedding_f16" in data for data in stored.values())


async def test_jobs_go_on_with_a_note(app: App, ctx: Context) -> None:
    [chunk_id] = (await save_note(app))["chunk_ids"]
    assert (await read_chunks(ctx))[chunk_id]["pending"].keys() == {"card", "extract", "cluster"}


async def test_the_title_is_the_first_words_by_default(app: App) -> None:
    assert (await save_note(app, "Buy\nno more rye."))["title"] == "Buy no more rye."
    title = (
        await save_note(
            app, "Sourdough starters live for decades if they are fed every day, so feed them."
        )
    )["title"]
    assert title == "Sourdough starters live for decades if they are fed every…"


async def test_saving_costs_three_round_trips_and_one_commit(
    settings: Settings, app: App, ctx: Context
) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    await save_note(app, "Another note.")
    fresh = WatchedApp(settings, embedder=WordEmbedder())
    answer = await call(fresh, "save_note", EDITOR, text=NOTE_TEXT, chunk_id=first.chunk_id)
    await fresh.aclose()
    assert (answer.receipt.round_trips, fresh.commits) == (3, 1)


async def test_a_note_that_says_the_same_stands(app: App, ctx: Context) -> None:
    first = await save_note(app, LONG)
    second = await save_note(app, LONG.replace("crew", "Crew"), OTHER_EDITOR)
    assert (second["source_id"], second["duplicate"], second["text"]) == (
        first["source_id"],
        True,
        LONG,
    )
    assert len(await read_documents(ctx, "sources")) == 1
    again = await save_note(app, LONG, again=True)
    assert again["source_id"] != first["source_id"]
    assert len(await read_documents(ctx, "sources")) == 2


@pytest.mark.parametrize(
    "other",
    [
        "Rye bread keeps for a month in the freezer.",
        "The door code of the boat house is 4711.",
    ],
)
async def test_a_note_that_says_something_else_is_stored(app: App, other: str) -> None:
    await save_note(app)
    await save_note(app, "The door code of the boat house is 4712.")
    assert not (await save_note(app, other))["duplicate"]


async def test_a_note_that_only_begins_with_the_same_is_stored(app: App, ctx: Context) -> None:
    await save_note(app, LONG)
    other = LONG[: len(LONG) // 2] + " ".join(["Rye needs a sourdough."] * (len(LONG) // 46))
    assert not (await save_note(app, other))["duplicate"]
    assert len(await read_documents(ctx, "sources")) == 2


async def test_a_passage_of_a_book_is_no_duplicate(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert not (await save_note(app, BAKING.sections[1].text))["duplicate"]


async def test_without_the_provider_words_find_a_note(
    app: App, ctx: Context, embedder: WordEmbedder
) -> None:
    embedder.is_down = True
    note = await save_note(app)
    assert note["waiting"] == 1
    assert await search_source_ids(app, "linen") == [note["source_id"]]
    assert "by its words only" in await call_text(
        app, "save_note", EDITOR, text="Salt slows yeast."
    )
    [chunk_id] = note["chunk_ids"]
    assert "embed" in (await read_chunks(ctx))[chunk_id]["pending"]
    await assert_nothing_to_repair(ctx)


@pytest.mark.parametrize("field", ["text", "title", "tags"])
async def test_secrets_are_rejected(app: App, field: str) -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    arguments: dict[str, Any] = {
        "text": NOTE_TEXT,
        field: [secret] if field == "tags" else f"Use {secret}",
    }
    error = await call_error(app, "save_note", EDITOR, **arguments)
    assert error.code == "VALIDATION_ERROR"
    assert list(error.details) == [field]
    assert secret not in str(error)


async def test_people_may_be_named(app: App) -> None:
    assert not (
        await save_note(app, "Ida's address is ida.loaf@bakery.test, phone +49 30 901820.")
    )["duplicate"]


async def test_a_text_that_is_too_long_belongs_to_ingest(app: App) -> None:
    error = await call_error(app, "save_note", EDITOR, text="x" * (MAX_TEXT_LENGTH + 1))
    assert "carrel ingest" in str(error.details["text"])
    assert (await save_note(app, "rye " * (MAX_TEXT_LENGTH // 4)))["revision"] == 1


async def test_a_note_about_a_missing_passage_is_rejected(app: App) -> None:
    await save_note(
        app, LONG
    )  # claims the embedding space, which the rejected call might do as well
    error = await call_error(
        app, "save_note", EDITOR, text=NOTE_TEXT, chunk_id="baking-000000000000"
    )
    assert (error.code, list(error.details)) == ("NOT_FOUND", ["chunk_id"])


async def test_a_passage_and_its_source_show_notes_about_it(app: App, ctx: Context) -> None:
    first, second, _ = await store_sources(ctx, BAKING)
    note = await save_note(app, chunk_id=first.chunk_id)
    later = await save_note(app, LONG, chunk_id=second.chunk_id)
    before = await call(app, "get_chunk", chunk_id=first.chunk_id)
    assert before.receipt.round_trips == 2
    [summary] = (before.result or {})["notes"]
    assert (summary["source_id"], summary["title"], summary["text"]) == (
        note["source_id"],
        note["title"],
        NOTE_TEXT,
    )
    assert summary["chunk_id"] == note["chunk_ids"][0]
    source = await call(app, "get_source", source_id="baking")
    assert source.receipt.round_trips == 1
    listed = [item["source_id"] for item in (source.result or {})["notes"]]
    assert listed == [later["source_id"], note["source_id"]]
    own = await call_result(app, "get_source", source_id=note["source_id"])
    assert own["about_chunk_id"] == first.chunk_id


async def test_an_idempotency_key_stores_one_note(app: App, ctx: Context) -> None:
    one, two = [await save_note(app, idempotency_key="k-1", again=True) for _ in range(2)]
    assert one == two
    assert len(await read_documents(ctx, "sources")) == 1


async def test_notes_that_are_saved_at_once_are_all_indexed(app: App, ctx: Context) -> None:
    texts = [f"Loaf {number} of the rye bread weighs {number} pounds." for number in range(6)]
    saved = await asyncio.gather(*(save_note(app, text) for text in texts))
    assert len({note["source_id"] for note in saved}) == 6
    await assert_nothing_to_repair(ctx)


async def test_the_answer_says_who_can_read_it(settings: Settings, app: App) -> None:
    assert (await save_note(app))["readable_by"] == "everyone who may use this knowledge base"
    public = App(settings.model_copy(update={"public_access": True}), embedder=WordEmbedder())
    note = await save_note(public, "Salt slows yeast.")
    await public.aclose()
    assert "internet" in note["readable_by"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "text"),
        ({"text": " "}, "text"),
        ({"text": NOTE_TEXT, "revision": 1}, "revision"),
        ({"text": NOTE_TEXT, "url": "file:///etc"}, "url"),
        ({"text": NOTE_TEXT, "source_id": "note-1"}, "revision"),
        ({"source_id": "note-1", "revision": 1}, "source_id"),
        (
            {"source_id": "a", "revision": 2, "restore_revision": 1, "text": NOTE_TEXT},
            "restore_revision",
        ),
    ],
)
async def test_unclear_arguments_are_rejected(
    app: App, arguments: dict[str, Any], field: str
) -> None:
    error = await call_error(app, "save_note", EDITOR, **arguments)
    assert (error.code, list(error.details)) == ("VALIDATION_ERROR", [field])
