"""What was asked, read and sent stays out of the logs, whether a call goes well or not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx2
import pytest
from pydantic import SecretStr

from functions.gateway.calls.call_log import hash_task
from infra.build.discovery import ROOT
from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.dates import utc_now
from shared.core.settings import Settings
from shared.firestore.database import Connection
from tests.support.gateway_process import INLINE, MARK, SECRET, run_deployed_gateway, run_gateway
from tests.support.log_metrics import entry_of, values_of
from tests.support.mcp_wire import TOOL_NAMES, call, post
from tests.support.planted_words import calls, plant
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.gateway_process import Library, Running


FAULTY = ROOT / "tests" / "support" / "faulty_gateway.py"


@pytest.fixture(scope="module")
def cut_off(log: Path) -> Iterator[Running]:
    """A gateway that reaches none of its tools."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    urls = json.dumps(dict.fromkeys(TOOL_NAMES, nowhere))
    with run_deployed_gateway({"TOOL_URLS": urls}, log) as running:
        yield running


@pytest.fixture(scope="module", params=["false", pytest.param("true", marks=pytest.mark.slow)])
def faulty(log: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A gateway that breaks wherever it is touched, with and without the framework's own log."""
    environment = {"LOG_EXECUTION_ID": request.param}
    with run_gateway(FAULTY, environment, log) as running:
        yield running


@pytest.fixture(scope="module")
def signing_in(library: Library, log: Path) -> Iterator[Running]:
    """A gateway where people sign in to do anything but read."""
    environment = {**library.environment, "LOCAL_USER": "", "PUBLIC_ACCESS": "true"}
    with run_gateway(INLINE, environment, log) as running:
        yield running


@pytest.mark.parametrize(
    "kind",
    [
        "inline",
        pytest.param("functions", marks=pytest.mark.slow),
        pytest.param("cut_off", marks=pytest.mark.slow),
        pytest.param("signing_in", marks=pytest.mark.slow),
    ],
)
def test_nothing_that_people_wrote_is_logged(request: pytest.FixtureRequest, kind: str) -> None:
    running: Running = request.getfixturevalue(kind)
    before = running.log.stat().st_size
    answers = plant(running)
    logged = running.log.read_text("utf-8", "replace")
    assert MARK in answers
    assert '"message": "tool_' in logged[before:]
    assert [line for line in logged.splitlines() if MARK in line.lower()] == []


def test_a_key_that_holds_is_not_logged_but_who_owns_it(inline: Running, library: Library) -> None:
    text = asyncio.run(new_key_of("ada", library.project))
    ways = [
        {"authorization": f"Bearer {text}"},
        {"x-api-key": text},
        {"authorization": f"Bearer essay@{text}"},
    ]
    before = inline.log.stat().st_size
    for headers in ways:
        result = post(inline.endpoint, call("get_stats", {}), {**headers}).json()["result"]
        assert not result["isError"]
    logged = written_since(before, inline.log)
    fields = [entry_of(line)["jsonPayload"] for line in logged]
    task = hash_task("essay", "ada", Keyring([SecretStr(SECRET)]))
    assert [(line["user"], line.get("task")) for line in fields] == [
        ("ada", None),
        ("ada", None),
        ("ada", task),
    ]
    _, _, secret = text.split("_", 2)  # the secret itself may hold underscores
    assert [line for line in logged if secret in line or secret[:8] in line] == []


async def new_key_of(user_id: str, project: str) -> str:
    """The text of a key that the gateways of these tests accept."""
    keyring = Keyring([SecretStr(SECRET)])
    text, key = new_key(keyring, user_id, "laptop", FULL_ACCESS, created_at=utc_now())
    connection = Connection(project, Settings().access_database)
    await AccessStore(connection).keys.add(key)
    await connection.aclose()
    return text


def test_a_fault_says_where_it_is_and_nothing_that_people_wrote(faulty: Running) -> None:
    before = faulty.log.stat().st_size
    health = httpx2.get(f"{faulty.url}/health")
    assert all(reply.status_code for reply in calls(faulty))
    logged = written_since(before, faulty.log)
    assert [line for line in logged if MARK in line.lower()] == []
    others = [json.loads(line) for line in logged if "faulty_gateway.py" not in line]
    assert {(line["message"], line["code"]) for line in others} == {("tool_call", "INTERNAL_ERROR")}
    assert health.status_code == 500
    assert MARK not in health.text


def test_a_call_is_one_line_of_json_with_its_cost(inline: Running) -> None:
    question = call("search_kb", {"query": "bread", "limit": 2})
    post(inline.endpoint, question)
    before = inline.log.stat().st_size
    post(inline.endpoint, question, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    [line] = written_since(before, inline.log)
    entry = entry_of(line)
    fields = entry["jsonPayload"]
    assert fields["tool"] == "search_kb"
    assert fields["outcome"] == "ok"
    assert fields["user"] == "local"
    assert fields["arguments"] == {"query": len('"bread"'), "limit": 1}
    assert fields["documents_read"] == 9
    assert fields["round_trips"] == 1
    assert fields["milliseconds"] > 0
    assert entry["severity"] == "INFO"
    assert entry["traceSampled"] is True
    assert f"/traces/{'a' * 32}" in entry["trace"]
    assert values_of(line).keys() == {
        "tool_calls_total",
        "tool_latency_seconds",
        "bm25_latency_seconds",
    }


def test_a_tools_function_logs_the_trace_of_its_call(
    few_functions: Running,
) -> None:
    before = few_functions.log.stat().st_size
    trace = f"00-{'c' * 32}-{'d' * 16}-01"
    arguments = {"chunk_id": "a"}
    request = {"call_id": "c-1", "arguments": arguments, "caller": {}, "deadline": 0}
    url = few_functions.tools["get_chunk"].url
    httpx2.post(url, json=request, headers={"traceparent": trace})
    [line] = written_since(before, few_functions.log)
    entry = entry_of(line)
    assert entry["jsonPayload"]["message"] == "unavailable"
    assert entry["severity"] == "WARNING"
    assert f"/traces/{'c' * 32}" in entry["trace"]


def written_since(before: int, log: Path) -> list[str]:
    """The lines of a log past its first bytes."""
    with log.open("rb") as file:
        file.seek(before)
        return file.read().decode("utf-8", "replace").splitlines()
