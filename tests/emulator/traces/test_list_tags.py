"""`list_tags`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_calls import STRANGER, call, call_error, call_result, call_text
from tests.support.traces import SPAM, contribute, found, tags, votes, walk

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def contribute_tagged(app: App, *tags: list[str]) -> list[str]:
    """Contribute a trace with each of these."""
    return [await contribute(app, number, tags=each) for number, each in enumerate(tags)]


async def listed(app: App, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "list_tags", STRANGER, **arguments)


async def test_every_tag_is_listed_with_how_many_bear_it(app: App) -> None:
    await contribute_tagged(app, ["python", "ci"], ["python"], ["go"], [])
    named = [{"name": "ci", "count": 1}, {"name": "go", "count": 1}, {"name": "python", "count": 2}]
    assert {"tags": named, "total": 3} == await listed(app)


async def test_they_are_listed_in_one_line_under_their_number(app: App) -> None:
    await contribute_tagged(app, ["python", "ci"], ["python"])
    assert "Available tags (2 total):\nci (1), python (2)" == await call_text(
        app, "list_tags", STRANGER
    )


async def test_without_any_trace_there_is_no_tag(app: App) -> None:
    answer = await call(app, "list_tags", STRANGER)
    assert {"tags": [], "total": 0} == answer.result
    assert "Available tags (0 total)" in str(answer.text)
    assert "begins" not in str(answer.text)  # nobody asked for a beginning


async def test_a_beginning_that_no_tag_has_is_told(app: App) -> None:
    await contribute_tagged(app, ["python"])
    answer = await call(app, "list_tags", STRANGER, prefix="ru")
    assert {"tags": [], "total": 1} == answer.result
    assert "begins" in str(answer.text)


@pytest.mark.parametrize("prefix", ["google", "google-", "GOOGLE", " google ", "Google C"])
async def test_a_beginning_is_folded_as_tags_are(app: App, prefix: str) -> None:
    await contribute_tagged(app, ["Google Cloud", "go", "googly"], ["goo", "h"])
    names = [tag["name"] for tag in (await listed(app, prefix=prefix))["tags"]]
    assert "google-cloud" in names
    assert not {"go", "goo", "googly", "h"} & set(names)


async def test_a_beginning_finds_all_that_begin_so(app: App) -> None:
    await contribute_tagged(app, ["c", "c-sharp", "ci", "d", "b", "c.", "c0", "c_"])
    wanted = {"c", "c-sharp", "ci", "c.", "c0", "c_"}
    assert wanted == (await tags(app, prefix="c")).keys()
    assert {"c-sharp"} == (await tags(app, prefix="c-")).keys()


@pytest.mark.parametrize("prefix", ["%", "a/b", "\U0010ffff", "\0", "ü", "..", "__"])
async def test_odd_beginnings_find_nothing_and_break_nothing(app: App, prefix: str) -> None:
    await contribute_tagged(app, ["python"])
    assert [] == (await listed(app, prefix=prefix))["tags"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 300])
async def test_pages_lose_and_repeat_nothing(app: App, limit: int) -> None:
    await contribute_tagged(app, ["a", "b", "c"], ["b", "d", "e-f"], ["a.", "z", "0"])
    pages = await walk(app, "list_tags", limit=limit)
    names = [tag["name"] for page in pages for tag in page["tags"]]
    assert sorted(["a", "b", "c", "d", "e-f", "a.", "z", "0"]) == names
    assert {8} == {page["total"] for page in pages}
    assert all(len(page["tags"]) <= limit for page in pages)
    pages = await walk(app, "list_tags", limit=limit, prefix="a")
    assert ["a", "a."] == [tag["name"] for page in pages for tag in page["tags"]]


async def test_a_page_says_how_to_go_on(app: App) -> None:
    await contribute_tagged(app, ["a", "b"])
    answer = await call(app, "list_tags", STRANGER, limit=1)
    assert answer.result
    assert answer.result["next_cursor"] in str(answer.text)


async def test_a_cursor_belongs_to_its_beginning(app: App) -> None:
    await contribute_tagged(app, ["a", "ab"])
    cursor = (await listed(app, limit=1, prefix="a"))["next_cursor"]
    for invalid in (
        {"cursor": cursor},
        {"cursor": cursor[:-2], "prefix": "a"},
        {"cursor": "!"},
    ):
        error = await call_error(app, "list_tags", STRANGER, **invalid)
        assert ("VALIDATION_ERROR", {"cursor"}) == (error.code, set(error.details))


@pytest.mark.parametrize("limit", [0, -1, 301, "5", None])
async def test_the_bounds_of_a_page_are_told(app: App, limit: object) -> None:
    error = await call_error(app, "list_tags", STRANGER, limit=limit)
    assert ("VALIDATION_ERROR", {"limit"}) == (error.code, set(error.details))


async def test_a_tag_that_nobody_bears_any_more_is_gone(app: App) -> None:
    amended, withdrawn = await contribute_tagged(app, ["only", "both"], ["both", "gone"])
    await call_result(app, "amend_trace", trace_id=amended, tags=["new"])
    assert {"both": 1, "gone": 1, "new": 1} == await tags(app)
    await call_result(app, "withdraw_trace", trace_id=withdrawn)
    assert ({"new": 1}, 1) == (await tags(app), (await listed(app))["total"])
    await call_result(app, "withdraw_trace", trace_id=withdrawn, withdrawn=False)
    assert {"both": 1, "gone": 1, "new": 1} == await tags(app)


async def test_pages_go_on_past_tags_that_nobody_bears_any_more(app: App) -> None:
    _, gone = await contribute_tagged(app, ["a", "z"], [f"t{number:02}" for number in range(20)])
    await call_result(app, "withdraw_trace", trace_id=gone)
    pages = await walk(app, "list_tags", limit=1)
    assert ["a", "z"] == [tag["name"] for page in pages for tag in page["tags"]]


async def test_a_thousand_tags_of_nobody_do_not_break_the_list(
    app: App,
) -> None:
    """Anybody can make them: contribute, withdraw, again."""
    await contribute_tagged(app, ["a", "z"])
    client = app.connection.client
    for start in range(0, 2_400, 400):
        batch = client.batch()
        for number in range(start, start + 400):
            name = f"m{number:04}"
            data = {"kind": "tag", "key": name, "name": name, "df": 0, "held": 1, "postings": {}}
            batch.set(client.document(f"trace_facets/tag:{name}"), data)
        await batch.commit()
    answer = await call(app, "list_tags", STRANGER, limit=1, prefix="")
    assert answer.error is None
    assert answer.result
    answer = await call(app, "list_tags", STRANGER, limit=1, cursor=answer.result["next_cursor"])
    assert answer.error is None
    assert answer.result
    assert [{"name": "z", "count": 1}] == answer.result["tags"]
    assert answer.receipt.round_trips <= 20


async def test_a_tag_of_traces_that_search_hides_leads_nowhere(app: App) -> None:
    """A count is how many traces one finds by the tag."""
    old, flagged = await contribute_tagged(app, ["apple"], ["plum"])
    await contribute(app, 2, tags=["pear"], supersedes=old)
    await votes(app, flagged, 2, **SPAM)
    for tag, count in (await tags(app)).items():
        assert count == len(await found(app, tags=[tag], include_flagged=True)), tag


async def test_it_takes_one_round_trip(app: App) -> None:
    await contribute_tagged(app, ["a", "b"])
    receipt = (await call(app, "list_tags", STRANGER)).receipt
    assert (1, 2 + 1) == (receipt.round_trips, receipt.documents_read)
