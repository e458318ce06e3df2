"""Only clients that declare the extension MCP Apps notice it, in each revision of the protocol."""

import re
from typing import Any, ClassVar, Final, Self

import httpx2
import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from functions.gateway.apps.pages import build_app_page
from functions.gateway.catalog import Catalog
from functions.gateway.mcp import apps
from functions.gateway.mcp.endpoint import McpEndpoint
from functions.gateway.mcp.selection import SelectedServers
from functions.gateway.mcp.server import build_server
from infra.build.discovery import tools
from tests.support.fake_catalog import FakeDispatcher, make_pipeline, make_server, make_tool
from tests.support.mcp_wire import (
    CLIENT_META,
    HANDSHAKE,
    MODERN,
    SECURITY,
    make_headers,
    make_initialize,
    make_request,
    post_to,
)

EXTENSION_SETTINGS: Final = {"mimeTypes": ["text/plain", apps.MIME_TYPE]}
CAPABILITIES: Final = {"extensions": {apps.EXTENSION: EXTENSION_SETTINGS}}
SEARCH: Final = make_tool("search_books", app="hits")
DRAW: Final = make_tool("draw_shelves", app="hits", internal=True)
PLAIN: Final = make_tool("get_book")
WITH_APPS: Final = Catalog([SEARCH, DRAW, PLAIN])
WITHOUT_APPS: Final = Catalog(
    [SEARCH.model_copy(update={"app": None}), DRAW.model_copy(update={"app": None}), PLAIN]
)
OTHER_CAPABILITIES: Final[dict[str, Any]] = {
    "no capabilities": {},
    "another extension": {"extensions": {"com.example/other": EXTENSION_SETTINGS}},
    "other media types": {"extensions": {apps.EXTENSION: {"mimeTypes": ["text/html"]}}},
    "no media types": {"extensions": {apps.EXTENSION: {}}},
    "media types of a wrong type": {"extensions": {apps.EXTENSION: {"mimeTypes": 5}}},
}
"""The capabilities of clients that show no apps."""
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "tools/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "ui://carrel/hits"},
    "tools/call": {"name": "draw_shelves", "arguments": {}},
}


HTML_FROM_TEXT: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|setAttribute\(\"(?:on|href|src|style)"
)
"""These parts of JavaScript would turn a text into HTML or code."""
SENDS_REQUESTS: Final = re.compile(
    r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|\bimport\b.*from"
)
"""These parts of JavaScript would send a request."""


class WireClient:
    """A client that posts messages by hand.

    Attributes:
        endpoint: The endpoint.
        greeting: The response to `initialize` or `server/discover`.
    """

    greeting: httpx2.Response

    def __init__(self, catalog: Catalog, version: str, capabilities: dict[str, Any]) -> None:
        """Make a client of a server with these tools."""
        server = build_server(catalog, make_pipeline(FakeDispatcher(lambda *_: {"shelf": "top"})))
        self.endpoint = McpEndpoint(lambda _query: server, SECURITY)
        self._version = version
        self._capabilities = capabilities
        self._session: list[tuple[str, str]] = []

    async def connect(self) -> Self:
        """Send the first request of the revision, and keep its response."""
        if self._version == MODERN:
            self.greeting = await self.post("server/discover")
            return self
        request = make_initialize(self._version)
        request["params"]["capabilities"] = self._capabilities
        self.greeting = await post_to(self.endpoint, request, [])
        if session_id := self.greeting.headers.get("mcp-session-id"):
            self._session = [("mcp-session-id", session_id)]
        return self

    async def post(self, method: str, **params: Any) -> httpx2.Response:
        """Post a request."""
        if self._version == MODERN:
            key = "io.modelcontextprotocol/clientCapabilities"
            params["_meta"] = CLIENT_META | {key: self._capabilities}
        body = make_request(method, **params)
        headers = [*make_headers(body, self._version), *self._session]
        return await post_to(self.endpoint, body, headers)


def test_the_extensions_names_are_those_of_the_sdk() -> None:
    """The SDK's module would double the time to import the gateway."""
    assert apps.EXTENSION == EXTENSION_ID
    assert apps.MIME_TYPE == APP_MIME_TYPE


@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
async def test_a_client_that_declares_the_extension_gets_apps(version: str) -> None:
    client = await WireClient(WITH_APPS, version, CAPABILITIES).connect()
    capabilities = client.greeting.json()["result"]["capabilities"]

    assert list(capabilities["extensions"]) == [apps.EXTENSION]

    tools = (await client.post("tools/list")).json()["result"]["tools"]
    assert {tool["name"]: tool.get("_meta") for tool in tools} == {
        "draw_shelves": {"ui": {"visibility": ["app"]}},
        "get_book": None,
        "search_books": {"ui": {"resourceUri": "ui://carrel/hits"}},
    }

    response = await client.post("resources/read", uri="ui://carrel/hits")
    [page] = response.json()["result"]["contents"]
    assert page["uri"] == "ui://carrel/hits"
    assert page["mimeType"] == apps.MIME_TYPE
    assert page["text"].startswith("<!doctype html>")
    assert page["_meta"] == {"ui": {"csp": {}, "prefersBorder": True}}

    response = await client.post("resources/read", uri="ui://carrel/../console")
    assert "There is no resource" in response.json()["error"]["message"]

    called = await client.post("tools/call", name="draw_shelves", arguments={})
    assert called.json()["result"]["structuredContent"] == {"shelf": "top"}


@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
@pytest.mark.parametrize("declaration", OTHER_CAPABILITIES)
async def test_a_client_without_apps_gets_the_same_bytes(version: str, declaration: str) -> None:
    """Each answer has the same bytes as that of a server without apps."""
    capabilities = OTHER_CAPABILITIES[declaration]
    client = await WireClient(WITH_APPS, version, capabilities).connect()
    reference = await WireClient(WITHOUT_APPS, version, capabilities).connect()
    assert client.greeting.content == reference.greeting.content
    assert client.greeting.headers == reference.greeting.headers
    for method, params in REQUESTS.items():
        response = await client.post(method, **params)
        expected = await reference.post(method, **params)
        assert response.content == expected.content, method


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_any_instance_serves_a_session(version: str) -> None:
    """Each session is served by any instance, so also by one that never saw its handshake."""
    clients = [await WireClient(WITH_APPS, version, CAPABILITIES).connect() for _ in range(2)]
    first_id, second_id = (client.greeting.headers["mcp-session-id"] for client in clients)
    assert first_id != second_id

    server = WireClient(WITH_APPS, version, CAPABILITIES)
    body = make_request("tools/list")
    # A session with apps has all three tools; an unknown one lacks the tool for apps only.
    for session_id, tool_count in ((first_id, 3), (second_id, 3), ("of-another-server", 2)):
        headers = [*make_headers(body, version), ("mcp-session-id", session_id)]
        response = await post_to(server.endpoint, body, headers)
        assert len(response.json()["result"]["tools"]) == tool_count


@pytest.mark.parametrize("mode", [MODERN, "legacy"])
async def test_a_client_without_http_gets_apps(mode: str) -> None:
    server = make_server(FakeDispatcher(lambda *_: {}), WITH_APPS)
    extensions = [advertise(apps.EXTENSION, EXTENSION_SETTINGS)]
    async with Client(server, mode=mode, extensions=extensions) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        await client.read_resource("ui://carrel/hits")
    async with Client(server, mode=mode) as client:
        other_names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["draw_shelves", "get_book", "search_books"]
    assert other_names == ["get_book", "search_books"]


async def test_a_selection_without_apps_does_not_declare_them() -> None:
    servers = SelectedServers(WITH_APPS, make_pipeline(FakeDispatcher(lambda *_: {})))
    request = make_initialize(HANDSHAKE[0])
    request["params"]["capabilities"] = CAPABILITIES
    endpoint = McpEndpoint(lambda _query: servers.find("tools=chatgpt"), SECURITY)
    response = await post_to(endpoint, request, [])
    assert "extensions" not in response.json()["result"]["capabilities"]
    assert "mcp-session-id" not in response.headers


class FakeContext:
    """The context of an `initialize` request."""

    method = "initialize"
    params: ClassVar[dict[str, Any]] = {"capabilities": CAPABILITIES}


async def test_other_extensions_of_the_server_stay_declared() -> None:
    other_extensions: dict[str, Any] = {"com.example/other": {}}

    async def call_next(_context: Any) -> dict[str, Any]:
        return {"capabilities": {"extensions": dict(other_extensions)}}

    result: Any = await apps.advertise_apps(FakeContext(), call_next)  # type: ignore[arg-type]
    apps_extension = {apps.EXTENSION: {"mimeTypes": [apps.MIME_TYPE]}}
    assert result["capabilities"]["extensions"] == other_extensions | apps_extension


def test_changing_a_returned_declaration_changes_no_other() -> None:
    headers = {"mcp-session-id": "apps.1"}
    changed_capabilities = apps.recall_capabilities(headers)
    expected = apps.recall_capabilities(headers)
    assert changed_capabilities

    changed_capabilities["extensions"][apps.EXTENSION]["mimeTypes"].append("text/plain")
    assert apps.recall_capabilities(headers) == expected

    page_meta = apps.build_page_contents("hits").meta
    assert page_meta

    page_meta["ui"]["prefersBorder"] = False
    assert apps.build_page_contents("hits").meta == {"ui": {"csp": {}, "prefersBorder": True}}


def test_an_app_is_one_small_page_that_sends_no_requests() -> None:
    names = {tool.app for tool in tools() if tool.app}
    assert names == {"hits", "map"}
    for name in names:
        page = build_app_page(name)
        assert len(page.encode()) < 150_000
        assert page.count("<script") == page.count("</script>") == 1
        assert page.count("<style>") == page.count("</style>") == 1
        assert re.findall(r"@import|url\(|<link|\ssrc=", page) == []
        assert SENDS_REQUESTS.findall(page) == []
        assert HTML_FROM_TEXT.findall(page) == []
