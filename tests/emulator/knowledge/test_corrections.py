"""A note about a passage or a source stands under its hits, as a correction if it is one."""

from dataclasses import replace
from typing import Any

from functions.jobs.index.job import index
from shared.core.errors import InvalidInput
from shared.knowledge.followed import DISK, FileState, Followed
from shared.knowledge.source import Section
from shared.runtime.context import App, Context
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, ingest_sources, store_sources
from tests.support.notes import EDITOR, OWNER, change_note, save_note
from tests.support.tool_calls import call, call_error, call_result, call_text

CORRECTION = "Linen is wrong: it keeps best in a tin."


async def search_hit(app: App, query: str, chunk_id: str) -> dict[str, Any]:
    """Return the hit of a search with this id."""
    answer = await call_result(app, "search_kb", query=query)
    hits: dict[str, dict[str, Any]] = {hit["chunk_id"]: hit for hit in answer["results"]}
    return hits[chunk_id]


async def test_a_correction_stands_under_each_hit_of_its_passage(app: App, ctx: Context) -> None:
    first, second, _ = await store_sources(ctx, BAKING)
    saved = await save_note(app, CORRECTION, about=first.chunk_id, corrects=True)
    assert saved["about_title"] == BAKING.title
    expected = {"source_id": saved["source_id"], "text": CORRECTION, "corrects": True}

    hit = await search_hit(app, first.content, first.chunk_id)
    recent = await call_result(app, "get_recent")
    [recent_hit] = [chunk for chunk in recent["chunks"] if chunk["chunk_id"] == first.chunk_id]
    source = await call_result(app, "get_source", source_id=BAKING.source_id)
    passage = await call_result(app, "get_chunk", chunk_id=first.chunk_id)
    for shown in (hit, recent_hit, source["chunks"][0], passage):
        [note] = shown["notes"]
        assert expected.items() <= note.items()
    assert source["notes"] == []
    assert "notes" not in source["chunks"][1]
    assert (await call_result(app, "get_chunk", chunk_id=second.chunk_id))["notes"] == []
    text = await call_text(app, "search_kb", query=first.content)
    assert f"ID: {saved['source_id']}): {CORRECTION}" in text


async def test_notes_cost_no_further_round_trip(app: App, ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    before = await call(app, "search_kb", query=first.content, filters={"source": "baking"})
    for number in range(12):
        await save_note(app, f"Thought {number} about yeast.", about=first.chunk_id)
    after = await call(app, "search_kb", query=first.content, filters={"source": "baking"})
    assert after.receipt.round_trips <= max(3, before.receipt.round_trips)
    assert after.receipt.documents_read <= before.receipt.documents_read + 10
    passage = await call(app, "get_chunk", chunk_id=first.chunk_id)
    source = await call(app, "get_source", source_id=BAKING.source_id)
    assert (passage.receipt.round_trips, source.receipt.round_trips) == (2, 1)


async def test_newer_notes_do_not_hide_a_correction(app: App, ctx: Context) -> None:
    first, second, _ = await store_sources(ctx, BAKING)
    await save_note(app, CORRECTION, about=first.chunk_id, corrects=True)
    for number in range(10):
        await save_note(app, f"Thought {number} about yeast.", about=second.chunk_id)
    filters = {"source": "baking"}
    answer = await call_result(app, "search_kb", filters=filters)
    hits = {hit["chunk_id"]: hit for hit in answer["results"]}
    assert [note["text"] for note in hits[first.chunk_id]["notes"]] == [CORRECTION]
    texts = [note["text"] for note in hits[second.chunk_id]["notes"]]
    assert texts == [f"Thought {number} about yeast." for number in (9, 8, 7)]
    assert hits[second.chunk_id]["further_notes"] == 6
    text = await call_text(app, "search_kb", filters=filters)
    assert "At least 6 more notes: get_chunk shows them." in text


async def test_a_note_among_the_hits_stands_once(app: App, ctx: Context) -> None:
    """A correction also stands under its passage, which is not to be read without it."""
    first, *_ = await store_sources(ctx, BAKING)
    text = "**Rye** bread in linen is what my grandmother had, with a stone on its lid."
    await save_note(app, text, about=first.chunk_id)
    note = await save_note(app, CORRECTION, about=first.chunk_id, corrects=True)
    answer = await call_result(app, "search_kb", filters={"period": "today"})
    hits = {hit["chunk_id"]: hit for hit in answer["results"]}
    assert [shown["text"] for shown in hits[first.chunk_id]["notes"]] == [CORRECTION]
    about = {"id": first.chunk_id, "title": BAKING.title, "corrected": True}
    assert hits[note["chunk_ids"][0]]["about"] == about
    passage = await call_result(app, "get_chunk", chunk_id=first.chunk_id)
    assert [shown["text"] for shown in passage["notes"]] == [CORRECTION, text.replace("*", "")]


async def test_what_a_note_answers_for_is_found_with_it(app: App, ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    saved = await save_note(app, "The tin is from Lisbon.", about=first.chunk_id, corrects=True)
    arguments = {"query": "Lisbon", "mode": "lexical"}
    answer = await call_result(app, "search_kb", **arguments)
    [hit] = answer["results"]
    assert hit["chunk_id"] == saved["chunk_ids"][0]
    subject = {"id": first.chunk_id, "title": BAKING.title, "corrected": True}
    assert subject.items() <= hit["about"].items()
    assert hit["about"]["text"][:20] == first.content[:20]
    text = await call_text(app, "search_kb", **arguments)
    assert f"It corrects {BAKING.title} (ID: {first.chunk_id}): " in text


async def test_a_note_about_a_source_stands_under_its_first_hit(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await save_note(app, "Out of print since May.", about=BAKING.source_id)
    thought = await save_note(app, "I doubt all of it.", about=BAKING.source_id)
    await save_note(app, CORRECTION, about=BAKING.source_id, corrects=True)
    filters = {"source": "baking"}
    answer = await call_result(app, "search_kb", filters=filters)
    own = [hit for hit in answer["results"] if hit["source_id"] == BAKING.source_id]
    texts = [[note["text"] for note in hit.get("notes", [])] for hit in own]
    newest_first = [CORRECTION, "I doubt all of it.", "Out of print since May."]
    assert texts == [newest_first, *[[] for _ in own[1:]]]
    source = await call_result(app, "get_source", source_id=BAKING.source_id)
    assert [note["text"] for note in source["notes"]] == newest_first
    note = await call_result(app, "get_source", source_id=thought["source_id"])
    assert note["about_id"] == BAKING.source_id


async def test_a_note_whose_passage_changed_moves_to_the_source(app: App, ctx: Context) -> None:
    """The note keeps its text, its passages and its former revision."""
    first, second, _ = await store_sources(ctx, BAKING)
    moved = await save_note(app, CORRECTION, about=first.chunk_id, corrects=True)
    await save_note(app, "Not in my oven.", about=second.chunk_id)
    changed = Section("Rye keeps in a tin.")
    await ingest_sources(ctx, replace(BAKING, sections=(changed, *BAKING.sections[1:])))
    await index(ctx, make_ample_budget())

    source = await call_result(app, "get_source", source_id=BAKING.source_id)
    [note] = source["notes"]
    assert (note["text"], note["corrects"], note["about_gone"]) == (CORRECTION, True, True)
    [other] = [chunk for chunk in source["chunks"] if chunk["chunk_id"] == second.chunk_id]
    assert [note["text"] for note in other["notes"]] == ["Not in my oven."]
    assert "has changed" in await call_text(app, "search_kb", query="Rye keeps in a tin.")
    stored = await call_result(app, "get_source", source_id=moved["source_id"])
    assert (stored["about_id"], stored["revision"]) == (BAKING.source_id, 2)
    assert [chunk["chunk_id"] for chunk in stored["chunks"]] == moved["chunk_ids"]


async def test_a_note_follows_a_highlight_whose_text_changes(app: App, ctx: Context) -> None:
    """A correction of the former text moves to the source."""
    first, *_ = await store_sources(ctx, BAKING)
    await save_note(app, "Not in my oven.", about=first.chunk_id)
    await save_note(app, CORRECTION, about=first.chunk_id, corrects=True)
    for text in ("Knead until smooth.", "Knead it."):
        changed = replace(BAKING.sections[0], text=text)
        await ingest_sources(ctx, replace(BAKING, sections=(changed, *BAKING.sections[1:])))
    await index(ctx, make_ample_budget())

    source = await call_result(app, "get_source", source_id=BAKING.source_id)
    [passage] = [chunk for chunk in source["chunks"] if chunk["text"] == "Knead it."]
    assert [note["text"] for note in passage["notes"]] == ["Not in my oven."]
    assert not passage["notes"][0].get("about_gone")
    assert [note["text"] for note in source["notes"]] == [CORRECTION]


async def test_a_note_gets_another_subject_or_becomes_a_correction(app: App, ctx: Context) -> None:
    first, second, _ = await store_sources(ctx, BAKING)
    note = await save_note(app, CORRECTION)
    changed = await change_note(app, note, about=first.chunk_id, corrects=True)
    assert changed["changed"] == ["about", "corrects"]
    arguments = {"source_id": note["source_id"], "revision": 2, "about": second.chunk_id}
    changed = await call_result(app, "save_note", EDITOR, **arguments)
    expected = f"As a correction, it stands under each hit of {BAKING.title}."
    assert changed["message"] == expected
    notes = (await call_result(app, "get_chunk", chunk_id=second.chunk_id))["notes"]
    assert [note["corrects"] for note in notes] == [True]


async def test_a_correction_is_about_something_that_exists(app: App) -> None:
    error = await call_error(app, "save_note", EDITOR, text=CORRECTION, corrects=True)
    assert "about" in error.details
    error = await call_error(app, "save_note", EDITOR, text=CORRECTION, about="nothing")
    assert error.code == "NOT_FOUND"
    note = await save_note(app, CORRECTION)
    arguments = {"source_id": note["source_id"], "revision": 1, "corrects": True}
    assert "about" in (await call_error(app, "save_note", EDITOR, **arguments)).details


async def test_editing_the_text_of_a_file_says_how_to_correct_it(app: App, ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    path = "/home/olga/notes/baking.md"
    followed = Followed(ctx.database, DISK, FileState)
    for source_id in (BAKING.source_id, first.chunk_id):
        arguments = {"source_id": source_id, "revision": 0, "text": "It keeps for a month."}
        error = await call_error(app, "save_note", OWNER, **arguments)
        assert error.code == InvalidInput.code
        assert "edit_source changes title, author and tags" in error.message
        assert '"corrects": true' in error.message
        assert path not in error.message
    await followed.load()
    await followed.store({path: FileState(1, (BAKING.source_id,))})
    assert path in (await call_error(app, "save_note", OWNER, **arguments)).message
    error = await call_error(app, "edit_source", OWNER, **arguments)
    assert error.code == InvalidInput.code
    assert "of a note, use save_note with its source_id and revision" in error.message
    assert error.message.endswith('"corrects": true: it then stands under each hit.')
    assert not error.details


async def test_get_source_says_what_can_be_edited(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    note = await save_note(app)
    for caller, of_book, of_note in (
        (OWNER, ["title", "author", "tags"], ["title", "text", "tags", "url", "about"]),
        (EDITOR, [], ["title", "text", "tags", "url", "about"]),
    ):
        book = await call_result(app, "get_source", caller, source_id=BAKING.source_id)
        own = await call_result(app, "get_source", caller, source_id=note["source_id"])
        assert (book["editable"], own["editable"]) == (of_book, of_note)
