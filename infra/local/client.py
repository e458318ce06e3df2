"""Calls a tool with the official MCP client, for `carrel call`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from shared.core.addresses import is_loopback
from shared.core.errors import InvalidInput, Unauthorized, Unavailable

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_TIMEOUT: Final = httpx2.Timeout(30, read=300)
_KEY_ADVICE: Final = (
    "Create a key with `carrel keys create --user YOU --name terminal`, and put it into the"
    " environment with `export CARREL_KEY=...`."
)


async def call_tool(
    url: str, name: str, arguments: dict[str, Any], key: str | None = None
) -> tuple[bool, str]:
    """Call a tool, and return whether it succeeded and the text to print.

    Raises:
        InvalidInput: The key is not valid, or would be sent unencrypted.
        Unauthorized: The gateway requires a key, or rejects this one.
        Unavailable: No server answers at `url`.
    """
    statuses: list[int] = []

    async def record_status(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    hooks = {"response": [record_status]}
    try:
        async with (
            httpx2.AsyncClient(
                timeout=_TIMEOUT, headers=_headers(url, key), event_hooks=hooks
            ) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return _parse_result(await client.call_tool(name, arguments))
    except (MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as error:
        match _innermost(error):
            case MCPError() as mcp_error if httpx2.codes.UNAUTHORIZED in statuses:
                raise Unauthorized(f"{mcp_error.message}\n{_KEY_ADVICE}") from error
            case MCPError() as mcp_error:
                return False, mcp_error.message
            case httpx2.HTTPError() | OSError():
                message = f"Nothing answers at {url}. Start Carrel with `make run`, or pass --url."
                raise Unavailable(message) from error
        raise


def _innermost(error: Exception) -> Exception:
    """Return the first error in the nested groups that the client's tasks raise."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _headers(url: str, key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("CARREL_KEY is not a key: it has characters that no key has.")
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        raise InvalidInput(f"A key is only sent over https or to this machine, not to {url}")
    return {"x-api-key": key}


def _parse_result(result: CallToolResult) -> tuple[bool, str]:
    if result.is_error:
        return False, "".join(block.text for block in result.content if block.type == "text")
    return True, json.dumps(result.structured_content, indent=2, ensure_ascii=False)
