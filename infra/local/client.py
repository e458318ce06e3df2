"""Calls tools with the official MCP client, for commands such as `carrel search`."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from infra.folders import run_command
from shared.core.addresses import is_loopback
from shared.core.errors import InvalidInput, Unauthorized, Unavailable
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_types import CallToolResult

    CallTool = Callable[[str, dict[str, Any]], Awaitable["Answer"]]
    """Calls the tool with a name and arguments."""

_TIMEOUT: Final = httpx2.Timeout(30, read=300)
"""The time limits of a request, in seconds. The gateway answers a call within 300."""
_KEY_ADVICE: Final = (
    "Create a key with `{create}`, and put it into the environment with `export CARREL_KEY=...`."
)


class Answer(NamedTuple):
    """What a tool answers.

    Attributes:
        text: What a model reads: prose or, of a tool that writes none, the result as JSON.
    """

    result: dict[str, Any]
    text: str


class CallFailed(Exception):
    """A call failed. The exception's message is the server's answer.

    Attributes:
        code: The error code, or an empty string if the server does not know the tool.
        reason: What is wrong and what to do next, for people.
    """

    def __init__(self, answer: str) -> None:
        """Parse the server's answer, which is JSON with the error, or else a message."""
        super().__init__(answer)
        error = json.loads(answer)["error"] if answer.startswith("{") else {"message": answer}
        self.code: str = error.get("code", "")
        self.reason: str = error["message"]


@asynccontextmanager
async def connect(url: str, key: str | None = None) -> AsyncIterator[CallTool]:
    """Connect to a gateway, and yield a function that calls a tool.

    Raises:
        CallFailed: The server answers a call with an error.
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
                timeout=_TIMEOUT, headers=_make_headers(url, key), event_hooks=hooks
            ) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):

            async def call_tool(name: str, arguments: dict[str, Any]) -> Answer:
                return _parse_answer(await client.call_tool(name, arguments))

            yield call_tool
    except (CallFailed, MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as error:
        match _get_innermost(error):
            case CallFailed() as failure:
                raise failure from None
            case MCPError() as mcp_error if httpx2.codes.UNAUTHORIZED in statuses:
                create = carrel("keys create --user YOU --name terminal")
                advice = _KEY_ADVICE.format(create=create)
                raise Unauthorized(f"{mcp_error.message}\n{advice}") from error
            case MCPError() as mcp_error:
                raise CallFailed(mcp_error.message) from error
            case httpx2.HTTPError() | OSError():
                message = (
                    f"Nothing answers at {url}. Start Carrel with `{run_command()}`, or pass --url."
                )
                raise Unavailable(message) from error
        raise


def _get_innermost(error: Exception) -> Exception:
    """Return the first error in the nested groups that the client's tasks raise."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _make_headers(url: str, key: str | None) -> dict[str, str]:
    """Make the headers with a key, if any.

    Raises:
        InvalidInput: The key is not valid, or would be sent unencrypted.
    """
    if not key:
        return {}
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("CARREL_KEY is not a key: it has characters that no key has.")
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts):
        raise InvalidInput(f"A key is only sent over https or to this machine, not to {url}")
    return {"x-api-key": key}


def _parse_answer(result: CallToolResult) -> Answer:
    text = "".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        raise CallFailed(text)
    return Answer(result.structured_content or {}, text)
