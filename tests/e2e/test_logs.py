"""A log entry describes a call, and contains neither content nor keys, even if the call fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from functions.gateway.calls.call_log import hash_task
from infra.build.discovery import ROOT
from shared.accounts.keyring import Keyring
from tests.support.access import build_key_maker
from tests.support.gateway_process import (
    ACCESS_SECRET,
    INLINE_MAIN,
    PRIVATE_WORD,
    FilledProject,
    RunningGateway,
    run_deployed_gateway,
    run_gateway,
)
from tests.support.log_metrics import extract_values, parse_log_entry, read_lines
from tests.support.mcp_wire import TOOL_NAMES, make_call, post
from tests.support.ports import find_free_port
from tests.support.private_requests import send_calls, send_private_word

FAILING_MAIN = ROOT / "tests" / "support" / "failing_gateway.py"


@pytest.fixture(scope="module")
def unreachable_tools(log: Path) -> Iterator[RunningGateway]:
    """A gateway that cannot reach any of its tools."""
    nowhere = f"http://127.0.0.1:{find_free_port()}"
    urls = json.dumps(dict.fromkeys(TOOL_NAMES, nowhere))
    with run_deployed_gateway({"TOOL_URLS": urls}, log) as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["false", pytest.param("true", marks=pytest.mark.slow)])
def faulty(log: Path, request: pytest.FixtureRequest) -> Iterator[RunningGateway]:
    """A gateway in which everything fails, with and without the framework's own log format."""
    environment = {"LOG_EXECUTION_ID": request.param}
    with run_gateway(FAILING_MAIN, environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def public_gateway(filled_project: FilledProject, log: Path) -> Iterator[RunningGateway]:
    """A gateway that requires sign-in for everything but reading."""
    environment = {**filled_project.environment, "LOCAL_USER": "", "PUBLIC_ACCESS": "true"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        yield gateway


@pytest.mark.requirement("003-L6")
@pytest.mark.parametrize(
    "topology",
    [
        "inline",
        pytest.param("functions", marks=pytest.mark.slow),
        pytest.param("unreachable_tools", marks=pytest.mark.slow),
        pytest.param("public_gateway", marks=pytest.mark.slow),
    ],
)
def test_no_content_is_logged(request: pytest.FixtureRequest, topology: str) -> None:
    gateway: RunningGateway = request.getfixturevalue(topology)
    size_before = gateway.log.stat().st_size
    responses = send_private_word(gateway)
    logged = gateway.log.read_text("utf-8", "replace")
    assert PRIVATE_WORD in responses
    assert '"message": "tool_' in logged[size_before:]
    assert [line for line in logged.splitlines() if PRIVATE_WORD in line.lower()] == []


@pytest.mark.requirement("001-G8")
def test_a_log_entry_names_the_owner_of_a_key_not_the_key(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = build_key_maker(filled_project.project)("ada")
    credentials: list[dict[str, str | None]] = [
        {"authorization": f"Bearer {text}"},
        {"x-api-key": text},
        {"authorization": f"Bearer essay@{text}"},
    ]
    size_before = inline.log.stat().st_size
    for headers in credentials:
        result = post(inline.endpoint, make_call("get_stats", {}), headers).json()["result"]
        assert not result["isError"]
    logged = read_lines(size_before, inline.log)
    entries = [parse_log_entry(line)["jsonPayload"] for line in logged]
    task_hash = hash_task("essay", "ada", Keyring([SecretStr(ACCESS_SECRET)]))
    assert [entry["user"] for entry in entries] == ["ada", "ada", "ada"]
    assert [entry.get("task") for entry in entries] == [None, None, task_hash]
    _, _, secret = text.split("_", 2)  # the secret itself may contain underscores
    assert [line for line in logged if secret in line or secret[:8] in line] == []


def test_an_internal_error_is_logged_without_content(faulty: RunningGateway) -> None:
    size_before = faulty.log.stat().st_size
    health = httpx2.get(f"{faulty.url}/health")
    assert all(response.status_code for response in send_calls(faulty))
    logged = read_lines(size_before, faulty.log)
    assert [line for line in logged if PRIVATE_WORD in line.lower()] == []
    entries = [json.loads(line) for line in logged if "failing_gateway.py" not in line]
    assert {(entry["message"], entry["code"]) for entry in entries} == {
        ("tool_call", "INTERNAL_ERROR")
    }
    assert health.status_code == 500
    assert PRIVATE_WORD not in health.text


@pytest.mark.requirement("000-CR3", "001-L4", "001-O2", "003-D12", "003-L1", "003-L2", "004-N7")
def test_a_call_is_one_line_of_json_with_its_cost(inline: RunningGateway) -> None:
    request = make_call("search_kb", {"query": "bread", "limit": 2})
    post(inline.endpoint, request)  # fills the caches
    size_before = inline.log.stat().st_size
    post(inline.endpoint, request, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    [line] = read_lines(size_before, inline.log)
    entry = parse_log_entry(line)
    fields = entry["jsonPayload"]
    assert fields["tool"] == "search_kb"
    assert fields["outcome"] == "ok"
    assert fields["user"] == "local"
    assert fields["arguments"] == {"query": len('"bread"'), "limit": len("2")}
    assert fields["documents_read"] == 10
    assert fields["round_trips"] == 2
    assert fields["milliseconds"] > 0
    assert entry["severity"] == "INFO"
    assert entry["traceSampled"] is True
    assert f"/traces/{'a' * 32}" in entry["trace"]
    assert extract_values(line).keys() == {
        "tool_calls_total",
        "tool_latency_seconds",
        "bm25_latency_seconds",
    }


def test_the_function_of_a_tool_logs_the_trace_of_its_call(small_functions: RunningGateway) -> None:
    size_before = small_functions.log.stat().st_size
    trace = f"00-{'c' * 32}-{'d' * 16}-01"
    arguments = {"chunk_id": "a"}
    request = {"call_id": "c-1", "arguments": arguments, "caller": {}, "deadline": 0}
    url = small_functions.tools["get_chunk"].url
    httpx2.post(url, json=request, headers={"traceparent": trace})
    [line] = read_lines(size_before, small_functions.log)
    entry = parse_log_entry(line)
    assert entry["jsonPayload"]["message"] == "unavailable"
    assert entry["severity"] == "WARNING"
    assert f"/traces/{'c' * 32}" in entry["trace"]
