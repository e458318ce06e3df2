"""The official TypeScript clients call tools in the gateway's process and in functions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.gateway_process import RunningGateway
from tests.support.knowledge import BAKING
from tests.support.mcp_wire import TOOL_NAMES, assert_matches_schema
from tests.support.typescript_clients import run_client


@pytest.mark.requirement("004-T4.1")
@pytest.mark.parametrize(
    "client",
    ["auto", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("2026-07-28", "v1"))],
)
def test_a_typescript_client_searches_reads_and_sees_errors(
    carrel: RunningGateway, client: str
) -> None:
    report = run_client("client.mjs", carrel.endpoint, client, {})
    schemas = {tool["name"]: tool["outputSchema"] for tool in report["tools"]}
    assert list(schemas) == TOOL_NAMES
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
