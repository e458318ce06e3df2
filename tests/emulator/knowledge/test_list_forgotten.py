"""`list_forgotten` lists forgotten sources and passages to those who may restore them."""

from __future__ import annotations

from typing import Any

from functions.jobs.purge.job import purge
from shared.core.caller import Caller
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.notes import EDITOR, OTHER_EDITOR, OWNER, save_note
from tests.support.tool_calls import call_result


async def forget(app: App, caller: Caller = OWNER, **target: str) -> None:
    """Forget a source or a passage."""
    await call_result(app, "forget", caller, **target)


async def list_forgotten(app: App, caller: Caller = OWNER, **arguments: Any) -> dict[str, Any]:
    """Call the tool, and return its result."""
    return await call_result(app, "list_forgotten", caller, **arguments)


def get_ids(out: dict[str, Any]) -> list[str]:
    """Return the ids of the passages and sources on a page."""
    return [record.get("chunk_id", record["source_id"]) for record in out["forgotten"]]


async def list_ids(app: App, caller: Caller = OWNER) -> list[str]:
    """Return the ids of the passages and sources that a user sees."""
    return get_ids(await list_forgotten(app, caller))


async def test_sources_and_single_passages_are_listed(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    baking = [chunk for chunk in chunks if chunk.source_id == "baking"]
    await forget(app, chunk_id=baking[0].chunk_id)
    clock.advance(days=1)
    await forget(app, source_id="sailing", reason="Sold the boat.")

    first, second = (await list_forgotten(app))["forgotten"]
    today = f"{clock():%Y-%m-%d}"
    assert first == {
        "source_id": "sailing",
        "title": SAILING.title,
        "chunk_count": len(chunks) - len(baking),
        "forgotten": today,
        "forgotten_by": "olga",
        "reason": "Sold the boat.",
        "restorable_until": first["restorable_until"],
        "missing": False,
    }
    assert first["restorable_until"] > second["restorable_until"] > today

    assert second["chunk_id"] == baking[0].chunk_id
    assert second["snippet"] == baking[0].content
    assert second["title"] == "Bread at Home"
    assert second["chunk_count"] == 1


async def test_restored_and_expired_sources_are_not_listed(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await forget(app, source_id="baking")
    clock.advance(days=20)
    await forget(app, source_id="sailing")
    assert await list_ids(app) == ["sailing", "baking"]
    clock.advance(days=11)
    assert await list_ids(app) == ["sailing"]
    await purge(ctx, make_ample_budget())
    assert await list_ids(app) == ["sailing"]
    await call_result(app, "forget", OWNER, source_id="sailing", forgotten=False)
    assert await list_ids(app) == []


async def test_an_editor_sees_only_notes_of_their_own(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    note = await save_note(app)
    await forget(app, EDITOR, source_id=note["source_id"])
    await forget(app, source_id="baking")
    assert await list_ids(app, EDITOR) == [note["source_id"]]
    assert await list_ids(app, OTHER_EDITOR) == []
    assert set(await list_ids(app)) == {note["source_id"], "baking"}


async def test_pages_list_everything_newest_first(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    baking = [chunk.chunk_id for chunk in chunks if chunk.source_id == "baking"]
    for chunk_id in baking[:2]:
        await forget(app, chunk_id=chunk_id)
    await forget(app, source_id="sailing")
    ids: list[str] = []
    page: dict[str, Any] = {"next_cursor": None}
    while "next_cursor" in page:
        page = await list_forgotten(app, limit=1, cursor=page["next_cursor"])
        ids += get_ids(page)
    assert ids == ["sailing", baking[1], baking[0]]


async def test_an_editor_sees_no_id_of_another_users_source(app: App, ctx: Context) -> None:
    """A cursor contains no id of one either, although they come between the editor's notes."""
    await store_sources(ctx, BAKING, SAILING)
    notes = [(await save_note(app, text=f"Note {number}."))["source_id"] for number in range(2)]
    await forget(app, EDITOR, source_id=notes[0])
    await forget(app, source_id="baking")
    await forget(app, source_id="sailing")
    await forget(app, EDITOR, source_id=notes[1])

    first = await list_forgotten(app, EDITOR, limit=1)
    assert get_ids(first) == [notes[1]]
    second = await list_forgotten(app, EDITOR, limit=1, cursor=first["next_cursor"])
    assert get_ids(second) == [notes[0]]
    assert "next_cursor" not in second
    assert "next_cursor" not in await list_forgotten(app, OTHER_EDITOR, limit=1)
