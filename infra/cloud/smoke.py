"""The smoke test: what a client does first, done once, with the official MCP client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from functions.tools.knowledge.search_kb.messages import DEGRADED
from infra.cloud.failures import NotDone
from shared.core.addresses import is_loopback
from shared.search.query import Degradation

if TYPE_CHECKING:
    from collections.abc import Sequence

QUERY: Final = "what is this about?"
_EXPECTED: Final = frozenset({"get_stats", "search_kb"})
_TIMEOUT: Final = httpx2.Timeout(30, read=120)
_PATH: Final = "/mcp"
_HEALTH: Final = "/health"
_QUOTED: Final = 300
_PROVIDER_DOWN: Final = DEGRADED[Degradation.EMBEDDING_UNAVAILABLE]


class _Health(BaseModel):
    parts: dict[str, str]


class _Stats(BaseModel):
    chunks: int
    sources: int


class _Found(BaseModel):
    results: list[Any]
    message: str | None = None


AnswerT = TypeVar("AnswerT", bound=BaseModel)


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
    """Ask how all parts are, list the tools, call two, and say in words what came of it.

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
        async with http:
            well = await _are_all_well(http, address, said)
            if well:
                async with Client(streamable_http_client(address, http_client=http)) as client:
                    well = await _talk(client, said)
    except (MCPError, httpx2.HTTPError, OSError, RuntimeError, ExceptionGroup) as error:
        status = f" (HTTP {statuses[-1]})" if statuses else ""
        said.append(f"{address} did not answer as it should{status}: {_innermost(error)}")
        well = False
    return Smoke(well, said)


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        raise NotDone(f"A key travels over https only, or on this machine: not to {url}")
    return url if parts.path.strip("/") else url.rstrip("/") + _PATH


async def _are_all_well(http: httpx2.AsyncClient, address: str, said: list[str]) -> bool:
    """Ask the gateway, which asks each tool's function: through IAM, as it does for a call."""
    response = await http.get(httpx2.URL(address).copy_with(path=_HEALTH))
    if response.status_code == httpx2.codes.OK:
        said.append("all parts are well")
        return True
    try:
        parts = _Health.model_validate_json(response.content).parts
    except ValidationError:
        parts = {}
    ill = [f"{name} ({state})" for name, state in parts.items() if state != "ok"]
    told = ", ".join(ill) or response.text[:_QUOTED]
    said.append(f"{_HEALTH} answers {response.status_code}: {told}")
    return False


async def _talk(client: Client, said: list[str]) -> bool:
    names = {tool.name for tool in (await client.list_tools()).tools}
    said.append(f"{len(names)} tools are listed")
    if missing := _EXPECTED - names:
        said.append(f"missing among them: {', '.join(sorted(missing))}")
        return False
    stats = await _called(client, "get_stats", {}, _Stats, said)
    if stats is None:
        return False
    said.append(f"get_stats counts {stats.chunks} passages of {stats.sources} sources")
    found = await _called(client, "search_kb", {"query": QUERY, "limit": 3}, _Found, said)
    if found is None:
        return False
    said.append(f"search_kb found {len(found.results)} passages")
    said += [f"it says: {found.message}"] if found.message else []
    return _PROVIDER_DOWN not in (found.message or "")


async def _called(
    client: Client, name: str, arguments: dict[str, Any], answer: type[AnswerT], said: list[str]
) -> AnswerT | None:
    """What a tool answers; None where it fails, which is then said."""
    result = await client.call_tool(name, arguments)
    if result.is_error:
        text = "".join(block.text for block in result.content if block.type == "text")
        said.append(f"a call failed: {text}")
        return None
    try:
        return answer.model_validate(result.structured_content)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        said.append(f"{name} does not answer as it should: {wrong}")
        return None


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or type(error).__name__
