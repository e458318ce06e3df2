"""One call to a gateway with the official MCP client, for people at a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client
from mcp.shared.exceptions import MCPError

from shared.errors import Unavailable

if TYPE_CHECKING:
    from mcp_types import CallToolResult


async def call_tool(url: str, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Call a tool; return whether it went well, and what to print.

    Raises:
        Unavailable: Nothing answers at `url`.
    """
    try:
        return await _call(url, name, arguments)
    except* (httpx2.HTTPError, OSError) as group:
        raise Unavailable(f"Nothing answers at {url}. Start it with `make run`.") from group


async def _call(url: str, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    async with Client(url) as client:
        try:
            return _told(await client.call_tool(name, arguments))
        except MCPError as error:
            return False, error.message


def _told(result: CallToolResult) -> tuple[bool, str]:
    if result.is_error:
        return False, "".join(block.text for block in result.content if block.type == "text")
    return True, json.dumps(result.structured_content, indent=2, ensure_ascii=False)
