"""An address such as `/mcp?tools=tasks` offers only a selection of the tools."""

import json
import re
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import MODERN, make_call, post


@pytest.mark.parametrize("mode", [MODERN, "legacy"])
async def test_a_client_gets_the_tools_of_its_address(carrel: RunningGateway, mode: str) -> None:
    endpoint = f"{carrel.endpoint}?tools=knowledge&readonly"
    async with Client(endpoint, mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"search_kb", "get_chunk"} <= names
        assert names.isdisjoint({"save_note", "forget", "list_tasks"})
        assert "save_note" not in (client.instructions or "")
        result = await client.call_tool("search_kb", {"query": "bread"})
        assert not result.is_error


def test_a_tool_outside_the_selection_is_unknown(carrel: RunningGateway) -> None:
    endpoint = f"{carrel.endpoint}?tools=tasks"
    not_selected, unknown = [
        post(endpoint, make_call(name, {})).json()["error"]["message"]
        for name in ("get_chunk", "get_chump")
    ]
    assert unknown.replace("get_chump", "get_chunk") == not_selected
    assert not_selected.endswith("delete_task, list_tasks, restore_task, update_task.")


@pytest.mark.parametrize("mode", [MODERN, "legacy"])
async def test_chatgpt_searches_and_fetches(carrel: RunningGateway, mode: str) -> None:
    """The shapes are OpenAI's: https://developers.openai.com/api/docs/mcp."""
    async with Client(f"{carrel.endpoint}?tools=chatgpt", mode=mode) as client:
        tools = (await client.list_tools()).tools
        search, fetch = tools
        assert search.name == "search"
        assert search.input_schema["required"] == ["query"]
        assert fetch.name == "fetch"
        assert fetch.input_schema["required"] == ["id"]

        hits = parse_only_text(await client.call_tool("search", {"query": "knead dough"}))
        assert set(hits) == {"results"}
        best_hit = hits["results"][0]
        assert best_hit["title"] == "Bread at Home by Ida Loaf"
        assert best_hit["url"] == "https://example.com/bread#11"

        passage = parse_only_text(await client.call_tool("fetch", {"id": best_hit["id"]}))
        assert passage["text"].startswith("Knead the dough")
        assert passage == best_hit | {"text": passage["text"], "metadata": passage["metadata"]}
        assert passage["metadata"]["tags"] == "food, dough"


async def test_errors_for_chatgpt_name_its_own_tools(carrel: RunningGateway) -> None:
    async with Client(f"{carrel.endpoint}?tools=chatgpt") as client:
        missing = await client.call_tool("fetch", {"id": "no-such-passage"})
        assert missing.is_error
        assert "There is no chunk no-such-passage" in str(missing.content)
        assert "Search again with search." in str(missing.content)
        for name, argument in (("search", "query"), ("fetch", "id")):
            message = str((await client.call_tool(name, {argument: "x" * 10_000})).content)
            assert f"{name} was not run. {argument}:" in message
            assert f"call {name} again" in message
            assert not re.search("search_kb|get_chunk|chunk_id", message)
            with pytest.raises(MCPError, match=f"{name} takes one argument: {argument}"):
                await client.call_tool(name, {argument: ""})
        with pytest.raises(MCPError, match="There is no tool 'search_kb'"):
            await client.call_tool("search_kb", {"query": "bread"})
        with pytest.raises(MCPError, match="search takes one argument: query"):
            await client.call_tool("search", {"query": "bread", "limit": 3})


def parse_only_text(result: CallToolResult) -> dict[str, Any]:
    """Parse the result's only text block, which must equal its structured content."""
    assert not result.is_error
    [block] = result.content
    assert block.type == "text"
    content: dict[str, Any] = json.loads(block.text)
    assert content == result.structured_content
    return content
