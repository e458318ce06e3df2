"""`save_note` changes a note, keeps its former text for some time, and restores it."""

from typing import Any

import pytest

from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.knowledge import BAKING, index_all, set_fields, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OWNER, change_note, save_note, search_source_ids
from tests.support.secret_samples import make_tokens
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_result

OATS = "Oat bread keeps for two days, however it is wrapped."
"""A text that shares few words with `NOTE_TEXT`, in which bread is wrapped in linen."""
STEPS = {"card", "extract", "cluster"}
"""What is pending on a note that is indexed and embedded."""
PAGES = [
    f"Page {number}. " + "The crew reefed the mainsail before the storm. " * 40
    for number in range(4)
]
"""Paragraphs that are each long enough for a passage of its own."""


async def read_text(app: App, note: dict[str, Any]) -> str:
    source = await call_result(app, "get_source", source_id=note["source_id"])
    return "\n".join(chunk["text"] for chunk in source["chunks"])


async def test_unchanged_passages_keep_vectors_and_cards(app: App, ctx: Context) -> None:
    note = await save_note(app, "\n\n".join(PAGES), title="Log")
    first = note["chunk_ids"][0]
    card = {"knowledge_card": {"summary": "Reef early."}, "cluster_id": ["c1"]}
    await set_fields(ctx, f"chunks/{first}", card)
    changed = await change_note(app, note, text="\n\n".join([*PAGES, "The harbour."]), tags=["sea"])
    assert changed["revision"] == 2
    assert sorted(changed["changed"]) == ["tags", "text"]
    assert changed["chunk_ids"][0] == first
    stored = await read_chunks(ctx)
    assert stored.keys() == set(changed["chunk_ids"])
    assert stored[first].items() >= (card | {"tags": ["sea"]}).items()
    assert not {"embed", "index"} & stored[first]["pending"].keys()
    assert await search_source_ids(app, "harbour", "lexical") == [note["source_id"]]


@pytest.mark.parametrize("is_down", [True, False])
async def test_a_note_with_a_new_title_is_embedded_again(
    app: App, ctx: Context, embedder: WordEmbedder, *, is_down: bool
) -> None:
    """While the embedding model is down, the job `embed` still has to do it."""
    note = await save_note(app)
    [before_change] = (await read_chunks(ctx)).values()
    embedder.is_down = is_down
    changed = await change_note(app, note, title="Keeping bread")
    assert changed["waiting"] == is_down
    [stored] = (await read_chunks(ctx)).values()
    assert stored["pending"].keys() == STEPS | ({"embed"} if is_down else set())
    assert stored.get("embedding_f16") != before_change["embedding_f16"]
    assert ("embedding_f16" in stored) is not is_down
    assert await read_text(app, note) == NOTE_TEXT
    await assert_postings_are_exact(ctx)


async def test_former_texts_can_be_restored_for_some_time(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    note = await save_note(app)
    changed = await change_note(app, note, text=OATS)
    former_texts = f"sources/{note['source_id']}/note_revisions"

    [revision] = (await read_documents(ctx, former_texts)).values()
    clock.now = revision["purge_at"]
    error = await call_error(app, "save_note", EDITOR, **changed["undo"]["arguments"])
    assert error.code == "NOT_FOUND"
    assert list(error.details) == ["restore_revision"]


async def test_a_change_of_a_stale_revision_gets_the_current_text(app: App) -> None:
    note = await save_note(app)
    await change_note(app, note, text=OATS)
    stale = {"source_id": note["source_id"], "revision": 1, "text": "Something else."}
    error = await call_error(app, "save_note", EDITOR, **stale)
    assert error.code == "CONFLICT"
    assert error.details["revision"] == 2
    assert error.details["text"] == OATS


async def test_a_card_written_during_a_change_is_kept(app: App, ctx: Context, apps: Apps) -> None:
    note = await save_note(app)
    card = {"knowledge_card": {"summary": "Wrap it."}}

    async def write_card() -> None:
        await set_fields(ctx, f"chunks/{note['chunk_ids'][0]}", card)

    await change_note(apps(call_before_commit(1, write_card)), note, tags=["kitchen"])
    [stored] = (await read_chunks(ctx)).values()
    assert stored.items() >= (card | {"tags": ["kitchen"]}).items()
    await assert_postings_are_exact(ctx)


async def test_a_change_to_the_same_text_writes_nothing(app: App) -> None:
    """A change is searched for secrets as a new note is."""
    note = await save_note(app)
    change = {"source_id": note["source_id"], "revision": 1}
    answer = await call(app, "save_note", EDITOR, **change, text=NOTE_TEXT)
    assert answer.receipt.documents_written == 0
    assert (answer.result or {})["duplicate"]
    assert "Nothing was stored" in (answer.result or {})["message"]
    token = make_tokens()["GitHub token"]
    error = await call_error(app, "save_note", EDITOR, **change, text=f"It opens with {token}")
    assert (error.code, list(error.details)) == ("VALIDATION_ERROR", ["text"])


async def test_only_a_note_can_be_changed(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    for source_id, code in (("baking", "VALIDATION_ERROR"), ("note-0", "NOT_FOUND")):
        attempt = {"source_id": source_id, "revision": 1, "text": OATS}
        error = await call_error(app, "save_note", OWNER, **attempt)
        assert error.code == code
        assert list(error.details) == ["source_id"]


# Forgetting or restoring this note takes three commits.
@pytest.mark.parametrize("commit", [2, 3])
@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_note_cannot_be_changed_while_it_is_moved(
    app: App, ctx: Context, apps: Apps, commit: int, *, forgotten: bool
) -> None:
    """To forget or restore a note, `forget` moves its passages in several commits.

    A change in between would be deleted, or passages of the former text would be restored with it.
    """
    note = await save_note(app)
    target = {"source_id": note["source_id"]}
    if not forgotten:
        await call_result(app, "forget", OWNER, **target)
    codes: list[str] = []

    async def change_during_move() -> None:
        answer = await call(app, "save_note", EDITOR, **target, revision=1, text=OATS)
        codes.append(answer.error.code if answer.error else "")

    moving = apps(call_before_commit(commit, change_during_move))
    await call_result(moving, "forget", OWNER, **target, forgotten=forgotten)
    assert codes == ["CONFLICT"]

    if forgotten:
        assert await read_chunks(ctx) == {}
        await call_result(app, "forget", OWNER, **target, forgotten=False)
    assert await read_text(app, note) == NOTE_TEXT
    await change_note(app, note, text=OATS)
    assert await read_text(app, note) == OATS
    await index_all(ctx)
    await assert_postings_are_exact(ctx)
