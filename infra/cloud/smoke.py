"""The smoke test: what a client does first, done once, with the official MCP client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from infra.cloud.failures import NotDone
from shared.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import CallToolResult

QUERY: Final = "what is this about?"
_EXPECTED: Final = frozenset({"get_stats", "search_kb"})
_TIMEOUT: Final = httpx2.Timeout(30, read=120)
_PATH: Final = "/mcp"


@dataclass(frozen=True, slots=True)
class Smoke:
    """What a smoke test found.

    Attributes:
        well: Whether all went well.
        said: What happened, line by line; of what went wrong, the last.
    """

    well: bool
    said: Sequence[str]


async def smoke(url: str, key: str) -> Smoke:
    """List the tools, call two of them, and say in words what came of it.

    Args:
        url: The gateway's address, with or without `/mcp`.
        key: An access key.

    Raises:
        NotDone: The key would travel in the clear.
    """
    address = _endpoint(url)
    said: list[str] = []
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    http = httpx2.AsyncClient(
        timeout=_TIMEOUT, headers={"x-api-key": key}, event_hooks={"response": [note]}
    )
    try:
        async with http, Client(streamable_http_client(address, http_client=http)) as client:
            well = await _talk(client, said)
    except (MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as error:
        status = f" (HTTP {statuses[-1]})" if statuses else ""
        said.append(f"{address} did not answer as it should{status}: {_innermost(error)}")
        well = False
    return Smoke(well, said)


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        raise NotDone(f"A key travels over https only, or on this machine: not to {url}")
    return url if parts.path.strip("/") else url.rstrip("/") + _PATH


async def _talk(client: Client, said: list[str]) -> bool:
    names = {tool.name for tool in (await client.list_tools()).tools}
    said.append(f"{len(names)} tools are listed")
    if missing := _EXPECTED - names:
        said.append(f"missing among them: {', '.join(sorted(missing))}")
        return False
    stats = await client.call_tool("get_stats", {})
    if _failed(stats, said):
        return False
    numbers = _content(stats)
    said.append(f"get_stats counts {numbers['chunks']} passages of {numbers['sources']} sources")
    found = await client.call_tool("search_kb", {"query": QUERY, "limit": 3})
    if _failed(found, said):
        return False
    answer = _content(found)
    said.append(f"search_kb found {len(answer['results'])} passages")
    said += [f"it says: {answer['message']}"] if answer.get("message") else []
    return True


def _failed(result: CallToolResult, said: list[str]) -> bool:
    if result.is_error:
        text = "".join(block.text for block in result.content if block.type == "text")
        said.append(f"a call failed: {text}")
    return result.is_error


def _content(result: CallToolResult) -> dict[str, Any]:
    return result.structured_content or {}


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
