"""The pages of `search_traces` together show each hit exactly once.

A trace is a solved coding problem that users share. Flagged and superseded traces are hidden.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.apps import Apps
from tests.support.tool_calls import ANONYMOUS, call, call_all_pages, call_result
from tests.support.traces import SPAM, add_votes, collect_trace_ids, contribute, make_fixed_clock

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
QUERY: dict[str, Any] = {"query": "anchor"}
TAGS: dict[str, Any] = {"tags": ["sea"]}
QUERY_AND_TAGS: dict[str, Any] = {"query": "anchor", "tags": ["sea"]}
each_kind_of_search = pytest.mark.parametrize(
    "arguments", [QUERY, TAGS, QUERY_AND_TAGS], ids=["query", "tags", "both"]
)


async def contribute_anchors(app: App, count: int, **fields: Any) -> list[str]:
    """Contribute traces with a common word and tag; three at a time have the same date."""
    trace_ids: list[str] = []
    for number in range(count):
        app.clock = make_fixed_clock(NOON + timedelta(hours=number // 3))
        texts = {"title": f"anchor {number}", "tags": ["sea", f"t{number}"]} | fields
        trace_ids.append(await contribute(app, number, **texts))
    return trace_ids


@pytest.fixture(scope="module")
async def dozen(shared_apps: Apps) -> tuple[App, list[str]]:
    """Twelve traces for tests that only read, with their ids."""
    app = shared_apps()
    trace_ids = await contribute_anchors(app, 12)
    app.clock = make_fixed_clock(NOON)
    return app, trace_ids


async def load_pages(app: App, **arguments: Any) -> list[dict[str, Any]]:
    """Return all pages of an anonymous caller's search."""
    return await call_all_pages(app, "search_traces", ANONYMOUS, **arguments)


@each_kind_of_search
@pytest.mark.parametrize("limit", [1, 4, 12, 50])
async def test_pages_show_every_trace_once(
    dozen: tuple[App, list[str]], arguments: dict[str, Any], limit: int
) -> None:
    app, trace_ids = dozen
    pages = await load_pages(app, **arguments, limit=limit)
    assert sorted(collect_trace_ids(pages)) == sorted(trace_ids)
    hits = [hit for page in pages for hit in page["results"]]
    assert [hit["rank"] for hit in hits] == list(range(1, 13))
    assert all(len(page["results"]) <= limit for page in pages)


@each_kind_of_search
async def test_order_equals_that_of_one_long_page(
    dozen: tuple[App, list[str]], arguments: dict[str, Any]
) -> None:
    app, _ = dozen
    [long_page] = await load_pages(app, **arguments, limit=50)
    short_pages = await load_pages(app, **arguments, limit=2)
    assert collect_trace_ids(short_pages) == collect_trace_ids([long_page])


@each_kind_of_search
async def test_changes_between_pages_neither_lose_nor_repeat_hits(
    app: App, arguments: dict[str, Any]
) -> None:
    trace_ids = await contribute_anchors(app, 9)
    first_page = await call_result(app, "search_traces", ANONYMOUS, **arguments, limit=3)
    first_ids = collect_trace_ids([first_page])

    withdrawn = next(trace_id for trace_id in trace_ids if trace_id not in first_ids)
    await call_result(app, "withdraw_trace", trace_id=withdrawn)
    await call_result(app, "withdraw_trace", trace_id=first_ids[0])
    app.clock = lambda: NOON + timedelta(days=1)
    await contribute(app, 20, title="anchor of late", tags=["sea"])

    further_pages = await call_all_pages(
        app, "search_traces", ANONYMOUS, **arguments, limit=50, cursor=first_page["next_cursor"]
    )
    further_ids = collect_trace_ids(further_pages)
    assert set(trace_ids) - {withdrawn} - set(first_ids) <= set(further_ids)
    assert not {withdrawn, *first_ids} & set(further_ids)


@each_kind_of_search
async def test_flagged_and_superseded_traces_leave_no_gap(
    app: App, arguments: dict[str, Any]
) -> None:
    trace_ids = await contribute_anchors(app, 9)
    flagged = {trace_ids[8], trace_ids[7], trace_ids[4]}
    superseded = trace_ids[3]
    for trace_id in flagged:
        await add_votes(app, trace_id, 2, **SPAM)
    successor = await contribute(app, 20, title="anchor again", tags=["sea"], supersedes=superseded)

    visible = {*trace_ids, successor} - {superseded} - flagged
    for limit in (1, 2, 50):
        pages = await load_pages(app, **arguments, limit=limit)
        assert sorted(collect_trace_ids(pages)) == sorted(visible)
        assert [hit["rank"] for page in pages for hit in page["results"]] == list(range(1, 7))

    pages = await load_pages(app, **arguments, limit=2, include_flagged=True)
    assert sorted(collect_trace_ids(pages)) == sorted(visible | flagged)


async def test_page_after_hidden_traces_does_not_say_no_match(app: App) -> None:
    trace_ids = await contribute_anchors(app, 6)
    for latest in trace_ids[3:]:
        await add_votes(app, latest, 2, **SPAM)
    answer = await call(app, "search_traces", ANONYMOUS, **TAGS, limit=1)
    assert answer.result
    assert len(answer.result["results"]) == 1
    assert answer.result["results"][0]["trace_id"] in trace_ids[:3]
    assert "next_cursor" in answer.result
    assert "No traces found" not in str(answer.text)


async def test_text_has_the_next_cursor(app: App) -> None:
    await contribute_anchors(app, 3)
    answer = await call(app, "search_traces", ANONYMOUS, **QUERY, limit=2)
    assert answer.result
    assert answer.result["next_cursor"] in str(answer.text)


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
