"""One text is stored as one note, and a text that differs in meaning as a note of its own.

A claim, `claims/{hash}`, says which note has a text. Calls that save one text at the same moment
compete for it.
"""

import asyncio
from typing import Any

import pytest

from shared.firestore.documents import Reference
from shared.firestore.writes import Delete, Update
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.forgetting import OWNER, forget
from tests.support.knowledge import BAKING, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OTHER_EDITOR, change_note, save_note
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_error

OTHER_TEXT = "Salt slows yeast."


async def read_holders(ctx: Context) -> list[str]:
    return [claim["holder"] for claim in (await read_documents(ctx, "claims")).values()]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("I am allergic to penicillin.", "I am not allergic to penicillin."),
        ("Bob reports to Alice.", "Alice reports to Bob."),
        ("The freezer is at 5 degrees.", "The freezer is at -5 degrees."),
        ("Write it in C.", "Write it in C++."),
        ("Keep files that match x", "Keep files that match !x"),
        ("The door code is 4711.", "The door code is 4712."),
        ("Ina drinks in Maßen.", "Ina drinks in Massen."),
        ("The area is 5 m².", "The area is 5 m2."),
        ("Is the oven on?", "Is the oven on!"),
    ],
)
async def test_a_correction_is_saved_and_names_what_is_near(
    app: App, text: str, other: str
) -> None:
    first = await save_note(app, text)
    second = await save_note(app, other)
    assert not second["duplicate"]
    [near] = second["similar"]
    assert (near["source_id"], near["title"]) == (first["source_id"], first["title"])
    assert 0 < near["similarity"] <= 1
    third = await save_note(app, f"{other} Really.")
    assert "nearly the same" in third["message"]
    assert second["source_id"] in str(third["similar"])


@pytest.mark.parametrize("is_down", [True, False])
async def test_spaces_case_and_a_full_stop_do_not_differ(
    app: App, embedder: WordEmbedder, *, is_down: bool
) -> None:
    first = await save_note(app)
    embedder.is_down = is_down
    for same in (
        "rye bread keeps for a  week if it is\nwrapped in linen",
        "Rye bread keeps for a\u00a0week if it is wrapped in LINEN.",
    ):
        second = await save_note(app, same, OTHER_EDITOR)
        assert (second["duplicate"], second["source_id"]) == (True, first["source_id"])


async def test_a_text_about_another_passage_or_page_is_saved(app: App, ctx: Context) -> None:
    passages = await store_sources(ctx, BAKING)
    abouts: list[dict[str, Any]] = [
        {},
        {"about": passages[0].chunk_id},
        {"about": passages[1].chunk_id},
        {"url": "https://example.com/rye"},
    ]
    notes = [await save_note(app, **about) for about in abouts]
    assert [note["duplicate"] for note in notes] == [False] * 4
    assert (await save_note(app, **abouts[1]))["source_id"] == notes[1]["source_id"]


@pytest.mark.parametrize("is_down", [True, False])
async def test_ten_calls_at_once_store_one_note(apps: Apps, ctx: Context, *, is_down: bool) -> None:
    """Every call has a connection of its own, as functions have."""
    embedder = WordEmbedder()
    embedder.is_down = is_down
    notes = await asyncio.gather(*(save_note(apps(embedder=embedder)) for _ in range(10)))
    [source_id] = await read_documents(ctx, "sources")
    assert {note["source_id"] for note in notes} == {source_id}
    assert sorted(note["duplicate"] for note in notes) == [False, *[True] * 9]
    assert await read_holders(ctx) == [source_id]


async def test_a_loser_answers_like_a_duplicate(app: App, apps: Apps) -> None:
    async def save_first() -> None:
        await save_note(app)

    await save_note(app, OTHER_TEXT)
    racing = apps(call_before_commit(1, save_first))
    note = await save_note(racing)
    assert note["message"].startswith("Nothing was stored")
    assert note["text"] == NOTE_TEXT


async def test_a_note_claims_its_text_while_it_has_it(app: App, ctx: Context) -> None:
    note = await save_note(app)
    source_id = note["source_id"]
    note = await change_note(app, note, tags=["bread"])
    assert await read_holders(ctx) == [source_id]
    await change_note(app, note, text=OTHER_TEXT)
    assert (await save_note(app, OTHER_TEXT))["source_id"] == source_id
    await forget(app, source_id=source_id)
    assert await read_holders(ctx) == []
    await forget(app, source_id=source_id, forgotten=False)
    assert await read_holders(ctx) == [source_id]
    assert (await save_note(app, OTHER_TEXT))["source_id"] == source_id
    assert not (await save_note(app))["duplicate"]


async def test_a_change_to_the_text_of_another_note_is_refused(app: App, ctx: Context) -> None:
    note, other = await save_note(app), await save_note(app, OTHER_TEXT)
    change = {"source_id": note["source_id"], "revision": 1, "text": OTHER_TEXT}
    error = await call_error(app, "save_note", EDITOR, **change)
    assert error.code == "CONFLICT"
    assert error.details["duplicate"] == other["source_id"]
    changed = await change_note(app, note, text=OTHER_TEXT, again=True)
    assert changed["revision"] == 2
    assert await read_holders(ctx) == [other["source_id"]]


async def test_a_second_note_of_a_text_leaves_the_claim_to_the_first(
    app: App, ctx: Context
) -> None:
    first = await save_note(app)
    second = await save_note(app, again=True)
    await change_note(app, second, tags=["bread"])
    await forget(app, source_id=second["source_id"])
    assert await read_holders(ctx) == [first["source_id"]]
    await forget(app, source_id=second["source_id"], forgotten=False)
    assert await read_holders(ctx) == [first["source_id"]]


async def test_a_note_whose_text_was_saved_again_stays_forgotten(app: App, ctx: Context) -> None:
    first = await save_note(app)
    restoring = {"source_id": first["source_id"], "forgotten": False}
    await forget(app, source_id=first["source_id"])
    second = await save_note(app)
    assert not second["duplicate"]
    error = await call_error(app, "forget", OWNER, **restoring)
    assert error.code == "CONFLICT"
    assert error.details["duplicate"] == second["source_id"]
    assert "saved again" in error.message

    await forget(app, source_id=second["source_id"])
    assert (await forget(app, **restoring))["restored"]["chunks"] == 1
    assert await read_holders(ctx) == [first["source_id"]]


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_claim_whose_note_says_something_else_is_taken_over(
    app: App, ctx: Context, *, is_gone: bool
) -> None:
    """Ingest can replace or remove a note, and does not know of claims."""
    note = await save_note(app)
    reference = Reference("sources", note["source_id"])
    change = Delete(reference) if is_gone else Update(reference, {"text": OTHER_TEXT})
    await ctx.database.commit([change])
    again = await save_note(app)
    assert not again["duplicate"]
    assert await read_holders(ctx) == [again["source_id"]]
