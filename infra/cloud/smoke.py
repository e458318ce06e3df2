"""Runs the smoke test: a client's typical first requests, sent with the official MCP client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from functions.gateway.auth.public_url import METADATA_PATH, RESOURCE_PATH
from functions.tools.knowledge.search_kb.messages import DEGRADED
from shared.core.addresses import is_loopback
from shared.search.query import Degradation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

QUERY: Final = "what is this about?"
"""The query of the search, which need not find anything."""
_REQUIRED_TOOLS: Final = frozenset({"get_stats", "search_kb"})
"""The tools that the test calls."""
_TIMEOUT: Final = httpx2.Timeout(30, read=120)
"""The time limits of a request, in seconds. A response may have to wait for two cold starts."""
_HEALTH_PATH: Final = "/health"
_MAX_QUOTED: Final = 300
"""A line quotes at most this many characters of a response, which may come from any server."""
_EMBEDDING_UNAVAILABLE: Final = DEGRADED[Degradation.EMBEDDING_UNAVAILABLE]
"""The message of a search whose query could not be embedded. It fails the test, although the search
itself succeeds."""


_LIST_TOOLS: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_LIST_TOOLS_HEADERS: Final = {"accept": "application/json, text/event-stream"}


class _Health(BaseModel):
    """The response of `/health`: the state of each part, which is `ok` or a reason."""

    parts: dict[str, str]


class _Metadata(BaseModel):
    """The field of the OAuth metadata that the test reads."""

    resource: str


class _Stats(BaseModel):
    """The fields of get_stats' result that the test reads."""

    chunks: int
    sources: int


class _SearchResults(BaseModel):
    """The fields of search_kb's result that the test reads."""

    results: list[Any]
    message: str | None = None


ResultT = TypeVar("ResultT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SmokeReport:
    """The result of a smoke test.

    Attributes:
        passed: Whether the test passed.
        lines: A line about each request. After a failure, the last line gives the reason.
    """

    passed: bool
    lines: Sequence[str]


async def run_smoke_test(url: str, key: str, *, public: bool = False) -> SmokeReport:
    """Check the gateway's health and access control, list its tools, and call two of them.

    Raises:
        ClickException: The key would be sent unencrypted.
    """
    endpoint = _resolve_endpoint(url)
    lines: list[str] = []
    statuses: list[int] = []

    async def record_status(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    hooks = {"response": [record_status]}
    headers = {"x-api-key": key}
    try:
        async with (
            httpx2.AsyncClient(timeout=_TIMEOUT, event_hooks=hooks) as anonymous,
            httpx2.AsyncClient(timeout=_TIMEOUT, event_hooks=hooks, headers=headers) as http,
        ):
            passed = await _check_health(anonymous, endpoint, lines) and await _check_access(
                anonymous, endpoint, lines, public=public
            )
            if passed:
                async with Client(streamable_http_client(endpoint, http_client=http)) as client:
                    passed = await _try_tools(client, lines)
    # The SDK's client raises RuntimeError for answers that break the protocol, and its tasks raise
    # groups of errors.
    except (MCPError, httpx2.HTTPError, OSError, RuntimeError, ExceptionGroup) as error:
        status = f" (HTTP {statuses[-1]})" if statuses else ""
        lines.append(f"{endpoint} did not answer as expected{status}: {_describe_innermost(error)}")
        passed = False
    return SmokeReport(passed, lines)


def _resolve_endpoint(url: str) -> str:
    """Return the MCP endpoint of a gateway.

    Raises:
        ClickException: A key would be sent there unencrypted.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        message = f"A key is only sent over https or to this machine, not to {url}"
        raise click.ClickException(message)
    return url if parts.path.strip("/") else url.rstrip("/") + RESOURCE_PATH


async def _check_health(http: httpx2.AsyncClient, endpoint: str, lines: list[str]) -> bool:
    """Ask for the health of the gateway's parts; add a line, and return whether all are healthy.

    To answer, the gateway calls each tool's function, authorized as for a tool call.
    """
    response = await http.get(httpx2.URL(endpoint).copy_with(path=_HEALTH_PATH))
    if response.status_code == httpx2.codes.OK:
        lines.append("all parts are healthy")
        return True
    try:
        parts = _Health.model_validate_json(response.content).parts
    except ValidationError:
        parts = {}
    unhealthy = [f"{name} ({state})" for name, state in parts.items() if state != "ok"]
    reason = ", ".join(unhealthy) or response.text[:_MAX_QUOTED]
    if response.status_code == httpx2.codes.FORBIDDEN:
        reason += " (if your organization forbids allUsers, see docs/deploy.md)"
    lines.append(f"{_HEALTH_PATH} answers {response.status_code}: {reason}")
    return False


async def _check_access(
    http: httpx2.AsyncClient, endpoint: str, lines: list[str], *, public: bool
) -> bool:
    """Check that a call without a credential is rejected, and that clients can then sign in.

    For that, the OAuth metadata must name the URL by which they reach the gateway.
    """
    response = await http.post(endpoint, json=_LIST_TOOLS, headers=_LIST_TOOLS_HEADERS)
    if public and response.status_code == httpx2.codes.OK:
        lines.append("anyone may read without a credential")
        return True
    if response.status_code != httpx2.codes.UNAUTHORIZED:
        lines.append(
            f"a call without a credential gets status {response.status_code} instead of 401"
        )
        return False
    lines.append("a call without a credential is rejected")
    url = httpx2.URL(endpoint)
    response = await http.get(url.copy_with(path=METADATA_PATH + url.path))
    try:
        resource = _Metadata.model_validate_json(response.content).resource
    except ValidationError:
        lines.append(f"{response.url} answers {response.status_code} without metadata")
        return False
    if resource != endpoint:
        lines.append(f"the gateway publishes {resource}, not {endpoint}: correct public_url")
        return False
    return True


async def _try_tools(client: Client, lines: list[str]) -> bool:
    """List and call tools, and return whether they work. Add a line about each request."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    lines.append(f"{len(names)} tools are listed")
    if missing := _REQUIRED_TOOLS - names:
        lines.append(f"missing tools: {', '.join(sorted(missing))}")
        return False
    stats = await _call_tool(client, "get_stats", {}, _Stats, lines)
    if stats is None:
        return False
    lines.append(f"get_stats counts {stats.chunks} passages of {stats.sources} sources")
    arguments = {"query": QUERY, "limit": 3}
    search = await _call_tool(client, "search_kb", arguments, _SearchResults, lines)
    if search is None:
        return False
    lines.append(f"search_kb returns {len(search.results)} passages")
    if search.message:
        lines.append(f"search_kb says: {search.message[:_MAX_QUOTED]}")
    return _EMBEDDING_UNAVAILABLE not in (search.message or "")


async def _call_tool(
    client: Client,
    name: str,
    arguments: dict[str, Any],
    result_type: type[ResultT],
    lines: list[str],
) -> ResultT | None:
    """Call a tool and return its result. After a failure, add a line to `lines` and return None."""
    result = await client.call_tool(name, arguments)
    if result.is_error:
        text = "".join(block.text for block in result.content if block.type == "text")
        lines.append(f"{name} failed: {text[:_MAX_QUOTED]}")
        return None
    try:
        return result_type.model_validate(result.structured_content)
    except ValidationError as error:
        problems = "; ".join(map(_describe_problem, error.errors()))
        lines.append(f"{name} did not answer as expected: {problems[:_MAX_QUOTED]}")
        return None


def _describe_problem(problem: ErrorDetails) -> str:
    """Describe a problem of a field, such as `chunks: Field required`."""
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _describe_innermost(error: BaseException) -> str:
    """Describe the first error in the nested groups that the client's tasks raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or type(error).__name__
