"""The official Python client lists and calls tools.

It runs with the newest revision and with a handshake. The tools run in the gateway's process and in
functions of their own.
"""

import json
import re
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult

from functions.gateway.catalog import PATH
from functions.gateway.mcp.instructions import build_instructions
from functions.gateway.mcp.results import RECEIPT
from tests.support.client_calls import call_as_listed
from tests.support.gateway_process import FilledProject, RunningGateway
from tests.support.knowledge import BAKING, SAILING
from tests.support.mcp_wire import MODERN, OFFERED

LATEST_HANDSHAKE = "2025-11-25"


def get_first_text(result: CallToolResult) -> str:
    """Return the first block of a result, which must be a text."""
    block = result.content[0]
    assert block.type == "text"
    return block.text


async def search(client: Client, **arguments: Any) -> dict[str, Any]:
    """Return the structured content of a search."""
    result = await client.call_tool("search_kb", arguments)
    assert not result.is_error, get_first_text(result)
    return dict(result.structured_content or {})


@pytest.mark.requirement("002-I1")
async def test_a_handshake_leads_to_the_newest_revision_that_has_one(
    carrel: RunningGateway,
) -> None:
    async with Client(carrel.endpoint) as client:
        assert client.protocol_version == MODERN
    async with Client(carrel.endpoint, mode="legacy") as client:
        assert client.protocol_version == LATEST_HANDSHAKE
        assert client.server_info
        assert client.server_info.name == "carrel"
        assert client.instructions
        plain, _, facts = client.instructions.partition(" Today is 20")
        assert plain == build_instructions(OFFERED)
        assert "passages of" in facts


@pytest.mark.requirement("000-S3", "002-A1", "002-K4", "002-L6", "002-V1", "004-AC1")
async def test_the_tools_are_the_generated_catalogue_in_order(client: Client) -> None:
    declarations = {
        declaration["name"]: declaration
        for declaration in json.loads(PATH.read_text("utf-8"))
        if not declaration["internal"]
    }
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == sorted(declarations.keys() & set(OFFERED.names))
    for tool in tools:
        declared = declarations[tool.name]
        assert tool.title == declared["title"]
        assert tool.description == declared["description"]
        assert tool.input_schema == declared["inputSchema"]
        assert tool.output_schema == declared["outputSchema"]


@pytest.mark.requirement("000-I4", "000-T6.1", "000-T6.3", "002-O1", "003-D2", "004-AC4", "004-U4")
async def test_a_question_leads_to_a_passage_and_its_whole_text(
    client: Client, filled_project: FilledProject
) -> None:
    page = await search(client, query="when should one reduce sail?", limit=2)
    assert len(page["results"]) == 2
    best_hit = page["results"][0]
    result = await client.call_tool("get_chunk", {"chunk_id": best_hit["chunk_id"]})
    chunk = result.structured_content or {}
    assert chunk["chunk_id"] == filled_project.chunks[3].chunk_id
    assert chunk["content"] == SAILING.sections[0].text
    assert chunk["title"] == SAILING.title
    assert chunk["chunk_info"] == "1/2"
    assert chunk["related_chunks"][0]["title"] == SAILING.title


@pytest.mark.requirement("004-T4.2")
async def test_a_result_without_a_text_fits_its_schema_and_is_its_text(client: Client) -> None:
    result = await call_as_listed(client, "get_stats")
    assert json.loads(get_first_text(result)) == result.structured_content


async def test_a_text_for_models_has_the_hits_of_the_result(client: Client) -> None:
    result = await call_as_listed(client, "search_kb", query="bread")
    hits = (result.structured_content or {})["results"]
    assert re.findall(r"\bID: ([\w-]+)", get_first_text(result)) == [
        hit["chunk_id"] for hit in hits
    ]


async def test_other_scripts_and_emoji_survive_both_ways(
    client: Client, filled_project: FilledProject
) -> None:
    query = "Käse 熟成チーズ 🧀 👩🏽‍🍳 — im Keller"
    page = await search(client, query=query, limit=1)
    cheese = filled_project.chunks[-1]
    assert page["results"][0]["title"] == cheese.title
    assert page["results"][0]["author"] == cheese.author

    result = await client.call_tool("get_chunk", {"chunk_id": cheese.chunk_id})
    assert cheese.content == (result.structured_content or {})["content"]
    assert "🧀" in get_first_text(result)


@pytest.mark.requirement("000-E1", "000-E2", "002-F7", "004-N2", "004-U4")
async def test_an_error_is_text_without_structured_content(client: Client) -> None:
    result = await client.call_tool("get_chunk", {"chunk_id": "nobody"})
    error = json.loads(get_first_text(result))["error"]
    assert result.is_error
    assert result.structured_content is None
    assert error["code"] == "NOT_FOUND"
    assert error["details"] == {"chunk_id": "nobody"}
    assert "search_kb" in error["message"]
    assert (result.meta or {})[RECEIPT]["documents_read"] == 2  # the passage and its notes


async def test_a_client_can_make_concurrent_calls(client: Client) -> None:
    titles: list[str] = []

    async def search_once() -> None:
        result = await search(client, query="sourdough starter", limit=1)
        titles.append(result["results"][0]["title"])

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(search_once)
    assert titles == [BAKING.title] * 8
