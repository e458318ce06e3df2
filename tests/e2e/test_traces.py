"""The official client contributes, finds, votes on and withdraws traces.

A trace is a solved coding problem that a user shares. Everybody may read it.
"""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.support.access import CLOUD_SETTINGS, build_key_maker
from tests.support.client_calls import call_as_listed
from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.mcp_wire import MODERN
from tests.support.tool_calls import ANNA
from tests.support.traces import make_sample_trace

PUBLIC_ACCESS: Final = {"PUBLIC_ACCESS": "true", "ANONYMOUS_PER_MINUTE": "1000"}
READ_TOOLS: Final = ("get_trace", "list_tags", "search_traces")
WRITE_TOOLS: Final = ("amend_trace", "contribute_trace", "vote_trace", "withdraw_trace")


@pytest.fixture(scope="module")
def project() -> str:
    """The Google Cloud project of these tests."""
    return f"traces-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="module")
def gateway(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway with authentication that allows anonymous reads."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, **PUBLIC_ACCESS}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def keys(project: str) -> dict[str, str]:
    """The keys of three users."""
    make_key = build_key_maker(project)
    return {user: make_key(user) for user in (ANNA, "ben", "carl")}


@asynccontextmanager
async def connect(
    gateway: RunningGateway, key: str | None = None, mode: str = MODERN
) -> AsyncIterator[Client]:
    """Connect the official client with this key, or anonymously."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(gateway.endpoint, http_client=http), mode=mode) as client,
    ):
        yield client


def join_text(result: CallToolResult) -> str:
    """Join the text blocks of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def call_tool(client: Client, name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Call a tool that must succeed; return its text and its data, which must fit the schema."""
    result = await call_as_listed(client, name, **arguments)
    assert not result.is_error, join_text(result)
    return join_text(result), dict(result.structured_content or {})


@pytest.mark.requirement("002-F4", "002-F8", "002-L1", "002-S3", "002-S5", "002-V5")
@pytest.mark.parametrize("mode", [MODERN, "legacy"])
async def test_a_trace_is_contributed_found_voted_on_and_withdrawn(
    gateway: RunningGateway, keys: dict[str, str], mode: str
) -> None:
    sample = make_sample_trace(1 if mode == MODERN else 6)  # no trace is contributed twice
    async with connect(gateway, keys[ANNA], mode) as anna:
        _, data = await call_tool(anna, "contribute_trace", **sample)
        trace_id = data["trace_id"]
        message = data["message"]
        assert message.startswith(f"Trace submitted successfully (ID: {trace_id}). Status: pending")

    async with connect(gateway, keys["ben"], mode) as ben:
        _, data = await call_tool(ben, "vote_trace", trace_id=trace_id, vote_type="up")
        assert data["message"] == f"Vote recorded: upvote on trace {trace_id}."
        assert data["vote"] == "up"
        assert data["upvotes"] == 1

    async with connect(gateway, None, mode) as anonymous:
        text, data = await call_tool(anonymous, "search_traces", query=sample["title"])
        assert text.startswith(f"Found {len(data['results'])} result")
        assert f"\n\n1. {sample['title']} (score: " in text
        assert f"\n   ID: {trace_id}" in text
        assert data["results"][0]["trace_id"] == trace_id
        text, data = await call_tool(anonymous, "get_trace", trace_id=trace_id)
        assert text.startswith(f"{sample['title']}\nStatus: pending | Trust: ")
        assert data["solution_text"] == sample["solution_text"]
        assert sample["solution_text"] in text
        text, data = await call_tool(anonymous, "list_tags")
        assert text.startswith(f"Available tags ({data['total']} total):\n")
        assert set(sample["tags"]) <= data["tags"].keys()

    async with connect(gateway, keys[ANNA], mode) as anna:
        _, data = await call_tool(anna, "amend_trace", trace_id=trace_id, title="A new title")
        assert data["revision"] == 2
        assert data["changed"] == ["title"]
        _, data = await call_tool(anna, "withdraw_trace", trace_id=trace_id)
        assert data["status"] == "withdrawn"

    async with connect(gateway, None, mode) as anonymous:
        result = await anonymous.call_tool("get_trace", {"trace_id": trace_id})
        assert result.is_error
