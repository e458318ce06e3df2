"""The official clients search, read, and get the pages of MCP Apps if they can show them."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp_types import TextResourceContents

from functions.gateway.mcp.apps import EXTENSION, MIME_TYPE
from tests.support.gateway_process import RunningGateway
from tests.support.knowledge import BAKING
from tests.support.mcp_wire import MODERN, TOOL_NAMES, assert_matches_schema
from tests.support.typescript_clients import run_client

EXTENSION_SETTINGS: Final = {"mimeTypes": [MIME_TYPE]}
UI_BY_TOOL: Final = {
    "get_map": {"visibility": ["app"]},
    "list_clusters": {"resourceUri": "ui://carrel/map"},
    "search_kb": {"resourceUri": "ui://carrel/hits"},
}
"""The metadata of the tools that have an app, or are only for one."""


@pytest.mark.parametrize("mode", [MODERN, "legacy"])
async def test_the_python_client_gets_tools_with_apps(inline: RunningGateway, mode: str) -> None:
    extensions = [advertise(EXTENSION, EXTENSION_SETTINGS)]
    async with Client(inline.endpoint, mode=mode, extensions=extensions) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name: tool.meta["ui"] for tool in tools if tool.meta} == UI_BY_TOOL
        for uri in ("ui://carrel/hits", "ui://carrel/map"):
            [page] = (await client.read_resource(uri)).contents
            assert isinstance(page, TextResourceContents)
            assert page.mime_type == MIME_TYPE
            assert page.uri == uri
        result = await client.call_tool("get_map", {})
        assert result.structured_content is not None
    async with Client(inline.endpoint, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOL_NAMES
        assert not any(tool.meta for tool in tools)


@pytest.mark.requirement("004-T4.1")
@pytest.mark.parametrize(
    "client",
    ["auto", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("2026-07-28", "v1"))],
)
def test_a_typescript_client_searches_reads_and_sees_errors(
    carrel: RunningGateway, client: str
) -> None:
    capabilities = json.dumps({"extensions": {EXTENSION: EXTENSION_SETTINGS}})
    report = run_client("client.mjs", carrel.endpoint, client, {"CAPABILITIES": capabilities})
    tools = {tool["name"]: tool.get("_meta") for tool in report["tools"]}
    assert {name: meta["ui"] for name, meta in tools.items() if meta} == UI_BY_TOOL
    assert sorted(tools) == sorted({*TOOL_NAMES, *UI_BY_TOOL})
    schemas = {tool["name"]: tool["outputSchema"] for tool in report["tools"]}
    assert_matches_schema(report["search"]["structuredContent"], schemas["search_kb"])
    assert_matches_schema(report["chunk"]["structuredContent"], schemas["get_chunk"])
    assert report["chunk"]["structuredContent"]["content"] == BAKING.sections[1].text
    assert report["chunk"]["_meta"]["carrel/receipt"]["round_trips"] == 2
    assert report["failure"]["isError"] is True
    assert "VALIDATION_ERROR" in report["failure"]["content"][0]["text"]


@pytest.mark.slow
def test_an_idle_client_is_still_answered(
    inline: RunningGateway, functions: RunningGateway
) -> None:
    """Both topologies run at once, because the pauses alone take 17 seconds."""
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(run_client, "pauses.mjs", gateway.endpoint, "v1", {})
            for gateway in (inline, functions)
        ]
    # Each pause in seconds, after which the client got an answer.
    assert [run.result() for run in runs] == [{"answered": [1.9, 2.1, 3, 10]}] * 2
