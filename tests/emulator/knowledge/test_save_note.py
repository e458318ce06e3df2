"""`save_note` stores a note, and search finds the note with the next call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from functions.jobs.index.job import index
from functions.jobs.repair.job import repair
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OTHER_EDITOR, save_note, search_source_ids
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text

LONG = "\n\n".join(
    f"Day {number} at sea: the wind turned, the crew reefed." * 8 for number in range(18)
)
"""A text of several passages."""


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
    """Assert that the postings are those of the stored passages, and that repair agrees.

    Postings are the lists of passages by word and by facet, such as a tag.
    """
    await assert_postings_are_exact(ctx)
    assert await repair(ctx, make_ample_budget()) == Report()


@pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
async def test_the_next_search_finds_a_note(app: App, mode: str) -> None:
    note = await save_note(app)
    assert await search_source_ids(app, "linen", mode) == [note["source_id"]]


async def test_a_note_is_a_source_with_the_given_fields(app: App, ctx: Context) -> None:
    url = "https://example.com/rye"
    note = await save_note(app, title="Storing rye", tags=["bread", "#kitchen"], url=url)
    assert note["revision"] == 1
    assert note["duplicate"] is False
    assert note["waiting"] == 0

    source = await call_result(app, "get_source", source_id=note["source_id"], detail="full")
    assert source["title"] == "Storing rye"
    assert source["tags"] == ["bread", "kitchen"]
    assert source["category"] == "note"
    assert source["source"] == "note"
    assert source["revision"] == 1
    assert source["source_url"] == url
    assert [chunk["text"] for chunk in source["chunks"]] == [NOTE_TEXT]
    assert [chunk["chunk_id"] for chunk in source["chunks"]] == note["chunk_ids"]

    stored = (await read_documents(ctx, "sources"))[note["source_id"]]
    assert stored["saved_by"] == "anna"
    assert stored["text"] == NOTE_TEXT

    matching = await call_result(app, "list_sources", category="note", tag="kitchen")
    assert [source["source_id"] for source in matching["sources"]] == [note["source_id"]]


@pytest.mark.parametrize("text", [NOTE_TEXT, LONG])
async def test_repair_agrees_with_the_postings_of_a_note(ctx: Context, app: App, text: str) -> None:
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


async def test_cards_extractions_and_clusters_are_pending_on_a_note(app: App, ctx: Context) -> None:
    [chunk_id] = (await save_note(app))["chunk_ids"]
    assert (await read_chunks(ctx))[chunk_id]["pending"].keys() == {"card", "extract", "cluster"}


async def test_the_title_is_the_first_words_by_default(app: App) -> None:
    short_note = await save_note(app, "Buy\nno more rye.")
    assert short_note["title"] == "Buy no more rye."
    text = "Sourdough starters live for decades if they are fed every day, so feed them."
    long_note = await save_note(app, text)
    assert long_note["title"] == "Sourdough starters live for decades if they are fed every…"


async def test_only_a_new_note_may_have_an_empty_title(app: App) -> None:
    note = await save_note(app, "Feed the starter.", title="")
    assert note["title"] == "Feed the starter."
    change = {"source_id": note["source_id"], "revision": 1, "text": "Feed it.", "title": ""}
    assert "title" in (await call_error(app, "save_note", EDITOR, **change)).details


async def test_saving_costs_three_round_trips_and_one_commit(
    settings: Settings, app: App, ctx: Context
) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    await save_note(app, "Another note.")
    cold_app = WatchedApp(settings, embedder=WordEmbedder())  # with an empty cache
    answer = await call(cold_app, "save_note", EDITOR, text=NOTE_TEXT, chunk_id=first.chunk_id)
    await cold_app.aclose()
    assert answer.receipt.round_trips == 3
    assert cold_app.commits == 1


async def test_a_note_that_says_the_same_is_not_stored_again(app: App, ctx: Context) -> None:
    first = await save_note(app, LONG)
    second = await save_note(app, LONG.replace("crew", "Crew"), OTHER_EDITOR)
    assert second["source_id"] == first["source_id"]
    assert second["duplicate"] is True
    assert second["text"] == LONG  # the stored text
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
async def test_a_note_with_another_statement_is_stored(app: App, other: str) -> None:
    await save_note(app)
    await save_note(app, "The door code of the boat house is 4712.")
    assert not (await save_note(app, other))["duplicate"]


async def test_a_note_with_only_the_same_beginning_is_stored(app: App, ctx: Context) -> None:
    await save_note(app, LONG)
    beginning = LONG[: len(LONG) // 2]
    other_end = "Rye needs a sourdough. " * (len(beginning) // 23)
    assert not (await save_note(app, beginning + other_end))["duplicate"]
    assert len(await read_documents(ctx, "sources")) == 2


async def test_a_note_that_repeats_a_book_is_stored(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert not (await save_note(app, BAKING.sections[1].text))["duplicate"]


async def test_a_note_is_found_by_words_while_the_model_is_down(
    app: App, ctx: Context, embedder: WordEmbedder
) -> None:
    embedder.is_down = True
    note = await save_note(app)
    assert note["waiting"] == 1
    assert await search_source_ids(app, "linen") == [note["source_id"]]
    text = await call_text(app, "save_note", EDITOR, text="Salt slows yeast.")
    assert "by its words only" in text
    [chunk_id] = note["chunk_ids"]
    assert "embed" in (await read_chunks(ctx))[chunk_id]["pending"]
    await assert_nothing_to_repair(ctx)


async def test_contact_details_of_people_are_accepted(app: App) -> None:
    note = await save_note(app, "Ida's address is ida.loaf@bakery.test, phone +49 30 901820.")
    assert not note["duplicate"]


async def test_a_passage_and_its_source_show_notes_about_the_passage(
    app: App, ctx: Context
) -> None:
    first, second, _ = await store_sources(ctx, BAKING)
    note = await save_note(app, chunk_id=first.chunk_id)
    later_note = await save_note(app, LONG, chunk_id=second.chunk_id)

    passage = await call(app, "get_chunk", chunk_id=first.chunk_id)
    assert passage.receipt.round_trips == 2
    [summary] = (passage.result or {})["notes"]
    assert summary["source_id"] == note["source_id"]
    assert summary["title"] == note["title"]
    assert summary["text"] == NOTE_TEXT
    assert summary["chunk_id"] == note["chunk_ids"][0]

    source = await call(app, "get_source", source_id="baking")
    assert source.receipt.round_trips == 1
    note_ids = [summary["source_id"] for summary in (source.result or {})["notes"]]
    assert note_ids == [later_note["source_id"], note["source_id"]]

    note_source = await call_result(app, "get_source", source_id=note["source_id"])
    assert note_source["about_chunk_id"] == first.chunk_id


async def test_notes_that_are_saved_concurrently_are_all_indexed(app: App, ctx: Context) -> None:
    texts = [f"Loaf {number} of the rye bread weighs {number} pounds." for number in range(6)]
    saved = await asyncio.gather(*(save_note(app, text) for text in texts))
    assert len({note["source_id"] for note in saved}) == 6
    await assert_nothing_to_repair(ctx)


async def test_the_answer_says_who_can_read_the_note(settings: Settings, app: App) -> None:
    assert (await save_note(app))["readable_by"] == "everyone who may use this knowledge base"
    public = App(settings.model_copy(update={"public_access": True}), embedder=WordEmbedder())
    note = await save_note(public, "Salt slows yeast.")
    await public.aclose()
    assert "internet" in note["readable_by"]
