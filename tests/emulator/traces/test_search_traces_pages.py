"""Walks through all pages of `search_traces`: nothing is lost and nothing comes twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_calls import STRANGER, call, call_error, call_result
from tests.support.traces import SPAM, clock_at, contribute, ids, votes, walk

if TYPE_CHECKING:
    from shared.runtime.context import App
    from tests.emulator.conftest import NewBackend

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
QUERY: dict[str, Any] = {"query": "anchor"}
TAGS: dict[str, Any] = {"tags": ["sea"]}
BOTH: dict[str, Any] = {"query": "anchor", "tags": ["sea"]}


async def harbour(app: App, count: int, **other: Any) -> list[str]:
    """Traces that all hold a word and bear a tag, some of the same moment."""
    made: list[str] = []
    for number in range(count):
        app.clock = clock_at(NOON + timedelta(hours=number // 3))
        texts = {"title": f"anchor {number}", "tags": ["sea", f"t{number}"]} | other
        made.append(await contribute(app, number, **texts))
    return made


@pytest.fixture(scope="module")
async def dozen(new_backend: NewBackend) -> tuple[App, list[str]]:
    """Twelve traces that tests only read, and their ids."""
    app = new_backend(None)
    made = await harbour(app, 12)
    app.clock = clock_at(NOON)
    return app, made


async def pages_of(app: App, **asked: Any) -> list[dict[str, Any]]:
    return await walk(app, "search_traces", STRANGER, **asked)


@pytest.mark.parametrize("asked", [QUERY, TAGS, BOTH], ids=["query", "tags", "both"])
@pytest.mark.parametrize("limit", [1, 4, 12, 50])
async def test_a_walk_meets_every_trace_once(
    dozen: tuple[App, list[str]], asked: dict[str, Any], limit: int
) -> None:
    app, made = dozen
    pages = await pages_of(app, **asked, limit=limit)
    assert sorted(made) == sorted(ids(pages))
    hits = [hit for page in pages for hit in page["results"]]
    assert list(range(1, 13)) == [hit["rank"] for hit in hits]
    assert all(len(page["results"]) <= limit for page in pages)


@pytest.mark.parametrize("asked", [QUERY, TAGS, BOTH], ids=["query", "tags", "both"])
async def test_the_order_is_that_of_one_long_page(
    dozen: tuple[App, list[str]], asked: dict[str, Any]
) -> None:
    app, _ = dozen
    [whole] = await pages_of(app, **asked, limit=50)
    assert ids([whole]) == ids(await pages_of(app, **asked, limit=2))


@pytest.mark.parametrize("asked", [QUERY, TAGS, BOTH], ids=["query", "tags", "both"])
async def test_what_comes_and_goes_meanwhile_does_not_disturb_a_walk(
    app: App, asked: dict[str, Any]
) -> None:
    made = await harbour(app, 9)
    first = await call_result(app, "search_traces", STRANGER, **asked, limit=3)
    seen = ids([first])
    gone = next(each for each in made if each not in seen)
    await call_result(app, "withdraw_trace", trace_id=gone)
    await call_result(app, "withdraw_trace", trace_id=seen[0])
    app.clock = lambda: NOON + timedelta(days=1)
    await contribute(app, 20, title="anchor of late", tags=["sea"])
    rest = await walk(
        app, "search_traces", STRANGER, **asked, limit=50, cursor=first["next_cursor"]
    )
    later = ids(rest)
    assert set(made) - {gone} - set(seen) <= set(later)
    assert not {gone, *seen} & set(later)


@pytest.mark.parametrize("asked", [QUERY, TAGS, BOTH], ids=["query", "tags", "both"])
async def test_flagged_and_replaced_ones_leave_no_gap(app: App, asked: dict[str, Any]) -> None:
    made = await harbour(app, 9)
    for hidden in (made[8], made[7], made[4]):
        await votes(app, hidden, 2, **SPAM)
    new = await contribute(app, 20, title="anchor anew", tags=["sea"], supersedes=made[3])
    shown = {*made, new} - {made[8], made[7], made[4], made[3]}
    for limit in (1, 2, 50):
        pages = await pages_of(app, **asked, limit=limit)
        assert (sorted(shown), len(shown)) == (sorted(ids(pages)), len(ids(pages)))
        assert list(range(1, 7)) == [hit["rank"] for page in pages for hit in page["results"]]
    flagged = await pages_of(app, **asked, limit=2, include_flagged=True)
    assert sorted({*made, new} - {made[3]}) == sorted(ids(flagged))


async def test_a_page_of_skipped_flagged_ones_does_not_say_none_fits(
    app: App,
) -> None:
    made = await harbour(app, 6)
    for hidden in made[3:]:
        await votes(app, hidden, 2, **SPAM)
    answer = await call(app, "search_traces", STRANGER, **TAGS, limit=1)
    assert answer.result
    if "next_cursor" in answer.result:
        assert "No traces found" not in str(answer.text)


async def test_a_page_says_how_to_go_on(app: App) -> None:
    await harbour(app, 3)
    answer = await call(app, "search_traces", STRANGER, **QUERY, limit=2)
    assert answer.result
    assert answer.result["next_cursor"] in str(answer.text)


async def test_a_cursor_belongs_to_its_call(app: App) -> None:
    await harbour(app, 4)
    cursors = [
        (await call_result(app, "search_traces", STRANGER, **asked, limit=1))["next_cursor"]
        for asked in (QUERY, TAGS, BOTH)
    ]
    for cursor, other in zip(cursors, (BOTH, QUERY, TAGS), strict=True):
        error = await call_error(app, "search_traces", STRANGER, **other, cursor=cursor)
        assert ("VALIDATION_ERROR", {"cursor"}) == (error.code, set(error.details))
    damaged = cursors[0][:-3] + "AAA"
    error = await call_error(app, "search_traces", STRANGER, **QUERY, cursor=damaged)
    assert {"cursor"} == set(error.details)


async def test_a_cursor_without_flagged_ones_does_not_go_on_with_them(
    app: App,
) -> None:
    await harbour(app, 3)
    cursor = (await call_result(app, "search_traces", STRANGER, **QUERY, limit=1))["next_cursor"]
    error = await call_error(
        app, "search_traces", STRANGER, **QUERY, include_flagged=True, cursor=cursor
    )
    assert {"cursor"} == set(error.details)


async def test_long_titles_and_texts_are_paged_by_whole_hits(app: App) -> None:
    wide = "🧀" * 200
    tags = ["sea", *(f"{number:02}{'x' * 58}" for number in range(19))]
    made = [
        await contribute(app, number, title=f"{number} anchor {wide}"[:200], tags=tags)
        for number in range(24)
    ]
    for asked in (QUERY, TAGS):
        pages = await pages_of(app, **asked, limit=50)
        assert len(pages) > 1
        assert sorted(made) == sorted(ids(pages))
        assert all(len(str(page).encode()) < 100_000 for page in pages)
