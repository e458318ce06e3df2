"""`save_note` stores a note, and search finds the note with the next call."""

from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.knowledge import BAKING, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OTHER_EDITOR, save_note, search_source_ids
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_error, call_message, call_result

LONG = "\n\n".join(
    f"Day {number} at sea: the wind turned, the crew reefed." * 8 for number in range(18)
)
"""A text of several passages."""


async def test_a_note_is_a_source_with_the_given_fields(app: App, ctx: Context) -> None:
    """The next search finds it."""
    url = "https://example.com/rye"
    note = await save_note(app, title="Storing rye", tags=["bread", "#kitchen"], url=url)
    source_id = note["source_id"]
    assert (note["revision"], note["duplicate"], note["waiting"]) == (1, False, 0)
    for mode in ("lexical", "semantic", "hybrid"):
        assert await search_source_ids(app, "linen", mode) == [source_id]

    source = await call_result(app, "get_source", source_id=source_id)
    expected = {
        "title": "Storing rye",
        "tags": ["bread", "kitchen"],
        "category": "note",
        "source": "note",
        "revision": 1,
        "source_url": url,
    }
    assert source.items() >= expected.items()
    chunks = [(chunk["chunk_id"], chunk["text"]) for chunk in source["chunks"]]
    assert chunks == [(note["chunk_ids"][0], NOTE_TEXT)]

    stored = (await read_documents(ctx, "sources"))[source_id]
    assert (stored["saved_by"], stored["text"]) == ("anna", NOTE_TEXT)
    matching = await call_result(app, "list_sources", category="note", tag="kitchen")
    assert [source["source_id"] for source in matching["sources"]] == [source_id]


async def test_a_note_names_the_client_that_saved_it_last(app: App, ctx: Context) -> None:
    """Former revisions name theirs, and what is forgotten the client that forgot it."""
    phone, laptop, console = (
        EDITOR.model_copy(update={"client": name}) for name in ("Phone", "Laptop", None)
    )
    [chunk, *_] = await store_sources(ctx, BAKING)
    note = await save_note(app, caller=phone, about=chunk.chunk_id)
    note_id = {"source_id": note["source_id"]}
    [summary] = (await call_result(app, "get_chunk", chunk_id=chunk.chunk_id))["notes"]
    assert summary["saved_with"] == "Phone"

    await call_result(app, "edit_source", laptop, **note_id, revision=1, tags=["rye"])
    assert (await call_result(app, "get_source", **note_id))["saved_with"] == "Laptop"
    [summary] = (await call_result(app, "get_chunk", chunk_id=chunk.chunk_id))["notes"]
    assert summary["saved_with"] == "Laptop"
    await call_result(app, "save_note", console, **note_id, revision=2, text="Rye keeps.")
    assert "saved_with" not in await call_result(app, "get_source", **note_id)
    revisions = await read_documents(ctx, f"sources/{note['source_id']}/note_revisions")
    assert [revisions[number]["saved_with"] for number in "12"] == ["Phone", "Laptop"]

    await call_result(app, "forget", laptop, **note_id)
    [forgotten] = (await call_result(app, "list_forgotten", EDITOR))["forgotten"]
    assert (forgotten["forgotten_by"], forgotten["forgotten_with"]) == ("anna", "Laptop")


async def test_a_long_note_is_cut_into_passages(app: App, ctx: Context) -> None:
    note = await save_note(app, LONG)
    assert len(note["chunk_ids"]) > 1
    stored = await read_chunks(ctx)
    assert stored.keys() == set(note["chunk_ids"])
    for chunk in stored.values():
        assert "embedding_f16" in chunk
        assert chunk["pending"].keys() == {"card", "extract", "cluster"}


async def test_the_title_is_the_first_words_by_default(app: App) -> None:
    """Only a new note may have an empty title."""
    note = await save_note(app, "Buy\nno more rye.", title="")
    assert note["title"] == "Buy no more rye."
    change = {"source_id": note["source_id"], "revision": 1, "text": "Feed it.", "title": ""}
    assert "title" in (await call_error(app, "save_note", EDITOR, **change)).details
    text = "Sourdough starters live for decades if they are fed every day, so feed them."
    long_note = await save_note(app, text)
    assert long_note["title"] == "Sourdough starters live for decades if they are fed every…"


async def test_a_note_that_says_the_same_is_not_stored_again(app: App, ctx: Context) -> None:
    first = await save_note(app, LONG)
    second = await save_note(app, LONG.replace("crew", "Crew"), OTHER_EDITOR)
    assert (second["source_id"], second["duplicate"]) == (first["source_id"], True)
    assert second["text"] == LONG  # the stored text
    assert len(await read_documents(ctx, "sources")) == 1
    again = await save_note(app, LONG, again=True)
    assert again["source_id"] != first["source_id"]
    assert len(await read_documents(ctx, "sources")) == 2


async def test_notes_that_say_something_else_are_stored(app: App, ctx: Context) -> None:
    """So are one with only the same beginning, one that repeats a book, and one about people."""
    await store_sources(ctx, BAKING)
    beginning = LONG[: len(LONG) // 2]
    for text in (
        NOTE_TEXT,
        "Rye bread keeps for a month in the freezer.",
        "The door code of the boat house is 4712.",
        "The door code of the boat house is 4711.",
        BAKING.sections[1].text,
        "Ida's address is ida.loaf@bakery.test, phone +49 30 901820.",
        LONG,
        beginning + "Rye needs a sourdough. " * (len(beginning) // 23),
    ):
        assert not (await save_note(app, text))["duplicate"]
    assert len(await read_documents(ctx, "sources")) == 1 + 8


async def test_a_note_is_found_by_words_while_the_model_is_down(
    app: App, ctx: Context, embedder: WordEmbedder
) -> None:
    embedder.is_down = True
    note = await save_note(app)
    assert note["waiting"] == 1
    assert await search_source_ids(app, "linen") == [note["source_id"]]
    text = await call_message(app, "save_note", EDITOR, text="Salt slows yeast.")
    assert "by its words only" in text
    [chunk_id] = note["chunk_ids"]
    assert "embed" in (await read_chunks(ctx))[chunk_id]["pending"]
    await assert_postings_are_exact(ctx)


async def test_the_answer_says_who_can_read_the_note(app: App, apps: Apps) -> None:
    assert (await save_note(app))["readable_by"] == "everyone who may use this knowledge base"
    note = await save_note(apps(public_access=True), "Salt slows yeast.")
    assert "internet" in note["readable_by"]
