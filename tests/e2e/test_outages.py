"""Parts that are down: the call says which, the rest goes on, and recovery needs no restart."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import pytest

from infra.build.discovery import tools
from infra.local.processes import serve
from tests.support.cloud_run.cloud import cloud
from tests.support.gateway_process import INLINE, run_deployed_gateway, run_gateway
from tests.support.mcp_wire import HEADERS, TOOL_NAMES, call, message, post
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from infra.local.processes import ServerProcess
    from tests.support.gateway_process import Library, Running


HANG_SECONDS = 50.0
"""Only what hangs takes so long: without a limit, the database's client would try for a minute."""


class Maimed(NamedTuple):
    """Carrel with a `get_chunk` that crashed, and what may take its place."""

    running: Running
    successor: Callable[[], AbstractContextManager[ServerProcess]]


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """The error a tool answered with."""
    result = response.json()["result"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    return dict(json.loads(result["content"][0]["text"])["error"])


@pytest.fixture(scope="module")
def maimed(library: Library, log: Path) -> Iterator[Maimed]:
    """A gateway that has called `get_chunk` well, and whose `get_chunk` has crashed since."""
    with (
        cloud(["get_chunk", "search_kb"], library.environment, log=log) as tools_here,
        run_deployed_gateway({}, log, tools_here) as running,
    ):
        arguments = {"chunk_id": library.chunks[0].chunk_id}
        well = post(running.endpoint, call("get_chunk", arguments)).json()["result"]
        assert not well["isError"]
        first = tools_here.functions["get_chunk"]
        first.kill()
        program, port = tools_here.programs["get_chunk"], int(first.url.rpartition(":")[2])
        yield Maimed(running, partial(serve, program, port=port, log=log))


def test_a_crashed_tool_is_named_and_the_others_go_on(maimed: Maimed) -> None:
    endpoint = maimed.running.endpoint
    error = error_of(post(endpoint, call("get_chunk", {"chunk_id": "a"})))
    assert error["code"] == "UNAVAILABLE"
    assert error["details"] == {"tool": "get_chunk"}
    assert error["retry_after"] > 0
    assert "get_chunk is temporarily unreachable: go on without it, or call" in error["message"]
    result = post(endpoint, call("search_kb", {"query": "bread"})).json()["result"]
    assert result["structuredContent"]["results"]
    listed = post(endpoint, message("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == TOOL_NAMES
    parts = parts_of(maimed.running)
    assert parts["get_chunk"] == "HTTP 503"
    assert parts["search_kb"] == "ok"


def test_a_tool_that_came_back_is_called_again_without_a_restart(
    maimed: Maimed, library: Library
) -> None:
    arguments = {"chunk_id": library.chunks[0].chunk_id, "include_related": False}
    with maimed.successor():
        result = post(maimed.running.endpoint, call("get_chunk", arguments)).json()["result"]
    assert result["structuredContent"]["content"] == library.chunks[0].content


def parts_of(running: Running) -> dict[str, str]:
    """What health says of each part of a gateway that is not well, as tools are missing."""
    health = httpx2.get(f"{running.url}/health", timeout=60)
    assert health.status_code == 503
    assert health.json()["status"] == "degraded"
    return dict(health.json()["parts"])


@pytest.mark.parametrize(
    ("topology", "parts"),
    [
        ("inline", ["firestore"]),
        pytest.param("functions", [tool.name for tool in tools()], marks=pytest.mark.slow),
    ],
    ids=["inline", "functions"],
)
def test_health_is_ok_while_everything_answers(
    request: pytest.FixtureRequest, topology: str, parts: list[str]
) -> None:
    running: Running = request.getfixturevalue(topology)
    health = httpx2.get(f"{running.url}/health", timeout=60)
    assert health.status_code == 200
    assert health.json() == {"status": "ok", "parts": dict.fromkeys(parts, "ok")}


@pytest.fixture(scope="module")
def without_firestore(log: Path) -> Iterator[Running]:
    """A gateway whose database nobody answers for."""
    nowhere = {"FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{free_port()}"}
    with run_gateway(INLINE, nowhere, log) as running:
        yield running


def test_health_names_a_database_that_is_down(without_firestore: Running) -> None:
    health = httpx2.get(f"{without_firestore.url}/health", timeout=HANG_SECONDS)
    assert health.status_code == 503
    assert health.json()["status"] == "degraded"
    assert "database" in health.json()["parts"]["firestore"]


@pytest.mark.slow
def test_a_tool_without_its_database_gives_up_in_words(
    without_firestore: Running,
) -> None:
    question = call("get_chunk", {"chunk_id": "a"})
    answer = httpx2.post(
        without_firestore.endpoint, json=question, headers=HEADERS, timeout=HANG_SECONDS
    )
    error = error_of(answer)
    assert error["code"] == "UNAVAILABLE"
    assert error["retry_after"] > 0


def test_a_tool_that_keeps_failing_is_left_alone_for_a_while(log: Path) -> None:
    urls = {"TOOL_URLS": json.dumps({"get_chunk": f"http://127.0.0.1:{free_port()}"})}
    with run_deployed_gateway(urls, log) as running:
        question = call("get_chunk", {"chunk_id": "a"})
        waits = [error_of(post(running.endpoint, question))["retry_after"] for _ in range(6)]
    *tried, refused = waits
    assert tried == [5] * 5
    assert 20 < refused <= 30


@pytest.mark.slow
def test_a_deployment_may_give_a_tool_another_time(log: Path, library: Library) -> None:
    hasty = {**library.environment, "TOOL_TIMEOUTS": json.dumps({"search_kb": 0.001})}
    with run_gateway(INLINE, hasty, log) as running:
        error = error_of(post(running.endpoint, call("search_kb", {"query": "bread"})))
    assert error["code"] == "UNAVAILABLE"
    # On a busy machine its time may be over before it begins.
    late = "search_kb (did not finish within [0-9.]+ s|was not run: no time was left)"
    assert re.search(f"{late}: go on without it", error["message"])
