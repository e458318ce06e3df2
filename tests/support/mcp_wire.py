"""MCP messages as they are sent over HTTP, made without a client library.

Tests can therefore also send messages that no client library would send.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

import httpx2
import jsonschema  # type: ignore[import-untyped]  # mcp brings it, without types

from infra.build.discovery import tools

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

TOOL_NAMES = [tool.name for tool in tools() if not tool.internal]
"""Every tool that clients may call, as the gateway lists them."""


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
