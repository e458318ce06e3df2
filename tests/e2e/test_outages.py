"""If a part is down, an error names it, other tools work, and recovery needs no restart."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from infra.build.discovery import tools
from infra.local.processes import ServerProcess, serve
from tests.support.cloud_run.cloud import run_cloud
from tests.support.gateway_process import (
    INLINE_MAIN,
    FilledProject,
    RunningGateway,
    run_deployed_gateway,
    run_gateway,
)
from tests.support.mcp_wire import TOOL_NAMES, make_call, make_request, post
from tests.support.ports import find_free_port
from tests.support.traces import make_sample_trace

REQUEST_TIMEOUT_SECONDS = 50.0
"""The timeout of requests. Without a limit, the database client would retry for a minute."""

CALLS: dict[str, dict[str, Any]] = {
    "search_traces": {"tags": ["python"]},
    "contribute_trace": make_sample_trace(0),
    "vote_trace": {"trace_id": "x", "vote_type": "up"},
    "get_trace": {"trace_id": "x"},
    "list_tags": {},
    "get_chunk": {"chunk_id": "a"},
    "list_tasks": {},
    "add_task": {"title": "x"},
}
"""Valid calls of tools that need the database."""


class CrashedTool(NamedTuple):
    """A gateway whose `get_chunk` has crashed, and a way to restart that tool."""

    gateway: RunningGateway
    restart: Callable[[], AbstractContextManager[ServerProcess]]


def get_tool_error(response: httpx2.Response) -> dict[str, Any]:
    """Return the error in the result of a call."""
    result = response.json()["result"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    return dict(json.loads(result["content"][0]["text"])["error"])


@pytest.fixture(scope="module")
def crashed_tool(filled_project: FilledProject, log: Path) -> Iterator[CrashedTool]:
    """A gateway that has called `get_chunk` successfully before that tool crashed."""
    with (
        run_cloud(["get_chunk", "search_kb"], filled_project.environment, log=log) as small_cloud,
        run_deployed_gateway({}, log, small_cloud) as gateway,
    ):
        arguments = {"chunk_id": filled_project.chunks[0].chunk_id}
        result = post(gateway.endpoint, make_call("get_chunk", arguments)).json()["result"]
        assert not result["isError"]
        process = small_cloud.functions["get_chunk"]
        process.kill()
        program = small_cloud.programs["get_chunk"]
        port = int(process.url.rpartition(":")[2])
        yield CrashedTool(gateway, partial(serve, program, port=port, log=log))


def test_a_crashed_tool_is_named_and_the_others_work(crashed_tool: CrashedTool) -> None:
    endpoint = crashed_tool.gateway.endpoint
    error = get_tool_error(post(endpoint, make_call("get_chunk", {"chunk_id": "a"})))
    assert error["code"] == "UNAVAILABLE"
    assert error["details"] == {"tool": "get_chunk"}
    assert error["retry_after"] > 0
    assert "get_chunk is temporarily unreachable: continue without it, or call" in error["message"]
    result = post(endpoint, make_call("search_kb", {"query": "bread"})).json()["result"]
    assert result["structuredContent"]["results"]
    tool_list = post(endpoint, make_request("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in tool_list] == TOOL_NAMES
    parts = read_degraded_parts(crashed_tool.gateway)
    assert parts["get_chunk"] == "HTTP 503"
    assert parts["search_kb"] == "ok"


def test_a_restarted_tool_is_called_again(
    crashed_tool: CrashedTool, filled_project: FilledProject
) -> None:
    arguments = {"chunk_id": filled_project.chunks[0].chunk_id, "include_related": False}
    with crashed_tool.restart():
        response = post(crashed_tool.gateway.endpoint, make_call("get_chunk", arguments))
    result = response.json()["result"]
    assert result["structuredContent"]["content"] == filled_project.chunks[0].content


def read_degraded_parts(gateway: RunningGateway) -> dict[str, str]:
    """Return the health of each part of a gateway that is degraded."""
    health = httpx2.get(f"{gateway.url}/health", timeout=60)
    assert health.status_code == 503
    assert health.json()["status"] == "degraded"
    return dict(health.json()["parts"])


@pytest.mark.requirement("002-H1")
@pytest.mark.parametrize(
    ("topology", "parts"),
    [
        ("inline", ["firestore"]),
        pytest.param("functions", [tool.name for tool in tools()], marks=pytest.mark.slow),
    ],
    ids=["inline", "functions"],
)
def test_health_is_ok_while_all_parts_answer(
    request: pytest.FixtureRequest, topology: str, parts: list[str]
) -> None:
    gateway: RunningGateway = request.getfixturevalue(topology)
    health = httpx2.get(f"{gateway.url}/health", timeout=60)
    assert health.status_code == 200
    assert health.json() == {
        "status": "ok",
        "service": "carrel",
        "embedding": "local",
        "parts": dict.fromkeys(parts, "ok"),
    }


@pytest.fixture(scope="module")
def without_firestore(log: Path) -> Iterator[RunningGateway]:
    """A gateway whose database does not answer, with short time limits."""
    nowhere = {
        "FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{find_free_port()}",
        "TOOL_TIMEOUTS": json.dumps(dict.fromkeys(CALLS, 1.0)),  # seconds
    }
    with run_gateway(INLINE_MAIN, nowhere, log) as gateway:
        yield gateway


@pytest.mark.requirement("002-H1")
def test_health_names_a_database_that_is_down(without_firestore: RunningGateway) -> None:
    health = httpx2.get(f"{without_firestore.url}/health", timeout=REQUEST_TIMEOUT_SECONDS)
    assert health.status_code == 503
    assert health.json()["status"] == "degraded"
    assert "database" in health.json()["parts"]["firestore"]


@pytest.mark.requirement("002-T1.5", "003-C5", "003-E3")
@pytest.mark.parametrize(("name", "arguments"), CALLS.items())
def test_a_tool_without_its_database_is_unavailable(
    without_firestore: RunningGateway, name: str, arguments: dict[str, Any]
) -> None:
    result = post(without_firestore.endpoint, make_call(name, arguments)).json()["result"]
    error = json.loads(result["content"][0]["text"])["error"]
    assert result["isError"] is True
    if name.endswith(("_task", "_tasks")):
        assert result["structuredContent"]["error"] == error
        assert error["code"] == "processing_error"
        assert error["details"]["reason"] == "UNAVAILABLE"
    else:
        assert "structuredContent" not in result
        assert error["code"] == "UNAVAILABLE"
        assert name in error["message"] or "database" in error["message"]
    assert error["retry_after"] > 0


def test_a_tool_that_keeps_failing_is_not_called_for_a_while(log: Path) -> None:
    urls = {"TOOL_URLS": json.dumps({"get_chunk": f"http://127.0.0.1:{find_free_port()}"})}
    with run_deployed_gateway(urls, log) as gateway:
        request = make_call("get_chunk", {"chunk_id": "a"})
        delays = [get_tool_error(post(gateway.endpoint, request))["retry_after"] for _ in range(6)]
    # After five failures, the gateway does not call the tool for 30 s.
    assert delays[:5] == [5] * 5
    assert 20 < delays[5] <= 30


@pytest.mark.requirement(
    "002-C7", "002-C8", "002-T1.4", "002-T2.2", "002-T3.4", "002-T4.2", "002-T5.2", "002-V2"
)
@pytest.mark.slow
def test_a_deployment_can_change_the_time_limit_of_a_tool(
    log: Path, filled_project: FilledProject
) -> None:
    environment = {**filled_project.environment, "TOOL_TIMEOUTS": json.dumps({"search_kb": 0.001})}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        error = get_tool_error(post(gateway.endpoint, make_call("search_kb", {"query": "bread"})))
    assert error["code"] == "UNAVAILABLE"
    # On a busy machine, the time of a call may be over before it begins.
    timeout_message = "search_kb (did not finish within [0-9.]+ s|was not run: no time was left)"
    assert re.search(f"{timeout_message}: continue without it", error["message"])
