"""The pages of `search_traces` together show each hit exactly once.

A trace is a solved coding problem that users share. Flagged and superseded traces are hidden.
"""

from datetime import timedelta
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.apps import Apps
from tests.support.clock import NOON, SettableClock
from tests.support.tool_calls import ANONYMOUS, call, call_all_pages, call_result
from tests.support.traces import SPAM, add_votes, collect_trace_ids, contribute

QUERY: dict[str, Any] = {"query": "anchor"}
TAGS: dict[str, Any] = {"tags": ["sea"]}
QUERY_AND_TAGS: dict[str, Any] = {"query": "anchor", "tags": ["sea"]}
each_kind_of_search = pytest.mark.parametrize(
    "arguments", [QUERY, TAGS, QUERY_AND_TAGS], ids=["query", "tags", "both"]
)


async def contribute_anchors(app: App, clock: SettableClock, count: int) -> list[str]:
    """Contribute traces with a common word and tag; three at a time have the same date."""
    trace_ids: list[str] = []
    for number in range(count):
        clock.now = NOON + timedelta(hours=number // 3)
        texts: dict[str, Any] = {"title": f"anchor {number}", "tags": ["sea", f"t{number}"]}
        trace_ids.append(await contribute(app, number, **texts))
    return trace_ids


@pytest.fixture(scope="module")
async def dozen(shared_apps: Apps) -> tuple[App, list[str]]:
    """Twelve traces for tests that only read, with their ids."""
    clock = SettableClock(NOON)
    app = shared_apps(clock=clock)
    return app, await contribute_anchors(app, clock, 12)


async def load_pages(app: App, **arguments: Any) -> list[dict[str, Any]]:
    """Return all pages of an anonymous caller's search."""
    return await call_all_pages(app, "search_traces", ANONYMOUS, **arguments)


@each_kind_of_search
async def test_pages_show_every_trace_once(
    dozen: tuple[App, list[str]], arguments: dict[str, Any]
) -> None:
    app, trace_ids = dozen
    [long_page] = await load_pages(app, **arguments, limit=50)
    assert sorted(collect_trace_ids([long_page])) == sorted(trace_ids)
    for limit in (1, 4, 12):
        pages = await load_pages(app, **arguments, limit=limit)
        assert collect_trace_ids(pages) == collect_trace_ids([long_page])
        hits = [hit for page in pages for hit in page["results"]]
        assert [hit["rank"] for hit in hits] == list(range(1, 13))
        assert [len(page["results"]) for page in pages] == [limit] * (12 // limit)


@each_kind_of_search
async def test_changes_between_pages_neither_lose_nor_repeat_hits(
    app: App, clock: SettableClock, arguments: dict[str, Any]
) -> None:
    trace_ids = await contribute_anchors(app, clock, 9)
    answer = await call(app, "search_traces", ANONYMOUS, **arguments, limit=3)
    first_page = answer.result
    assert first_page
    assert first_page["next_cursor"] in str(answer.text)
    first_ids = collect_trace_ids([first_page])

    withdrawn = next(trace_id for trace_id in trace_ids if trace_id not in first_ids)
    await call_result(app, "withdraw_trace", trace_id=withdrawn)
    await call_result(app, "withdraw_trace", trace_id=first_ids[0])
    clock.advance(days=1)
    await contribute(app, 20, title="anchor of late", tags=["sea"])

    further_pages = await call_all_pages(
        app, "search_traces", ANONYMOUS, **arguments, limit=50, cursor=first_page["next_cursor"]
    )
    further_ids = collect_trace_ids(further_pages)
    assert set(trace_ids) - {withdrawn} - set(first_ids) <= set(further_ids)
    assert not {withdrawn, *first_ids} & set(further_ids)


@each_kind_of_search
async def test_flagged_and_superseded_traces_leave_no_gap(
    app: App, clock: SettableClock, arguments: dict[str, Any]
) -> None:
    trace_ids = await contribute_anchors(app, clock, 9)
    flagged = {trace_ids[8], trace_ids[7], trace_ids[4]}
    superseded = trace_ids[3]
    for trace_id in flagged:
        await add_votes(app, trace_id, 2, **SPAM)
    successor = await contribute(app, 20, title="anchor again", tags=["sea"], supersedes=superseded)

    visible = {*trace_ids, successor} - {superseded} - flagged
    for limit in (1, 2, 50):
        pages = await load_pages(app, **arguments, limit=limit)
        assert sorted(collect_trace_ids(pages)) == sorted(visible)
        assert not any("message" in page for page in pages)
        assert [hit["rank"] for page in pages for hit in page["results"]] == list(range(1, 7))

    pages = await load_pages(app, **arguments, limit=2, include_flagged=True)
    assert sorted(collect_trace_ids(pages)) == sorted(visible | flagged)


async def test_long_hits_make_short_pages(app: App) -> None:
    four_byte_letters = "🧀" * 200
    tags = ["sea", *(f"{number:02}{'x' * 58}" for number in range(19))]
    trace_ids = [
        await contribute(app, number, title=f"{number} anchor {four_byte_letters}"[:200], tags=tags)
        for number in range(24)
    ]
    for arguments in (QUERY, TAGS):
        pages = await load_pages(app, **arguments, limit=50)
        assert len(pages) > 1
        assert sorted(collect_trace_ids(pages)) == sorted(trace_ids)
        assert all(len(str(page).encode()) < 100_000 for page in pages)
