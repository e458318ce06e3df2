"""A gateway hides the tools that the setting `DISABLED_TOOLS` names."""

import json
from pathlib import Path

import httpx2
import pytest

from infra.build import discovery
from tests.support.gateway_process import (
    INLINE_MAIN,
    run_deployed_gateway,
    run_gateway,
)
from tests.support.mcp_wire import TOOL_NAMES, make_call, make_request, post
from tests.support.ports import find_free_port

DISABLED = ("get_chunk", "complete_name")
SETTING = {"DISABLED_TOOLS": json.dumps(DISABLED)}


@pytest.mark.requirement("001-A1", "001-G3", "001-O1")
def test_a_disabled_tool_looks_like_an_unknown_one(log: Path) -> None:
    with run_gateway(INLINE_MAIN, SETTING, log) as gateway:
        tools = post(gateway.endpoint, make_request("tools/list")).json()["result"]["tools"]
        disabled, unknown = [
            post(gateway.endpoint, make_call(name, {})).json()["error"]
            for name in (DISABLED[0], "get_chump")
        ]
    assert [tool["name"] for tool in tools] == [name for name in TOOL_NAMES if name not in DISABLED]
    assert str(disabled) == str(unknown).replace("get_chump", DISABLED[0])


def test_health_ignores_disabled_tools(log: Path) -> None:
    nowhere = f"http://127.0.0.1:{find_free_port()}"
    urls = {"TOOL_URLS": json.dumps(dict.fromkeys([*DISABLED, "search_kb"], nowhere))}
    with run_deployed_gateway(SETTING | urls, log) as gateway:
        parts = httpx2.get(f"{gateway.url}/health").json()["parts"]
    assert parts.keys() == {tool.name for tool in discovery.tools()} - set(DISABLED)
