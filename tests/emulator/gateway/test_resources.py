"""A resource is the result of a tool that a client reads by its URI.

The two revisions of MCP differ in the codes of errors. The client of the SDK calls the older one
`legacy`.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from functions.gateway.access import Access
from functions.gateway.auth.visitor import Visitor
from functions.gateway.catalog import Catalog
from functions.gateway.mcp.results import RECEIPT
from functions.gateway.mcp.server import build_server
from shared.core.caller import Caller
from shared.core.errors import (
    CarrelError,
    InvalidInput,
    NotFound,
    PlatformFault,
    Unavailable,
)
from shared.core.settings import Settings
from tests.support.clock import NOON, SettableClock
from tests.support.fake_catalog import BOOK, BOOKS, SHELF, FakeDispatcher, make_server, make_tool

NEWEST, LEGACY = "2026-07-28", "legacy"
NOT_FOUND = {NEWEST: -32602, LEGACY: -32002}
INTERNAL_ERROR, TOOL_FAILURE = -32603, -32010

both_modes = pytest.mark.parametrize("mode", [NEWEST, LEGACY])


def reject_call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Fail the test because a tool is called."""
    raise AssertionError((tool, arguments))


async def read_error(dispatcher: FakeDispatcher, uri: str, mode: str) -> MCPError:
    """Read a resource, and return the error."""
    async with Client(make_server(dispatcher), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    return caught.value


@both_modes
async def test_a_resource_is_its_tools_result_as_compact_json(mode: str) -> None:
    dispatcher = FakeDispatcher(lambda _, arguments: {**arguments, "title": "Käse"})
    async with Client(make_server(dispatcher), mode=mode) as client:
        resource = await client.read_resource("carrel://book/b-1")
        result = await client.call_tool("get_book", {"book_id": "b-1"})
    [content] = resource.contents
    assert content.model_dump(exclude_none=True) == {
        "uri": "carrel://book/b-1",
        "mime_type": "application/json",
        "text": '{"book_id":"b-1","title":"Käse"}',
    }
    assert json.loads(content.model_dump()["text"]) == result.structured_content
    assert dispatcher.calls == [("get_book", {"book_id": "b-1"})] * 2
    assert (resource.meta or {})[RECEIPT]["documents_read"] == 7
    if mode == NEWEST:
        assert resource.ttl_ms == 300_000  # five minutes
        assert resource.cache_scope == "private"


@both_modes
@pytest.mark.parametrize(
    "uri",
    ["test://nothing", "carrel://book/a/b", "Käse", "", "x" * 9_000],
)
async def test_an_unknown_uri_is_not_found_and_calls_no_tool(mode: str, uri: str) -> None:
    dispatcher = FakeDispatcher(reject_call)
    error = await read_error(dispatcher, uri, mode)
    assert error.code == NOT_FOUND[mode]
    assert error.data == {"uri": uri[:2_000]}  # a long URI is truncated
    assert f"Valid URIs look like: {BOOK.uri}, {SHELF.uri}" in error.message
    assert len(error.message) < 400
    assert dispatcher.calls == []


@both_modes
@pytest.mark.parametrize("failure", [NotFound("There is no book ü."), InvalidInput("book_id: no.")])
async def test_what_its_tool_does_not_find_or_rejects_is_not_found(
    mode: str, failure: CarrelError
) -> None:
    error = await read_error(FakeDispatcher(lambda *_: failure), "carrel://book/ü", mode)
    assert (error.code, error.data) == (NOT_FOUND[mode], {"uri": "carrel://book/ü"})
    assert isinstance(failure, InvalidInput) or error.message == failure.message


@both_modes
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Unavailable("get_book is resting.", retry_after=5.0), TOOL_FAILURE),
        (PlatformFault("It failed on our side.", details={"call_id": "c-1"}), INTERNAL_ERROR),
    ],
)
async def test_another_failure_is_an_error_with_the_tools_details(
    mode: str, failure: CarrelError, code: int
) -> None:
    error = await read_error(FakeDispatcher(lambda *_: failure), "carrel://book/b-1", mode)
    assert (error.code, error.message, error.data) == (code, failure.message, failure.to_wire())


@both_modes
@pytest.mark.parametrize(
    "send_request",
    [lambda client: client.read_resource("carrel://book/b-2"), Client.list_resources],
)
async def test_a_rate_limit_says_when_to_retry(
    settings: Settings, mode: str, send_request: Callable[[Client], Awaitable[object]]
) -> None:
    limited = settings.model_copy(update={"reads_per_minute": 1})
    access = Access(limited, SettableClock(NOON))
    calls = access.make_pipeline(FakeDispatcher(lambda *_: {}))
    catalog = Catalog([make_tool("list_books", resource=BOOK, listing=BOOKS)])
    anna = Visitor(Caller.of("anna"), "user:anna")
    async with Client(build_server(catalog, calls, local_visitor=anna), mode=mode) as client:
        await client.read_resource("carrel://book/b-1")
        with pytest.raises(MCPError, match=r"Try again in 60 s\.") as caught:
            await send_request(client)
    await access.aclose()
    assert caught.value.code == TOOL_FAILURE
    assert {"code": "RATE_LIMITED", "retry_after": 60}.items() <= caught.value.data.items()


@both_modes
async def test_templates_say_what_can_be_read(mode: str) -> None:
    async with Client(make_server(FakeDispatcher(reject_call)), mode=mode) as client:
        templates = (await client.list_resource_templates()).resource_templates
    for template, expected in zip(templates, (BOOK, SHELF), strict=True):
        assert template.model_dump(exclude_none=True) == {
            "name": expected.name,
            "title": expected.title,
            "uri_template": expected.uri,
            "description": expected.description,
            "mime_type": "application/json",
        }


@both_modes
async def test_the_lists_are_empty_without_resources(mode: str) -> None:
    server = make_server(FakeDispatcher(reject_call), Catalog([make_tool("try_out")]))
    async with Client(server, mode=mode) as client:
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        with pytest.raises(MCPError, match="There is no resource 'carrel://book/a'"):
            await client.read_resource("carrel://book/a")


async def test_an_internal_tool_is_neither_callable_nor_named() -> None:
    dispatcher = FakeDispatcher(reject_call)
    async with Client(make_server(dispatcher), mode=NEWEST) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="no tool 'complete_name'") as caught:
            await client.call_tool("complete_name", {"kind": "author", "prefix": ""})
    assert "complete_name" not in names
    assert f"The tools are: {', '.join(names)}." in caught.value.message
    assert dispatcher.calls == []
