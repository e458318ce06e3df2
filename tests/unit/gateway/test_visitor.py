"""The visitor of a request is its caller: over HTTP from its credential, over stdio the owner."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation
from starlette.requests import Request

from functions.gateway.auth.visitor import Visitor, require_visitor
from functions.gateway.mcp.endpoint import McpEndpoint
from functions.gateway.mcp.server import build_server
from shared.core.caller import Caller
from shared.core.errors import Unauthorized
from tests.support.fake_catalog import CATALOG, FakeDispatcher, make_pipeline
from tests.support.mcp_wire import (
    CLIENT_META,
    HANDSHAKE,
    MODERN,
    SECURITY,
    make_call,
    make_headers,
    post_to,
)

OWNER = Visitor(Caller.of("local"), None)
ANNA = Visitor(Caller.of("anna"), "user:anna")


@dataclass
class FakeContext:
    """The parts of an MCP request context that name the visitor."""

    request: Request | None
    lifespan_context: Any


def get_visitor(request: Request | None, local_visitor: object) -> Visitor:
    """Return the visitor of a request on a server with or without a local visitor."""
    return require_visitor(cast("Any", FakeContext(request, local_visitor)))


def make_request(visitor: Visitor | None) -> Request:
    """Make a request, with a visitor if it is authenticated."""
    scope: dict[str, Any] = {"type": "http"}
    if visitor:
        visitor.attach(scope)
    return Request(scope)


@pytest.mark.parametrize(
    ("request_", "local_visitor"),
    [(None, None), (None, {}), (make_request(None), None), (make_request(None), OWNER)],
)
def test_an_unauthenticated_request_has_no_visitor(
    request_: Request | None, local_visitor: object
) -> None:
    with pytest.raises(Unauthorized):
        get_visitor(request_, local_visitor)


def test_an_authenticated_request_has_its_own_visitor() -> None:
    assert get_visitor(make_request(ANNA), None) is ANNA
    assert get_visitor(make_request(ANNA), OWNER) is ANNA
    assert get_visitor(None, OWNER) is OWNER  # a request over stdio


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_server_without_a_local_visitor_answers_no_request(mode: str) -> None:
    dispatcher = FakeDispatcher(lambda *_: {})
    async with Client(build_server(CATALOG, make_pipeline(dispatcher)), mode=mode) as client:
        for request in (
            client.list_tools(),
            client.call_tool("get_book", {"book_id": "b"}),
            client.list_resources(),
            client.read_resource("carrel://book/b"),
        ):
            with pytest.raises(MCPError):
                await request

    assert dispatcher.calls == []


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("registered", [None, "Reading Assistant"])
async def test_a_call_names_its_program(mode: str, registered: str | None) -> None:
    """What a client declares is not verified, so a credential's name comes first."""
    dispatcher = FakeDispatcher(lambda *_: {})
    visitor = Visitor(Caller.of("local", client=registered), None)
    server = build_server(CATALOG, make_pipeline(dispatcher), local_visitor=visitor)
    program = Implementation(name="quill\n", version="1")
    async with Client(server, mode=mode, client_info=program) as client:
        await client.call_tool("get_book", {"book_id": "b"})
    assert [caller.client for caller in dispatcher.callers] == [
        registered or "a program that says it is quill"
    ]


@pytest.mark.parametrize(("version", "name"), [(MODERN, "carrel-tests"), (HANDSHAKE[0], "quill")])
async def test_a_call_over_http_names_its_program(version: str, name: str) -> None:
    """In a handshake's revision, no request but the first names it, except by `User-Agent`."""
    dispatcher = FakeDispatcher(lambda *_: {})
    server = build_server(CATALOG, make_pipeline(dispatcher))
    call = make_call("get_book", {"book_id": "b"})
    if version == MODERN:
        call["params"]["_meta"] = CLIENT_META
    headers = [*make_headers(call, version), ("user-agent", "quill/2.1 (cli)")]
    await post_to(McpEndpoint(lambda _query: server, SECURITY), call, headers)
    assert [caller.client for caller in dispatcher.callers] == [f"a program that says it is {name}"]
