"""The list of resources goes through the pages of all tools that list them."""

import base64
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Resource

from functions.gateway.mcp.resources import (
    INVALID_CURSOR,
    expand_template,
    from_cursor,
    get_variable_name,
    match_template,
    to_cursor,
)
from shared.core.errors import CarrelError, InvalidInput, Unavailable
from tests.support.fake_catalog import BOOK, FakeDispatcher, make_server

INVALID_PARAMS = -32602
"""The error code of JSON-RPC for invalid parameters."""
TOOL_FAILURE = -32010
"""Carrel's error code for a resource whose tool fails."""

with_both_protocols = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])


def make_page(field: str, *names: str, next_cursor: str | None = None) -> dict[str, Any]:
    """Return a page of a tool's list."""
    identifier, name = ("book_id", "title") if field == "books" else ("shelf_id", "label")
    return {
        field: [{identifier: label.lower(), name: label} for label in names],
        "next_cursor": next_cursor,
    }


def answer_from_library(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer with two pages of books, or with one page of shelves."""
    match tool, arguments:
        case "list_books", {"cursor": "2/ü"}:
            return make_page("books", "C")
        case "list_books", _:
            return make_page("books", "A", "B", next_cursor="2/ü")
        case _:
            return make_page("shelves", "Top")


async def list_pages(dispatcher: FakeDispatcher, mode: str) -> list[list[Resource]]:
    """Return all pages."""
    async with Client(make_server(dispatcher), mode=mode) as client:
        result = await client.list_resources()
        pages = [result.resources]
        while result.next_cursor:
            result = await client.list_resources(cursor=result.next_cursor)
            pages.append(result.resources)
    return pages


def list_names(pages: list[list[Resource]]) -> list[list[str]]:
    """Return the names of the resources on each page."""
    return [[resource.name for resource in page] for page in pages]


async def list_with_error(dispatcher: FakeDispatcher, cursor: str) -> MCPError:
    """Return the error of a page."""
    async with Client(make_server(dispatcher)) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor=cursor)
    return caught.value


@with_both_protocols
async def test_the_list_goes_through_every_page_of_every_listed_tool(mode: str) -> None:
    dispatcher = FakeDispatcher(answer_from_library)
    pages = await list_pages(dispatcher, mode)
    assert list_names(pages) == [["A", "B"], ["C"], ["Top"]]
    assert pages[0][0].model_dump(exclude_none=True) == {
        "uri": "carrel://book/a",
        "name": "A",
        "mime_type": "application/json",
    }
    assert dispatcher.calls == [
        ("list_books", {}),
        ("list_books", {"cursor": "2/ü"}),
        ("list_shelves", {}),
    ]


async def test_a_tool_without_resources_adds_no_empty_page() -> None:
    def answer_without_books(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"books": []} if tool == "list_books" else answer_from_library(tool, arguments)

    dispatcher = FakeDispatcher(answer_without_books)
    assert list_names(await list_pages(dispatcher, "legacy")) == [["Top"]]
    assert [tool for tool, _ in dispatcher.calls] == ["list_books", "list_shelves"]
    assert await list_pages(FakeDispatcher(lambda *_: {}), "legacy") == [[]]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "ü", "abc=", "1" * 5_000),
        *(to_cursor("drop_books", None), to_cursor("get_book", "2")),
        *(
            base64.urlsafe_b64encode(cursor).decode()
            for cursor in (
                b"",
                b"{}",
                b'["list_books"]',
                b'["list_books", 5]',
                b"\xff",
                b"[" * 9_999,
            )
        ),
    ],
)
async def test_an_error_for_a_broken_cursor_says_to_start_over(cursor: str) -> None:
    dispatcher = FakeDispatcher(answer_from_library)
    error = await list_with_error(dispatcher, cursor)
    assert error.code == INVALID_PARAMS
    assert error.message == INVALID_CURSOR
    assert dispatcher.calls == []


@pytest.mark.parametrize(
    ("failure", "cursor", "code"),
    [
        (Unavailable("It rests."), None, TOOL_FAILURE),
        (InvalidInput("A first page?"), None, TOOL_FAILURE),
        (InvalidInput("cursor: broken"), "2/ü", INVALID_PARAMS),
    ],
)
async def test_error_of_a_tool_is_the_error_of_the_page(
    failure: CarrelError, cursor: str | None, code: int
) -> None:
    """Unless the tool rejects the cursor."""
    encoded = to_cursor("list_books", cursor)
    assert from_cursor(encoded) == ("list_books", cursor)
    error = await list_with_error(FakeDispatcher(lambda *_: failure), encoded)
    assert error.code == code
    assert error.message == (INVALID_CURSOR if cursor else failure.message)


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
