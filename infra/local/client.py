"""One call to a gateway with the official MCP client, for people at a terminal."""

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
_GET_A_KEY: Final = (
    "`carrel keys create --user YOU --name terminal` makes a key, and `export CARREL_KEY=...` has"
    " this command send it."
)


async def call_tool(
    url: str, name: str, arguments: dict[str, Any], key: str | None = None
) -> tuple[bool, str]:
    """Call a tool, with a key if there is one; return whether it went well, and what to print.

    Raises:
        InvalidInput: The key would travel in the clear, or cannot be a key.
        Unauthorized: There has to be a key, or another one.
        Unavailable: Nothing answers at `url`.
    """
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    hooks = {"response": [note]}
    try:
        async with (
            httpx2.AsyncClient(
                timeout=_TIMEOUT, headers=_headers(url, key), event_hooks=hooks
            ) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return _told(await client.call_tool(name, arguments))
    except (MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as error:
        match _first(error):
            case MCPError() as refused if httpx2.codes.UNAUTHORIZED in statuses:
                raise Unauthorized(f"{refused.message}\n{_GET_A_KEY}") from error
            case MCPError() as refused:
                return False, refused.message
            case httpx2.HTTPError() | OSError():
                message = f"Nothing answers at {url}. Start it with `make run`, or name its --url."
                raise Unavailable(message) from error
        raise


def _first(error: Exception) -> Exception:
    """An error, or the first of a group: the client's tasks end in groups within groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _headers(url: str, key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("CARREL_KEY holds no key: it has characters that no key has.")
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        raise InvalidInput(f"A key travels over https only, or on this machine: not to {url}")
    return {"x-api-key": key}


def _told(result: CallToolResult) -> tuple[bool, str]:
    if result.is_error:
        return False, "".join(block.text for block in result.content if block.type == "text")
    return True, json.dumps(result.structured_content, indent=2, ensure_ascii=False)
