"""Tools answer with links to resources, whose URIs follow templates."""

from typing import Any

import pytest
from mcp import Client

from functions.gateway.mcp.resource_links import expand_template, get_variable_name, match_template
from functions.gateway.mcp.results import to_result
from shared.runtime.messages import CallAnswer, WireError
from shared.runtime.tool import Links
from tests.support.fake_catalog import BOOK, FakeDispatcher, make_server, make_tool

TOOL = make_tool("list_books")
LINKS = Links(items_field="books", uri_template=BOOK.uri, name_field="title")
BOOKS = {"books": [{"book_id": "a", "title": "A"}, {"book_id": "b", "title": None}]}


def test_an_expanded_uri_matches_its_template() -> None:
    assert get_variable_name(BOOK.uri) == "book_id"
    uri = expand_template(BOOK.uri, {"book_id": "a_B-1", "title": "Other"})
    assert uri == "carrel://book/a_B-1"
    assert match_template(BOOK.uri, uri) == {"book_id": "a_B-1"}
    template = "carrel://book/{book_id}/cover.json"
    assert match_template(template, "carrel://book/a/cover.json") == {"book_id": "a"}
    assert match_template(template, "carrel://book/a/coverXjson") is None


@pytest.mark.parametrize(
    "uri",
    [
        *("", "carrel://book/", "carrel://shelf/a", "xcarrel://book/a"),
        *("carrel://book/a/b", "carrel://book/a?b", "carrel://book/a#b"),
    ],
)
def test_a_uri_of_another_form_does_not_match_the_template(uri: str) -> None:
    assert match_template(BOOK.uri, uri) is None


def dump_links(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the link blocks of a tool's answer, which follow the text block."""
    text, *blocks = to_result(CallAnswer(result=result), TOOL, links=LINKS).content
    assert text.type == "text"
    return [block.model_dump(exclude_none=True) for block in blocks]


def test_each_item_becomes_a_link_with_its_uri_and_name() -> None:
    common_fields = {"type": "resource_link", "mime_type": "application/json"}
    assert dump_links(BOOKS) == [
        {"uri": "carrel://book/a", "name": "A", **common_fields},
        {"uri": "carrel://book/b", "name": "b", **common_fields},
    ]


@pytest.mark.parametrize(
    "result", [{}, {"books": []}, {"books": None}, {"books": [{"title": "A"}, {"book_id": None}]}]
)
def test_items_without_an_id_make_no_links(result: dict[str, Any]) -> None:
    assert dump_links(result) == []
    error = WireError(code="NOT_FOUND", message="There is none.", details={})
    assert len(to_result(CallAnswer(error=error), TOOL, links=LINKS).content) == 1


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_link_in_an_answer_can_be_read(mode: str) -> None:
    dispatcher = FakeDispatcher(lambda *_: BOOKS)
    async with Client(make_server(dispatcher), mode=mode) as client:
        _, first_link, _ = (await client.call_tool("list_books", {})).content
        assert first_link.type == "resource_link"
        await client.read_resource(first_link.uri)
    assert dispatcher.calls[-1] == ("get_book", {"book_id": "a"})
