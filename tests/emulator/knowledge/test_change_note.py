"""`save_note` changes a note, keeps its former text for 30 days, and restores it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.jobs.purge.job import purge
from functions.jobs.repair.job import repair
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, index_all, set_fields, store_sources
from tests.support.notes import EDITOR, NOTE_TEXT, OWNER, change_note, save_note, search_source_ids
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_result

OATS = "Oat bread keeps for two days, however it is wrapped."
"""A text that shares few words with `NOTE_TEXT`, in which bread is wrapped in linen."""
PAGES = [
    f"Page {number}. " + "The crew reefed the mainsail before the storm. " * 40
    for number in range(4)
]
"""Paragraphs that are each long enough for a passage of its own."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2026, 5, 1, 12, tzinfo=UTC))


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def app(
    settings: Settings, clock: SettableClock, embedder: WordEmbedder
) -> AsyncIterator[WatchedApp]:
    opened = WatchedApp(settings, clock=clock, embedder=embedder)
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    return app.context(Caller(), Meter())


async def read_text(app: App, note: dict[str, Any]) -> str:
    """Return the stored text of a note, as get_source shows it."""
    source = await call_result(app, "get_source", source_id=note["source_id"], detail="full")
    return "\n".join(chunk["text"] for chunk in source["chunks"])


async def assert_nothing_to_repair(ctx: Context) -> None:
    """Assert that the postings are those of the stored passages.

    Postings are the lists of passages by word (`lexicon`) and by facet (`facets`). The job `repair`
    may only remove empty ones, and the job `index` may only delete former passages, which have left
    the postings already.
    """
    assert set((await repair(ctx, make_ample_budget())).counts) <= {"removed"}
    assert await repair(ctx, make_ample_budget()) == Report()
    lexicon, facets = await read_documents(ctx, "lexicon"), await read_documents(ctx, "facets")
    await index_all(ctx)
    assert await read_documents(ctx, "lexicon") == lexicon
    assert await read_documents(ctx, "facets") == facets
    await assert_postings_are_exact(ctx)


async def test_a_changed_note_is_found_by_its_new_words_only(app: App, ctx: Context) -> None:
    note = await save_note(app)
    changed = await change_note(app, note, text=OATS)
    assert changed["revision"] == 2
    assert changed["changed"] == ["title", "text"]
    assert await search_source_ids(app, "oat", "lexical") == [note["source_id"]]
    assert await search_source_ids(app, "linen", "lexical") == []
    assert await read_text(app, note) == OATS
    assert (await read_chunks(ctx)).keys() == set(changed["chunk_ids"])
    await assert_nothing_to_repair(ctx)


async def test_unchanged_passages_keep_vectors_and_cards(app: App, ctx: Context) -> None:
    note = await save_note(app, "\n\n".join(PAGES), title="Log")
    first = note["chunk_ids"][0]
    card = {"knowledge_card": {"summary": "Reef early."}, "cluster_id": ["c1"]}
    await set_fields(ctx, f"chunks/{first}", card)
    changed = await change_note(app, note, text="\n\n".join([*PAGES, "The harbour."]), tags=["sea"])
    assert changed["chunk_ids"][0] == first
    stored = (await read_chunks(ctx))[first]
    assert stored["knowledge_card"] == card["knowledge_card"]
    assert stored["tags"] == ["sea"]
    assert "embed" not in stored["pending"]
    assert "index" not in stored["pending"]
    await assert_nothing_to_repair(ctx)


async def test_a_note_with_a_new_title_is_embedded_again(app: App, ctx: Context) -> None:
    note = await save_note(app)
    [before_change] = (await read_chunks(ctx)).values()
    await change_note(app, note, title="Keeping bread")
    [stored] = (await read_chunks(ctx)).values()
    assert stored["embedding_f16"] != before_change["embedding_f16"]
    assert stored["pending"].keys() == {"card", "extract", "cluster"}
    assert await read_text(app, note) == NOTE_TEXT
    await assert_nothing_to_repair(ctx)


async def test_a_change_is_stored_while_the_embedding_model_is_down(
    app: App, ctx: Context, embedder: WordEmbedder
) -> None:
    note = await save_note(app)
    embedder.is_down = True
    changed = await change_note(app, note, title="Keeping bread")
    assert changed["waiting"] == 1
    [stored] = (await read_chunks(ctx)).values()
    assert "embed" in stored["pending"]
    assert "embedding_f16" not in stored
    await assert_nothing_to_repair(ctx)


async def test_former_texts_are_kept_for_thirty_days(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    note = await save_note(app)
    changed = await change_note(app, note, text=OATS)
    former_texts = f"sources/{note['source_id']}/note_revisions"

    clock.advance(days=29)
    assert (await purge(ctx, make_ample_budget())).counts["former_notes"] == 0
    assert list(await read_documents(ctx, former_texts)) == ["1"]

    clock.advance(days=2)
    error = await call_error(app, "save_note", EDITOR, **changed["undo"]["arguments"])
    assert error.code == "NOT_FOUND"
    assert list(error.details) == ["restore_revision"]
    assert (await purge(ctx, make_ample_budget())).counts["former_notes"] == 1
    assert await read_documents(ctx, former_texts) == {}


async def test_a_change_of_a_stale_revision_gets_the_current_text(app: App) -> None:
    note = await save_note(app)
    await change_note(app, note, text=OATS)
    stale = {"source_id": note["source_id"], "revision": 1, "text": "Something else."}
    error = await call_error(app, "save_note", EDITOR, **stale)
    assert error.code == "CONFLICT"
    assert error.details["revision"] == 2
    assert error.details["text"] == OATS


async def test_one_of_two_simultaneous_changes_is_rejected(app: App, ctx: Context) -> None:
    note = await save_note(app)
    base = {"source_id": note["source_id"], "revision": 1}
    answers = await asyncio.gather(
        *(call(app, "save_note", EDITOR, **base, text=f"Text {name}.") for name in "ab")
    )
    codes = sorted(answer.error.code if answer.error else "" for answer in answers)
    assert codes == ["", "CONFLICT"]
    await assert_nothing_to_repair(ctx)


async def test_a_card_written_during_a_change_is_kept(app: App, ctx: Context, apps: Apps) -> None:
    note = await save_note(app)
    [chunk_id] = note["chunk_ids"]

    async def write_card() -> None:
        await set_fields(ctx, f"chunks/{chunk_id}", {"knowledge_card": {"summary": "Wrap it."}})

    racing = apps(call_before_commit(1, write_card))
    await change_note(racing, note, tags=["kitchen"])

    stored = (await read_chunks(ctx))[chunk_id]
    assert stored["knowledge_card"] == {"summary": "Wrap it."}
    assert stored["tags"] == ["kitchen"]
    await assert_nothing_to_repair(ctx)


async def test_a_change_to_the_same_text_writes_nothing(app: App) -> None:
    note = await save_note(app)
    same = {"source_id": note["source_id"], "revision": 1, "text": NOTE_TEXT}
    answer = await call(app, "save_note", EDITOR, **same)
    assert answer.receipt.documents_written == 0
    assert (answer.result or {})["duplicate"]
    assert "Nothing was stored" in (answer.text or "")


async def test_only_a_note_can_be_changed(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    for source_id in ("baking", "note-0"):
        attempt = {"source_id": source_id, "revision": 1, "text": OATS}
        error = await call_error(app, "save_note", OWNER, **attempt)
        assert error.code == "NOT_FOUND"
        assert list(error.details) == ["source_id"]


# Forgetting or restoring this note takes three commits.
@pytest.mark.parametrize("commit", [2, 3])
@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_note_cannot_be_changed_while_it_is_moved(
    app: App, ctx: Context, clock: SettableClock, commit: int, *, forgotten: bool
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

    moving = WatchedApp(
        app.settings,
        call_before_commit(commit, change_during_move),
        clock=clock,
        embedder=WordEmbedder(),
    )
    await call_result(moving, "forget", OWNER, **target, forgotten=forgotten)
    await moving.aclose()
    assert codes == ["CONFLICT"]

    if forgotten:
        assert await read_chunks(ctx) == {}
        await call_result(app, "forget", OWNER, **target, forgotten=False)
    assert await read_text(app, note) == NOTE_TEXT
    await change_note(app, note, text=OATS)
    assert await read_text(app, note) == OATS
    await index_all(ctx)
    await assert_nothing_to_repair(ctx)
