"""The tags of `contribute_trace`: what somebody writes, and what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tool_calls import call_error, call_result
from tests.support.traces import found, sample, stored, tags, walk

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["Python"], ["python"]),
        (["python", "PYTHON", " python ", "\uff30ython"], ["python"]),
        (["Google Cloud", "google-cloud", " google \t cloud"], ["google-cloud"]),
        (["b", "a", "B"], ["b", "a"]),
        (["c-sharp", "python_3.11", "0", "a.b-c_d"], ["c-sharp", "python_3.11", "0", "a.b-c_d"]),
    ],
)
async def test_tags_are_written_alike_and_each_once(
    app: App, sent: list[str], kept: list[str]
) -> None:
    result = await call_result(app, "contribute_trace", **sample(0, tags=sent))
    assert kept == result["tags"]
    assert dict.fromkeys(kept, 1) == await tags(app)
    for tag in sent:
        assert [result["trace_id"]] == await found(app, tags=[tag])


@pytest.mark.parametrize(
    "tag",
    ["c++", "c#", "a/b", "a,b", "größe", "питон", "🍞", "", " ", "a\0b", "a\u200bb", "x" * 61],
)
async def test_what_is_no_tag_is_refused_by_its_place(app: App, tag: str) -> None:
    error = await call_error(app, "contribute_trace", **sample(0, tags=["python", tag]))
    assert ("VALIDATION_ERROR", {"tags.1"}) == (error.code, set(error.details))
    assert {} == await stored(app, "traces")


async def test_the_refusal_says_what_a_tag_is(app: App) -> None:
    error = await call_error(app, "contribute_trace", **sample(0, tags=["c++"]))
    assert "a to z" in error.message


async def test_no_tag_becomes_longer_than_one_may_send(app: App) -> None:
    """One character of another width may stand for four letters; so a tag can outgrow a cursor."""
    error = await call_error(app, "contribute_trace", **sample(0, tags=["㎉" * 60]))
    assert "VALIDATION_ERROR" == error.code


async def test_a_list_goes_on_after_the_longest_tag(app: App) -> None:
    for number, tag in enumerate(("a", "x" * 60, "z")):
        await call_result(app, "contribute_trace", **sample(number, tags=[tag]))
    pages = await walk(app, "list_tags", limit=1)
    assert ["a", "x" * 60, "z"] == [tag["name"] for page in pages for tag in page["tags"]]
