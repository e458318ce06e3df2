"""Clients read passages as resources of the protocol.

The official Python client runs with the newest revision and with a handshake, as before 2026.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client
from mcp_types import ReadResourceResult, TextResourceContents

from tests.support.gateway_process import FilledProject, RunningGateway
from tests.support.mcp_wire import MODERN, make_request, post, post_modern

CHUNK_TEMPLATE = "carrel://chunk/{chunk_id}"
METHOD_NOT_FOUND = -32601


@pytest.fixture(params=[MODERN, "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """A mode of the client: the newest revision, or a handshake."""
    return str(request.param)


@pytest.fixture
async def client(carrel: RunningGateway, mode: str) -> AsyncIterator[Client]:
    """A connected client."""
    async with Client(carrel.endpoint, mode=mode) as connected:
        yield connected


def parse_resource(result: ReadResourceResult) -> dict[str, Any]:
    """Parse the JSON of a resource."""
    [content] = result.contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return dict(json.loads(content.text))


async def test_a_chunk_resource_equals_the_result_of_get_chunk(
    client: Client, filled_project: FilledProject
) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    [template] = [t for t in templates if t.uri_template == CHUNK_TEMPLATE]
    assert template.name == "chunk"
    assert template.mime_type == "application/json"
    for chunk in (filled_project.chunks[0], filled_project.chunks[-1]):
        resource = parse_resource(await client.read_resource(f"carrel://chunk/{chunk.chunk_id}"))
        result = await client.call_tool("get_chunk", {"chunk_id": chunk.chunk_id})
        assert result.structured_content == resource
        assert resource["content"] == chunk.content


async def test_subscriptions_are_neither_offered_nor_accepted(carrel: RunningGateway) -> None:
    capabilities = post_modern(carrel.endpoint, "server/discover").json()["result"]["capabilities"]
    assert capabilities.keys() == {"tools", "prompts", "resources", "completions"}
    assert "true" not in json.dumps(capabilities)  # neither subscribe nor listChanged
    request = make_request("resources/subscribe", uri="carrel://chunk/a")
    assert post(carrel.endpoint, request).json()["error"]["code"] == METHOD_NOT_FOUND
