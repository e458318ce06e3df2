"""`list_tags` lists the tags of all traces with their counts, page by page.

A trace is a solved coding problem that users share. A tag is unused when no public trace has it.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.tool_calls import ANONYMOUS, call, call_all_pages, call_result, call_text
from tests.support.traces import SPAM, add_votes, contribute, read_tag_counts, search_trace_ids


async def contribute_with_tags(app: App, *tags: list[str]) -> list[str]:
    """Contribute a trace for each list of tags."""
    return [await contribute(app, number, tags=names) for number, names in enumerate(tags)]


async def list_tags(app: App, **arguments: Any) -> dict[str, Any]:
    """Return the result of one call by an anonymous caller."""
    return await call_result(app, "list_tags", ANONYMOUS, **arguments)


@pytest.mark.requirement("002-A5", "002-L2", "002-L3", "002-M6")
async def test_tags_are_listed_with_counts(app: App) -> None:
    await contribute_with_tags(app, ["python", "ci"], ["python"], ["go"], [])
    expected_tags = [
        {"name": "ci", "count": 1},
        {"name": "go", "count": 1},
        {"name": "python", "count": 2},
    ]
    assert await list_tags(app) == {"tags": expected_tags, "total": 3}


@pytest.mark.requirement("002-F6", "002-M5")
async def test_text_lists_tags_on_one_line(app: App) -> None:
    await contribute_with_tags(app, ["python", "ci"], ["python"])
    text = await call_text(app, "list_tags", ANONYMOUS)
    assert text == "Available tags (2 total):\nci (1), python (2)"


async def test_empty_base_has_no_tags(app: App) -> None:
    answer = await call(app, "list_tags", ANONYMOUS)
    assert answer.result == {"tags": [], "total": 0}
    assert "Available tags (0 total)" in str(answer.text)
    assert "begins" not in str(answer.text)


async def test_unmatched_prefix_is_reported(app: App) -> None:
    await contribute_with_tags(app, ["python"])
    answer = await call(app, "list_tags", ANONYMOUS, prefix="ru")
    assert answer.result == {"tags": [], "total": 1}
    assert "begins" in str(answer.text)


@pytest.mark.parametrize("prefix", ["google", "google-", "GOOGLE", " google ", "Google C"])
async def test_prefix_is_normalized_like_tags(app: App, prefix: str) -> None:
    await contribute_with_tags(app, ["Google Cloud", "go", "googly"], ["goo", "h"])
    names = [tag["name"] for tag in (await list_tags(app, prefix=prefix))["tags"]]
    assert "google-cloud" in names
    assert not {"go", "goo", "googly", "h"} & set(names)


@pytest.mark.requirement("002-L3", "002-T5.1")
async def test_prefix_finds_all_tags_with_it(app: App) -> None:
    await contribute_with_tags(app, ["c", "c-sharp", "ci", "d", "b", "c.", "c0", "c_"])
    expected = {"c", "c-sharp", "ci", "c.", "c0", "c_"}
    assert (await read_tag_counts(app, prefix="c")).keys() == expected
    assert (await read_tag_counts(app, prefix="c-")).keys() == {"c-sharp"}


@pytest.mark.parametrize("prefix", ["%", "a/b", "\U0010ffff", "\0", "ü", "..", "__"])
async def test_odd_prefixes_find_nothing(app: App, prefix: str) -> None:
    await contribute_with_tags(app, ["python"])
    assert (await list_tags(app, prefix=prefix))["tags"] == []


@pytest.mark.requirement("002-L2", "002-T5.1")
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 300])
async def test_pages_neither_lose_nor_repeat_tags(app: App, limit: int) -> None:
    await contribute_with_tags(app, ["a", "b", "c"], ["b", "d", "e-f"], ["a.", "z", "0"])
    pages = await call_all_pages(app, "list_tags", limit=limit)
    names = [tag["name"] for page in pages for tag in page["tags"]]
    assert sorted(["a", "b", "c", "d", "e-f", "a.", "z", "0"]) == names
    assert {page["total"] for page in pages} == {8}
    assert all(len(page["tags"]) <= limit for page in pages)
    pages = await call_all_pages(app, "list_tags", limit=limit, prefix="a")
    assert [tag["name"] for page in pages for tag in page["tags"]] == ["a", "a."]


@pytest.mark.requirement("002-F6", "002-L3")
async def test_text_has_the_next_cursor(app: App) -> None:
    await contribute_with_tags(app, ["a", "b"])
    answer = await call(app, "list_tags", ANONYMOUS, limit=1)
    assert answer.result
    assert answer.result["next_cursor"] in str(answer.text)


async def test_unused_tag_is_not_listed(app: App) -> None:
    amended_id, withdrawn_id = await contribute_with_tags(app, ["only", "both"], ["both", "gone"])
    await call_result(app, "amend_trace", trace_id=amended_id, tags=["new"])
    assert await read_tag_counts(app) == {"both": 1, "gone": 1, "new": 1}
    await call_result(app, "withdraw_trace", trace_id=withdrawn_id)
    assert await read_tag_counts(app) == {"new": 1}
    assert (await list_tags(app))["total"] == 1
    await call_result(app, "withdraw_trace", trace_id=withdrawn_id, withdrawn=False)
    assert await read_tag_counts(app) == {"both": 1, "gone": 1, "new": 1}


async def test_pages_skip_unused_tags(app: App) -> None:
    _, withdrawn_id = await contribute_with_tags(
        app, ["a", "z"], [f"t{number:02}" for number in range(20)]
    )
    await call_result(app, "withdraw_trace", trace_id=withdrawn_id)
    pages = await call_all_pages(app, "list_tags", limit=1)
    assert [tag["name"] for page in pages for tag in page["tags"]] == ["a", "z"]


async def test_thousands_of_unused_tags_are_skipped(app: App) -> None:
    """Any user can leave unused tags behind by contributing and withdrawing traces."""
    await contribute_with_tags(app, ["a", "z"])
    client = app.connection.client
    # A batch has at most 500 writes.
    for start in range(0, 2_400, 400):
        batch = client.batch()
        for number in range(start, start + 400):
            name = f"m{number:04}"
            data = {"kind": "tag", "key": name, "name": name, "df": 0, "held": 1, "postings": {}}
            batch.set(client.document(f"trace_facets/tag:{name}"), data)
        await batch.commit()

    answer = await call(app, "list_tags", ANONYMOUS, limit=1, prefix="")
    assert answer.error is None
    assert answer.result
    answer = await call(app, "list_tags", ANONYMOUS, limit=1, cursor=answer.result["next_cursor"])
    assert answer.error is None
    assert answer.result
    assert answer.result["tags"] == [{"name": "z", "count": 1}]
    assert answer.receipt.round_trips <= 20


async def test_count_matches_what_search_finds(app: App) -> None:
    """The count is the number of traces found by the tag."""
    superseded_id, flagged_id = await contribute_with_tags(app, ["apple"], ["plum"])
    await contribute(app, 2, tags=["pear"], supersedes=superseded_id)
    await add_votes(app, flagged_id, 2, **SPAM)
    for tag, count in (await read_tag_counts(app)).items():
        assert len(await search_trace_ids(app, tags=[tag], include_flagged=True)) == count, tag
