"""A local run ends with its gateway; a broken file and an emulator are named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from tests.support.local_machine import CARREL, Machine
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

pytestmark = pytest.mark.slow


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
