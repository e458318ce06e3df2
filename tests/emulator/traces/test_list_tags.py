"""`list_tags` lists the tags of all traces with their counts, page by page.

A trace is a solved coding problem that users share. A tag is unused when no public trace has it.
"""

import pytest

from shared.runtime.context import App
from tests.support.tool_calls import ANONYMOUS, call, call_all_pages, call_result
from tests.support.traces import contribute, read_tag_counts


async def contribute_with_tags(app: App, *tags: list[str]) -> list[str]:
    return [await contribute(app, number, tags=names) for number, names in enumerate(tags)]


@pytest.mark.requirement("002-A5", "002-L2", "002-L3", "002-M6", "002-F6", "002-M5")
async def test_tags_are_listed_with_counts(app: App) -> None:
    answer = await call(app, "list_tags", ANONYMOUS)
    assert answer.result == {"tags": {}, "total": 0}
    assert "Available tags (0 total)" in str(answer.text)
    assert "begins" not in str(answer.text)

    await contribute_with_tags(app, ["python", "ci"], ["python"], ["go"], [])
    answer = await call(app, "list_tags", ANONYMOUS)
    counts = {"ci": 1, "go": 1, "python": 2}
    assert answer.result == {"tags": counts, "total": 3}
    assert answer.text == "Available tags (3 total):\nci (1), go (1), python (2)"
    page = await call(app, "list_tags", ANONYMOUS, limit=1)
    assert page.result
    assert page.result["next_cursor"] in str(page.text)


@pytest.mark.requirement("002-L3", "002-T5.1")
async def test_prefix_finds_all_tags_with_it(app: App) -> None:
    """It is normalized as tags are."""
    await contribute_with_tags(app, ["c", "c-sharp", "ci", "d", "b", "c.", "c0", "c_"], ["d"])
    with_c = {"c", "c-sharp", "ci", "c.", "c0", "c_"}
    for prefix, names in (("c", with_c), ("c-", {"c-sharp"}), (" C  SH", {"c-sharp"})):
        assert (await read_tag_counts(app, prefix=prefix)).keys() == names
    for prefix in ("ru", "%", "a/b", "\U0010ffff", "\0", "ü", "..", "__"):
        answer = await call(app, "list_tags", ANONYMOUS, prefix=prefix)
        assert answer.result == {"tags": {}, "total": 8}, prefix
        assert "begins" in str(answer.text)


@pytest.mark.requirement("002-L2", "002-T5.1")
async def test_pages_neither_lose_nor_repeat_tags(app: App) -> None:
    longest = "x" * 60
    tags = (["a", "b", "c"], ["b", "d", "e-f", longest], ["a.", "z", "0"], ["m", "n", "o"])
    *_, withdrawn_id = await contribute_with_tags(app, *tags)
    await call_result(app, "withdraw_trace", trace_id=withdrawn_id)
    expected = {
        "": sorted(["a", "b", "c", "d", "e-f", "a.", "z", "0", longest]),
        "a": ["a", "a."],
    }
    for limit in (1, 2, 4, 9, 300):
        for prefix, names in expected.items():
            pages = await call_all_pages(app, "list_tags", limit=limit, prefix=prefix)
            assert [tag for page in pages for tag in page["tags"]] == names
            assert {page["total"] for page in pages} == {9}
            assert all(len(page["tags"]) <= limit for page in pages)


async def test_unused_tag_is_not_listed(app: App) -> None:
    amended_id, withdrawn_id = await contribute_with_tags(app, ["only", "both"], ["both", "gone"])
    await call_result(app, "amend_trace", trace_id=amended_id, tags=["new"])
    assert await read_tag_counts(app) == {"both": 1, "gone": 1, "new": 1}
    for withdrawn, counts in ((True, {"new": 1}), (False, {"both": 1, "gone": 1, "new": 1})):
        await call_result(app, "withdraw_trace", trace_id=withdrawn_id, withdrawn=withdrawn)
        assert await read_tag_counts(app) == counts


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

    first = await call_result(app, "list_tags", ANONYMOUS, limit=1)
    answer = await call(app, "list_tags", ANONYMOUS, limit=1, cursor=first["next_cursor"])
    assert answer.result, answer.error
    assert answer.result["tags"] == {"z": 1}
    assert answer.receipt.round_trips <= 20
