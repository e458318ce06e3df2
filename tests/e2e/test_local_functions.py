"""`make run TOPOLOGY=functions` runs each tool in a process that only the gateway can call."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from infra.build.discovery import ROOT
from infra.local.processes import is_listening
from infra.local.tool_processes import LocalTools, serve_tools
from tests.support.forked_functions import serve_fork
from tests.support.gateway_process import FilledProject, make_gateway_environment
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port

TOOLS = ("get_chunk", "search_kb")
PARENT_PROGRAM = """
from infra.local.tool_processes import serve_tools

with serve_tools(["list_tags"], {}) as running:
    print(running.servers["list_tags"].url, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def local_tools(filled_project: FilledProject, log: Path) -> Iterator[LocalTools]:
    """The processes of two tools."""
    with serve_tools(TOOLS, filled_project.environment, log=log) as local_tools:
        yield local_tools


def make_call_request(filled_project: FilledProject) -> dict[str, Any]:
    """Make a call of `get_chunk` as the gateway sends it."""
    arguments = {"chunk_id": filled_project.chunks[0].chunk_id, "include_related": False}
    caller = {"user_id": "somebody-else", "tier": "public"}
    return {"call_id": "c", "arguments": arguments, "caller": caller, "deadline": time.time() + 60}


def test_a_call_with_the_secret_of_the_run_passes(
    local_tools: LocalTools, filled_project: FilledProject
) -> None:
    response = httpx2.post(
        local_tools.servers["get_chunk"].url,
        json=make_call_request(filled_project),
        headers={"authorization": f"Bearer {local_tools.secret}"},
        timeout=60,
    )
    assert response.status_code == 200
    assert response.json()["result"]["content"] == filled_project.chunks[0].content


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "{secret}", "Basic {secret}", "Bearer x{secret}"]
)
def test_a_call_without_the_secret_is_rejected(
    local_tools: LocalTools, filled_project: FilledProject, authorization: str | None
) -> None:
    """Neither a call nor a health check reaches the function."""
    url = local_tools.servers["get_chunk"].url
    headers = {}
    if authorization is not None:
        headers["authorization"] = authorization.format(secret=local_tools.secret)
    call_response = httpx2.post(
        url, json=make_call_request(filled_project), headers=headers, timeout=60
    )
    health_response = httpx2.get(url, headers=headers, timeout=60)
    assert call_response.status_code == 403
    assert health_response.status_code == 403
    assert local_tools.secret not in call_response.text


def test_a_duplicate_secret_is_rejected(local_tools: LocalTools) -> None:
    header = ("authorization", f"Bearer {local_tools.secret}")
    response = httpx2.get(local_tools.servers["get_chunk"].url, headers=[header, header])
    assert response.status_code == 403


def test_each_run_has_its_own_secret() -> None:
    with serve_tools([], {}) as first_run, serve_tools([], {}) as second_run:
        assert first_run.secret != second_run.secret


def test_the_gateway_calls_functions_without_a_proxy(
    local_tools: LocalTools, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    dead_proxy = f"http://127.0.0.1:{find_free_port()}"
    port = find_free_port()
    with monkeypatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.delenv(name, raising=False)
        environment = {
            **make_gateway_environment(port),
            "HTTP_PROXY": dead_proxy,
            "http_proxy": dead_proxy,
        }
        program = local_tools.make_gateway_program(environment)
    with serve_fork(program, port, log) as gateway:
        response = post(
            f"{gateway.url}/mcp", make_call("search_kb", {"query": "a sourdough starter"})
        )
    hits = response.json()["result"]["structuredContent"]["results"]
    assert "A sourdough starter needs flour" in hits[0]["snippet"]


def test_functions_end_with_their_parent() -> None:
    command = [sys.executable, "-c", PARENT_PROGRAM]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        host = urlsplit(parent.stdout.readline().strip()).netloc
        assert is_listening(host)
        parent.send_signal(signal.SIGKILL)
        parent.stdout.read()  # ends with the last process that may write there
    assert not is_listening(host)


def test_a_dead_function_is_named() -> None:
    with serve_tools(["list_tags"], {}) as functions:
        assert not functions.describe_dead_tool()
        functions.servers["list_tags"].kill()
        assert functions.describe_dead_tool() == "The process of the tool list_tags"
