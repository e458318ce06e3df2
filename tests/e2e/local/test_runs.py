"""A local run, `carrel up`: who may call it, what it says, and what ends it."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer
from tests.support.local_machine import CARREL, END_TIMEOUT_SECONDS, Machine
from tests.support.mcp_wire import make_call, make_request, post
from tests.support.ports import find_free_port

pytestmark = pytest.mark.slow


def get_list_status(port: int, key: str | None = None) -> int:
    """Return the status of a `tools/list` request with this key, or without one."""
    request = make_request("tools/list")
    return post(f"http://localhost:{port}/mcp", request, {"x-api-key": key}).status_code


def run_printed_line(output: str, words: str) -> str:
    """Run a printed line as in a new window, and return its output."""
    [line] = [line for line in output.splitlines() if words in line]
    unset = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "ACCESS_SECRETS", "CARREL_STATE"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.check_output(["sh", "-c", line], cwd=ROOT, env=environment, text=True)


def test_a_local_run_needs_no_sign_in_and_says_so(machine: Machine) -> None:
    port = find_free_port()
    _, output = machine.start_run(port=port, PUBLIC_ACCESS="true")
    assert "There is no sign-in: every program on this machine may read and write" in output
    assert "ARGS=--sign-in" in output
    response = post(f"http://localhost:{port}/mcp", make_call("save_note", {"text": "A note."}))
    note = response.json()["result"]["structuredContent"]
    assert note["readable_by"] == "everyone who may use this knowledge base"
    assert get_list_status(port) == 200
    assert get_list_status(port, "carrel_nonsense") == 403


def test_a_run_with_sign_in_says_how_to_make_a_key(machine: Machine) -> None:
    port = find_free_port()
    inherited = {"LOCAL_USER": "somebody", "PUBLIC_ACCESS": "true"}
    _, output = machine.start_run("--sign-in", port=port, **inherited)
    for words in ("Clients need a credential", "keys create", "sign-in page"):
        assert words in output
    assert get_list_status(port) == 401
    run_printed_line(output, "accounts role")
    key = run_printed_line(output, "keys create").strip()
    assert get_list_status(port, key) == 200

    _, row = machine.run("keys", "list").splitlines()
    machine.run("keys", "revoke", row.split()[0])
    assert get_list_status(port, key) == 401


def test_a_run_of_functions_answers_calls(machine: Machine) -> None:
    """Each tool runs in its own process, without being packed or installed."""
    port = find_free_port()
    _, output = machine.start_run("--topology", "functions", port=port)
    assert "Starting each tool in its own process" in output
    response = post(f"http://localhost:{port}/mcp", make_call("list_sources", {}))
    assert response.json()["result"]["structuredContent"]["sources"] == []


def test_a_second_run_names_the_first_and_another_port(machine: Machine, tmp_path: Path) -> None:
    port = find_free_port()
    first, output = machine.start_run(port=port)
    assert f"Creating the database in {machine.state}" in output
    message = machine.fail("up", "--no-sample", "--port", str(port))
    assert f"Carrel already runs here, at http://localhost:{port}/mcp" in message
    assert f"make run ARGS='--port {port + 1}'" in message

    other_folder = {"CARREL_STATE": str(tmp_path / "other")}
    message = machine.fail("up", "--no-sample", "--port", str(port), **other_folder)
    assert f"A Carrel from another folder uses port {port}" in message
    assert f"make run ARGS='--port {port + 1}'" in message

    first.send_signal(signal.SIGINT)
    first.communicate(timeout=END_TIMEOUT_SECONDS)
    _, output = machine.start_run(port=port)
    assert re.search(r"\(the data of \d{4}-\d\d-\d\d \d\d:\d\d\)", output)


def test_the_sample_is_loaded_once(machine: Machine) -> None:
    """What was forgotten of it stays away, and the next start is quicker."""
    outputs = []
    for _ in range(2):
        run, output = machine.start_run("--sample")
        outputs.append(output)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=END_TIMEOUT_SECONDS)
    assert ["Loading the sample knowledge base" in output for output in outputs] == [True, False]


def test_another_program_on_the_port_is_reported(machine: Machine) -> None:
    with LoopbackServer(LoopbackHandler) as server:
        message = machine.fail("up", "--no-sample", "--port", str(server.server_port))
    assert f"Another program uses port {server.server_port}" in message
    assert f"make run ARGS='--port {server.server_port + 1}'" in message


def test_a_run_ends_when_its_gateway_is_killed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    run, _ = machine.start_run()
    machine.run("ingest", str(tmp_path / "tea.md"))
    listing = machine.start(["pgrep", "-P", str(run.pid)]).communicate()[0]
    os.kill(int(listing), signal.SIGKILL)
    assert "The gateway ended (-9)" in run.communicate(timeout=END_TIMEOUT_SECONDS)[1]

    port = find_free_port()
    machine.start_run(port=port)
    response = post(f"http://localhost:{port}/mcp", make_call("list_sources", {}))
    [source] = response.json()["result"]["structuredContent"]["sources"]
    assert source["title"] == "Tea"


async def test_a_damaged_file_is_an_answer_over_mcp(machine: Machine) -> None:
    machine.files.mkdir(parents=True)
    (machine.files / "default.sqlite").write_bytes(b"This is not a database.\n" * 100)
    message = machine.fail("up", "--no-sample", "--port", str(find_free_port()))
    assert f"{machine.files}/default.sqlite is damaged" in message
    assert "Restore a copy" in message

    server = StdioServerParameters(
        command=CARREL[0], args=[*CARREL[1:], "stdio"], env=machine.environment, cwd=ROOT
    )
    async with Client(server) as client:
        result = await client.call_tool("list_sources", {})
    assert result.is_error
    assert "default.sqlite is damaged" in str(result.content)
    assert "call it again" not in str(result.content)


def test_an_emulator_is_used_where_one_is_named(machine: Machine) -> None:
    host = os.environ["FIRESTORE_EMULATOR_HOST"]
    _, output = machine.start_run("--database", "emulator", FIRESTORE_EMULATOR_HOST=host)
    assert f"Using the emulator at {host}, which forgets everything when it ends" in output
    assert list(machine.files.glob("*.sqlite")) == []


def test_the_option_for_an_emulator_needs_its_address(machine: Machine) -> None:
    process = machine.start([*CARREL, "up", "--database", "emulator"])
    message = process.communicate(timeout=END_TIMEOUT_SECONDS)[1]
    assert process.returncode == 2
    assert "Start an emulator first, and name its address" in message
