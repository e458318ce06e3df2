"""`contribute_trace` normalizes tags before it stores them, and refuses invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import call_all_pages, call_error, call_result
from tests.support.traces import make_sample_trace, read_tag_counts, search_trace_ids

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize(
    "tag",
    ["c++", "c#", "a/b", "a,b", "größe", "питон", "🍞", "", " ", "a\0b", "a\u200bb", "x" * 61],
)
async def test_invalid_tag_is_named_by_its_index(app: App, tag: str) -> None:
    error = await call_error(app, "contribute_trace", **make_sample_trace(0, tags=["python", tag]))
    assert error.code == "VALIDATION_ERROR"
    assert set(error.details) == {"tags.1"}
    assert await read_app_documents(app, "traces") == {}


async def test_error_says_what_a_tag_consists_of(app: App) -> None:
    error = await call_error(app, "contribute_trace", **make_sample_trace(0, tags=["c++"]))
    assert "a to z" in error.message


async def test_tag_that_normalization_lengthens_is_refused(app: App) -> None:
    """Unicode normalization (NFKC) turns this sign into four letters, and a cursor has no room."""
    error = await call_error(app, "contribute_trace", **make_sample_trace(0, tags=["㎉" * 60]))
    assert error.code == "VALIDATION_ERROR"


async def test_list_continues_after_the_longest_tag(app: App) -> None:
    for number, tag in enumerate(("a", "x" * 60, "z")):
        await call_result(app, "contribute_trace", **make_sample_trace(number, tags=[tag]))
    pages = await call_all_pages(app, "list_tags", limit=1)
    assert [tag["name"] for page in pages for tag in page["tags"]] == ["a", "x" * 60, "z"]
