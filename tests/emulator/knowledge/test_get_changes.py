"""`get_changes` lists what a user changed through any program, and what undoes it."""

from datetime import timedelta
from typing import Any

import pytest

from shared.core.caller import Caller, Role
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.knowledge import BAKING, store_sources
from tests.support.links import ESSAY, SITE_URL, fetch_due_links, make_text_page, serve_site
from tests.support.small_sources import NOON
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import call_result, call_text
from tests.support.traces import make_sample_trace

OLGA = Caller.of("olga", role=Role.OWNER, client="Reading Assistant")
BEN = Caller.of("ben", role=Role.OWNER)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


async def list_changes(app: App, caller: Caller = OLGA, **arguments: Any) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = (await call_result(app, "get_changes", caller, **arguments))[
        "changes"
    ]
    return changes


async def change(app: App, clock: SettableClock, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool a second later than the call before."""
    clock.advance(seconds=1)
    return await call_result(app, tool, OLGA, **arguments)


async def undo(app: App, clock: SettableClock, item: dict[str, Any]) -> None:
    await change(app, clock, item["undo"]["tool"], **item["undo"]["arguments"])


async def test_each_kind_of_change_is_listed_with_its_undo(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    note = await change(app, clock, "save_note", text="Rye keeps for a week.")
    revised = {"source_id": note["source_id"], "revision": 1, "text": "Rye keeps for a month."}
    await change(app, clock, "save_note", **revised)
    fix = {"text": "It keeps in tins.", "about": first.chunk_id, "corrects": True}
    await change(app, clock, "save_note", **fix)
    await change(app, clock, "edit_source", source_id="baking", revision=0, title="Loaves")
    await change(app, clock, "forget", chunk_id=first.chunk_id)
    await change(app, clock, "forget", source_id="baking")
    await change(app, clock, "forget", source_id="baking", forgotten=False)
    await change(app, clock, "add_task", tasks=[{"title": "Buy flour"}, {"title": "Buy rye"}])
    await change(app, clock, "complete_task", task_id="1")
    await change(app, clock, "complete_task", task_id="1", completed=False)
    await change(app, clock, "update_task", task_id="2", title="Buy oats")
    await change(app, clock, "delete_task", task_id="2")
    await change(app, clock, "restore_task", task_id="2")
    trace = await change(app, clock, "contribute_trace", **make_sample_trace(0))
    await change(app, clock, "withdraw_trace", trace_id=trace["trace_id"])
    await change(app, clock, "save_link", url="https://boats.example/sloops")

    changes = await list_changes(app)
    assert [(item["action"], item["title"]) for item in reversed(changes)] == [
        ("saved", "Rye keeps for a week."),
        ("edited", "Rye keeps for a month."),
        ("corrected", "It keeps in tins."),
        ("edited: title", "Loaves"),
        ("forgot", "Loaves"),
        ("forgot", "Loaves"),
        ("restored", "Loaves"),
        *(("added", title) for title in ("Buy flour", "Buy rye")[::-1]),
        ("completed", "Buy flour"),
        ("reopened", "Buy flour"),
        ("edited", "Buy oats"),
        ("deleted", "Buy oats"),
        ("restored", "Buy oats"),
        ("contributed", trace["title"]),
        ("withdrew", trace["title"]),
        ("saved", "https://boats.example/sloops"),
    ]
    undoable = [item["id"] for item in changes if "undo" in item]
    assert len(undoable) == len(set(undoable)) == len({item["id"] for item in changes})
    assert {item["client"] for item in changes} == {"Reading Assistant"}
    text = await call_text(app, "get_changes", OLGA)
    assert f'corrected "It keeps in tins." (ID: {changes[-3]["id"]}) by Reading' in text


async def test_a_listed_undo_works_and_is_listed_itself(app: App, clock: SettableClock) -> None:
    note = await call_result(app, "save_note", OLGA, text="Rye keeps for a week.")
    [saved] = await list_changes(app)
    assert saved["time"] == "2024-06-12 12:00"
    await undo(app, clock, saved)
    forgot, saved = await list_changes(app)
    assert (forgot["action"], forgot["id"], "undo" in saved) == ("forgot", note["source_id"], False)
    await undo(app, clock, forgot)
    assert await call_result(app, "get_source", source_id=note["source_id"])


async def test_the_page_of_a_stored_link_has_no_undo(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await call_result(app, "save_link", OLGA, url=f"{SITE_URL}/essay")
    [saved] = await list_changes(app)
    assert saved["undo"]["arguments"]["cancel"]
    with serve_site(essay=make_text_page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    [saved] = await list_changes(app)
    assert (saved["action"], "undo" in saved) == ("saved", False)
    await change(app, clock, "edit_source", source_id=saved["id"], revision=0, title="Reefs")
    edited, _ = await list_changes(app)
    assert edited["undo"]["tool"] == "edit_source"


async def test_what_changed_nothing_or_belongs_to_others_is_not_listed(app: App) -> None:
    for key in ({}, {"idempotency_key": "k"}, {"idempotency_key": "k"}):
        await call_result(app, "save_note", OLGA, text="Rye keeps for a week.", **key)
    await call_result(app, "save_note", BEN, text="Salt slows the yeast.")
    [item] = await list_changes(app)
    assert item["title"] == "Rye keeps for a week."


async def test_a_page_leads_to_the_next(app: App, clock: SettableClock) -> None:
    nothing = await call_result(app, "get_changes", OLGA)
    assert (nothing["changes"], "nothing" in nothing["message"]) == ([], True)
    for title in ("Buy flour", "Buy rye"):
        clock.advance(seconds=1)
        await call_result(app, "add_task", OLGA, title=title)
    last = await call_result(app, "get_changes", OLGA, limit=1)
    assert [item["title"] for item in last["changes"]] == ["Buy rye"]
    assert f"cursor {last['next_cursor']}" in await call_text(app, "get_changes", OLGA, limit=1)
    cursor = last["next_cursor"]
    earlier = await call_result(app, "get_changes", OLGA, limit=1, cursor=cursor)
    assert [item["title"] for item in earlier["changes"]] == ["Buy flour"]
    assert "next_cursor" not in earlier


async def test_only_the_last_change_on_any_page_has_an_undo(app: App, clock: SettableClock) -> None:
    added = [{"title": f"Buy {name}"} for name in ("flour", "rye", "oats")]
    await change(app, clock, "add_task", tasks=added)
    await change(app, clock, "complete_task", task_id="2")
    first = await call_result(app, "get_changes", OLGA, limit=1)
    cursor = first["next_cursor"]
    undoable = {}
    for _ in added:
        page = await call_result(app, "get_changes", OLGA, cursor=cursor, max_tokens=100)
        [item] = page["changes"]
        undoable[item["title"]] = "undo" in item
        cursor = page.get("next_cursor")
    assert cursor is None
    assert undoable == {"Buy oats": True, "Buy rye": False, "Buy flour": True}


async def test_a_call_without_a_key_stores_a_line_and_no_answer(app: App) -> None:
    await call_result(app, "add_task", OLGA, title="Buy flour")
    await call_result(app, "add_task", OLGA, title="Buy rye", idempotency_key="k")
    records = (await read_app_documents(app, "users/olga/replays")).values()
    assert sorted(bool(record["result"]) for record in records) == [False, True]
    for record in records:
        assert record["purge_at"] == NOON + timedelta(days=30)
        assert len(record["changes"]) < 300
