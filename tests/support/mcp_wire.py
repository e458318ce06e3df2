"""MCP by hand: the messages and headers that a client library would make."""

from __future__ import annotations

import ssl
from typing import Any, Final

import httpx2
import jsonschema  # type: ignore[import-untyped]  # mcp brings it, without types

from infra.build.discovery import tools

MODERN = "2026-07-28"
"""The revision without sessions or handshake."""
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions that begin with `initialize`."""
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For plain HTTP: to read the certificates of all authorities takes 30 ms a client."""
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "carrel-tests", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

TOOL_NAMES = [tool.name for tool in tools() if not tool.internal]
"""Every tool that clients may call, as the gateway lists them."""


def message(method: str, **params: Any) -> dict[str, Any]:
    """A request as the handshake revisions have it."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def initialize(version: str) -> dict[str, Any]:
    """The request that opens the handshake."""
    client = {"name": "carrel-tests", "version": "1.0.0"}
    return message("initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def call(tool: str, arguments: Any) -> dict[str, Any]:
    """A call of a tool, as the handshake revisions have it."""
    return message("tools/call", name=tool, arguments=arguments)


def post(
    url: str, body: dict[str, Any] | bytes, headers: dict[str, str | None] | None = None
) -> httpx2.Response:
    """Post a message; a header that is None is left out."""
    with_ours = {**HEADERS, **(headers or {})}
    sent = {name: value for name, value in with_ours.items() if value is not None}
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return httpx2.post(url, headers=sent, timeout=60, verify=NO_TLS, **content)


def post_modern(
    url: str, method: str, more: dict[str, str | None] | None = None, /, **params: Any
) -> httpx2.Response:
    """Post a request of the revision 2026-07-28, whose headers repeat what it says."""
    headers: dict[str, str | None] = {"mcp-protocol-version": MODERN, "mcp-method": method}
    headers |= more or {}
    if named := params.get("name") or params.get("uri"):
        headers["mcp-name"] = named
    return post(url, message(method, **params, _meta=ENVELOPE), headers)


def assert_fits(value: object, schema: dict[str, Any]) -> None:
    """Fail unless a value is what a tool's output schema says, and has no field beside."""
    jsonschema.validate(value, closed(schema))


def closed(schema: Any) -> Any:
    """The same schema, whose objects have the fields that it names and no others."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict
