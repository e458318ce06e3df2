"""MCP messages as they are sent over HTTP, or to an app in this process, without a client library.

Tests can therefore also send messages that no client library would send.
"""

import json
import ssl
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import jsonschema  # type: ignore[import-untyped]  # mcp brings it, without types
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.gateway.auth.visitor import LOCAL_USER, Visitor
from functions.gateway.catalog import Catalog
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.settings import Settings

MODERN = "2026-07-28"
"""The stateless revision, without sessions and handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions that begin with `initialize`."""
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A TLS context for plain HTTP, since loading the CA certificates takes 30 ms per client."""
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
"""The headers of every message."""
CLIENT_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "carrel-tests", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What a client of the stateless revision says about itself in each request."""

SECURITY: Final = TransportSecuritySettings(
    allowed_hosts=["carrel.example"], allowed_origins=["https://notebook.example"]
)
"""The host and the origins of an endpoint in this process."""
_CATALOG = Catalog.load()
OFFERED = _CATALOG.select(_CATALOG.list_default_groups(Settings()))
"""The tools of an address that names no groups, without a language model."""
TOOL_NAMES = [tool.name for tool in tools() if not tool.internal and tool.name in OFFERED.names]
"""Every tool that clients may call there, as the gateway lists them."""


def make_request(method: str, **params: Any) -> dict[str, Any]:
    """Make a request of the handshake revisions."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def make_initialize(version: str) -> dict[str, Any]:
    """Make the request that starts the handshake."""
    client = {"name": "carrel-tests", "version": "1.0.0"}
    return make_request("initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def make_call(tool: str, arguments: Any) -> dict[str, Any]:
    """Make a tool call of the handshake revisions."""
    return make_request("tools/call", name=tool, arguments=arguments)


def post(
    url: str, body: dict[str, Any] | bytes, headers: dict[str, str | None] | None = None
) -> httpx2.Response:
    """Post a message. The headers override `HEADERS`; a header that is None is omitted."""
    all_headers = {**HEADERS, **(headers or {})}
    present_headers = {name: value for name, value in all_headers.items() if value is not None}
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return httpx2.post(url, headers=present_headers, timeout=60, verify=NO_TLS, **content)


def post_modern(
    url: str, method: str, extra_headers: dict[str, str | None] | None = None, /, **params: Any
) -> httpx2.Response:
    """Post a request of revision 2026-07-28, with the headers that repeat parts of the body.

    `extra_headers` override these headers.
    """
    headers: dict[str, str | None] = {"mcp-protocol-version": MODERN, "mcp-method": method}
    headers |= extra_headers or {}
    if name := params.get("name") or params.get("uri"):
        headers["mcp-name"] = name
    return post(url, make_request(method, **params, _meta=CLIENT_META), headers)


def assert_matches_schema(value: object, schema: dict[str, Any]) -> None:
    """Assert that a value matches a tool's output schema, and has no other fields."""
    jsonschema.validate(value, forbid_extra_fields(schema))


def forbid_extra_fields(schema: Any) -> Any:
    """Copy a schema so that its objects allow no other fields."""
    if isinstance(schema, list):
        return [forbid_extra_fields(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: forbid_extra_fields(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        strict.setdefault("additionalProperties", False)
    return strict


def attach_owner(app: ASGIApp) -> ASGIApp:
    """Wrap an app so that each request comes from the machine's owner."""

    async def app_with_owner(scope: Scope, receive: Receive, send: Send) -> None:
        Visitor(Caller.of(LOCAL_USER), rate_limit_key=None).attach(scope)
        await app(scope, receive, send)

    return app_with_owner


async def post_to(app: ASGIApp, body: object, headers: list[tuple[str, str]]) -> httpx2.Response:
    """Post a JSON value, or bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await post_content(app, content, [*HEADERS.items(), *headers])


async def post_content(
    app: ASGIApp, content: bytes, headers: list[tuple[str, str]]
) -> httpx2.Response:
    """Post bytes with these headers."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(attach_owner(app))) as client:
        return await client.post("http://carrel.example/mcp", content=content, headers=headers)


def make_headers(body: Mapping[str, Any], version: str) -> list[tuple[str, str]]:
    """Return the headers that a client of this revision sends with a request."""
    headers = [("mcp-protocol-version", version)]
    if version == MODERN and "method" in body:
        headers.append(("mcp-method", body["method"]))
        name = body.get("params", {}).get("name") or body.get("params", {}).get("uri")
        headers += [("mcp-name", str(name))] if name else []
    return headers
