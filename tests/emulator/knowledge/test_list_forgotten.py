"""`list_forgotten`: what can be restored, for whom may restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.purge.job import purge
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.notes import EDITOR, OTHER_EDITOR, OWNER, save_note
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from shared.core.caller import Caller
    from shared.runtime.context import App, Context
    from tests.support.clock import SettableClock

pytestmark = pytest.mark.anyio


async def forget(app: App, caller: Caller = OWNER, **target: str) -> None:
    await call_result(app, "forget", caller, **target)


async def read(app: App, caller: Caller = OWNER, **more: Any) -> dict[str, Any]:
    return await call_result(app, "list_forgotten", caller, **more)


async def list_names(app: App, caller: Caller = OWNER) -> list[str]:
    items = (await read(app, caller))["forgotten"]
    return [item.get("chunk_id", item["source_id"]) for item in items]


async def test_sources_and_single_passages_are_listed(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    baking = [chunk for chunk in chunks if chunk.source_id == "baking"]
    await forget(app, chunk_id=baking[0].chunk_id)
    clock.advance(days=1)
    await forget(app, source_id="sailing", reason="Sold the boat.")
    first, second = (await read(app))["forgotten"]
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
    assert (second["title"], second["chunk_count"]) == ("Bread at Home", 1)


async def test_what_is_restored_or_expired_is_not_listed(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await forget(app, source_id="baking")
    clock.advance(days=20)
    await forget(app, source_id="sailing")
    assert await list_names(app) == ["sailing", "baking"]
    clock.advance(days=11)
    assert await list_names(app) == ["sailing"]
    await purge(ctx, make_ample_budget())
    assert await list_names(app) == ["sailing"]
    await call_result(app, "forget", OWNER, source_id="sailing", forgotten=False)
    assert await list_names(app) == []


async def test_an_editor_sees_the_notes_that_they_saved(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    note = await save_note(app)
    await forget(app, EDITOR, source_id=note["source_id"])
    await forget(app, source_id="baking")
    assert await list_names(app, EDITOR) == [note["source_id"]]
    assert await list_names(app, OTHER_EDITOR) == []
    assert set(await list_names(app)) == {note["source_id"], "baking"}


async def test_pages_continue(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    baking = [chunk.chunk_id for chunk in chunks if chunk.source_id == "baking"]
    for chunk_id in baking[:2]:
        await forget(app, chunk_id=chunk_id)
    await forget(app, source_id="sailing")
    listed: list[str] = []
    page: dict[str, Any] = {"next_cursor": None}
    while "next_cursor" in page:
        page = await read(app, limit=1, cursor=page["next_cursor"])
        listed += [item.get("chunk_id", item["source_id"]) for item in page["forgotten"]]
    assert listed == ["sailing", baking[1], baking[0]]


async def test_an_editor_learns_no_id_of_a_forgotten_source(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    notes = [(await save_note(app, text=f"Note {number}."))["source_id"] for number in range(2)]
    await forget(app, EDITOR, source_id=notes[0])
    await forget(app, source_id="baking")
    await forget(app, source_id="sailing")
    await forget(app, EDITOR, source_id=notes[1])
    first = await read(app, EDITOR, limit=1)
    assert [item["source_id"] for item in first["forgotten"]] == [notes[1]]
    last = await read(app, EDITOR, limit=1, cursor=first["next_cursor"])
    assert [item["source_id"] for item in last["forgotten"]] == [notes[0]]
    assert "next_cursor" not in last
    assert "next_cursor" not in await read(app, OTHER_EDITOR, limit=1)
