"""The official clients get the pages of MCP Apps if they declare that they can show them."""

from __future__ import annotations

import json
from typing import Final

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp_types import TextResourceContents

from functions.gateway.mcp.apps import EXTENSION, MIME_TYPE
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import MODERN, TOOL_NAMES
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


@pytest.mark.parametrize(
    "client",
    ["auto", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("2026-07-28", "v1"))],
)
def test_a_typescript_client_gets_tools_with_apps(inline: RunningGateway, client: str) -> None:
    capabilities = json.dumps({"extensions": {EXTENSION: EXTENSION_SETTINGS}})
    report = run_client("client.mjs", inline.endpoint, client, {"CAPABILITIES": capabilities})
    tools = {tool["name"]: tool.get("_meta") for tool in report["tools"]}
    assert {name: meta["ui"] for name, meta in tools.items() if meta} == UI_BY_TOOL
    assert sorted(tools.keys() - UI_BY_TOOL.keys()) == sorted(set(TOOL_NAMES) - UI_BY_TOOL.keys())
    assert report["search"]["structuredContent"]["results"]
