"""Clients that connect to an address with a selection of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mcp import Client

from tests.support.mcp_wire import MODERN, call, message, post

if TYPE_CHECKING:
    from tests.support.gateway_process import RunningGateway

pytestmark = pytest.mark.anyio


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
    other, unknown = [
        post(endpoint, call(name, {})).json()["error"]["message"]
        for name in ("get_chunk", "get_chump")
    ]
    assert unknown.replace("get_chump", "get_chunk") == other
    assert other.endswith("delete_task, list_tasks, restore_task, update_task.")


@pytest.mark.parametrize("query", ["tools=recipes", "read-only", "key=carrel_0123"])
def test_an_address_that_selects_nothing_is_refused(carrel: RunningGateway, query: str) -> None:
    response = post(f"{carrel.endpoint}?{query}", message("tools/list"))
    assert response.status_code == 400
    assert "/mcp?tools=" in response.json()["error"]["message"]
