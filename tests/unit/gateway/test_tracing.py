"""Log entries of MCP handlers have the trace of their own request, over real HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp.server.lowlevel import Server

from functions.gateway.app import Tracing
from infra.local.processes import is_listening
from shared.core.log import log
from tests.support.mcp_wire import HANDSHAKE, make_call, post, post_modern

TRACE = "logging.googleapis.com/trace"


def make_trace_header(digit: str) -> dict[str, str | None]:
    """Return a header that names a trace of this digit alone."""
    return {"traceparent": f"00-{digit * 32}-{digit * 16}-01"}


def call_with_handshake(url: str, headers: dict[str, str | None]) -> httpx2.Response:
    return post(url, make_call("say", {}), {"mcp-protocol-version": HANDSHAKE[0], **headers})


def call_without_handshake(url: str, headers: dict[str, str | None]) -> httpx2.Response:
    return post_modern(url, "tools/call", headers, name="say", arguments={})


class MeetingServer:
    """An MCP server whose handler waits for a number of concurrent calls before it logs."""

    def __init__(self, calls: int) -> None:
        self._barrier = asyncio.Barrier(calls)

    def server(self) -> Server[Any]:
        """Return the server."""
        return Server("meeting", on_call_tool=self._say, on_list_tools=self._list)

    async def _say(self, _context: object, _params: object) -> types.CallToolResult:
        await self._barrier.wait()
        log.info("said")
        return types.CallToolResult(content=[])

    async def _list(self, _context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name="say", input_schema={"type": "object"})]
        )


@asynccontextmanager
async def serve_meeting(calls: int) -> AsyncIterator[str]:
    """Serve a `MeetingServer` with the gateway's tracing, and yield its URL."""
    app = MeetingServer(calls).server().streamable_http_app(stateless_http=True, json_response=True)
    app.add_middleware(Tracing, project="shelf")
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        server_task = asyncio.create_task(server.serve([listening_socket]))
        host = f"127.0.0.1:{listening_socket.getsockname()[1]}"
        assert await asyncio.to_thread(is_listening, host)
        yield f"http://{host}/mcp"
        server.should_exit = True
        await server_task


@pytest.mark.parametrize("send_call", [call_with_handshake, call_without_handshake])
async def test_calls_at_the_same_time_each_log_their_own_trace(
    send_call: Callable[[str, dict[str, str | None]], httpx2.Response],
    capsys: pytest.CaptureFixture[str],
) -> None:
    headers: list[dict[str, str | None]] = [
        make_trace_header("a"),
        make_trace_header("b"),
        {},
        {"traceparent": "no trace"},
    ]
    async with serve_meeting(len(headers)) as url:
        replies = await asyncio.gather(
            *(asyncio.to_thread(send_call, url, header) for header in headers)
        )

    assert [reply.status_code for reply in replies] == [200] * len(headers)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    traces = sorted(str(line.get(TRACE)) for line in lines if line["message"] == "said")
    names = [f"projects/shelf/traces/{digit * 32}" for digit in "ab"]
    assert traces == ["None", "None", *names]
