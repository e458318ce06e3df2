"""`contribute_trace` normalizes tags before it stores them, and refuses invalid ones."""

from __future__ import annotations

import pytest

from shared.runtime.context import App
from tests.support.tool_calls import call_all_pages, call_result
from tests.support.traces import make_sample_trace, read_tag_counts, search_trace_ids


@pytest.mark.parametrize(
    ("tags", "stored_tags"),
    [
        (["Python"], ["python"]),
        (["python", "PYTHON", " python ", "\uff30ython"], ["python"]),
        (["Google Cloud", "google-cloud", " google \t cloud"], ["google-cloud"]),
        (["b", "a", "B"], ["b", "a"]),
        (["c-sharp", "python_3.11", "0", "a.b-c_d"], ["c-sharp", "python_3.11", "0", "a.b-c_d"]),
    ],
)
async def test_tags_are_normalized_without_duplicates(
    app: App, tags: list[str], stored_tags: list[str]
) -> None:
    result = await call_result(app, "contribute_trace", **make_sample_trace(0, tags=tags))
    assert result["tags"] == stored_tags
    assert await read_tag_counts(app) == dict.fromkeys(stored_tags, 1)
    for tag in tags:
        assert await search_trace_ids(app, tags=[tag]) == [result["trace_id"]]


async def test_list_continues_after_the_longest_tag(app: App) -> None:
    for number, tag in enumerate(("a", "x" * 60, "z")):
        await call_result(app, "contribute_trace", **make_sample_trace(number, tags=[tag]))
    pages = await call_all_pages(app, "list_tags", limit=1)
    assert [tag["name"] for page in pages for tag in page["tags"]] == ["a", "x" * 60, "z"]
