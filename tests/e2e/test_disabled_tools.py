"""A gateway hides the tools that the setting `DISABLED_TOOLS` names."""

import json
from pathlib import Path

import httpx2

from infra.build import discovery
from tests.support.gateway_process import (
    run_deployed_gateway,
)
from tests.support.ports import find_free_port

DISABLED = ("get_chunk", "complete_name")
SETTING = {"DISABLED_TOOLS": json.dumps(DISABLED)}


def test_health_ignores_disabled_tools(log: Path) -> None:
    nowhere = f"http://127.0.0.1:{find_free_port()}"
    urls = {"TOOL_URLS": json.dumps(dict.fromkeys([*DISABLED, "search_kb"], nowhere))}
    with run_deployed_gateway(SETTING | urls, log) as gateway:
        parts = httpx2.get(f"{gateway.url}/health").json()["parts"]
    assert parts.keys() == {tool.name for tool in discovery.tools()} - set(DISABLED)
