"""What a local run has answered is stored, whatever ends its processes; a broken file is named."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from tests.support.local_machine import CARREL
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

if TYPE_CHECKING:
    import random
    import subprocess
    from pathlib import Path

    from tests.support.local_machine import Machine

pytestmark = pytest.mark.slow

KILLS = 4
"""How often the run is killed."""


def save_notes(port: int, prefix: str, answered: list[str], enough: threading.Event) -> None:
    """Save notes until the gateway is gone, and keep the ids of those that were answered."""
    for number in range(1_000):
        text = f"Note {prefix}-{number} is about what survives."
        try:
            response = post(f"http://localhost:{port}/mcp", make_call("save_note", {"text": text}))
        except httpx2.TransportError:
            return
        answered.append(response.json()["result"]["structuredContent"]["source_id"])
        if len(answered) % 10 == 0:
            enough.set()


def kill_in_the_middle_of_saves(
    run: subprocess.Popen[str], port: int, prefix: str, delay: float
) -> list[str]:
    """Save notes side by side, kill the run, and return the ids of the notes that were answered."""
    answered: list[str] = []
    enough = threading.Event()
    writers = [
        threading.Thread(target=save_notes, args=(port, f"{prefix}{number}", answered, enough))
        for number in range(3)
    ]
    for writer in writers:
        writer.start()
    assert enough.wait(END_TIMEOUT_SECONDS)
    timer = threading.Timer(delay, os.kill, (run.pid, signal.SIGKILL))
    timer.start()  # the gateway's own process is killed when its parent is gone
    for writer in writers:
        writer.join(END_TIMEOUT_SECONDS)
    run.wait(END_TIMEOUT_SECONDS)
    return answered


def test_every_answered_note_survives_a_kill(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    answered: list[str] = []
    for kill in range(KILLS):
        port = find_free_port()
        run, _ = machine.start_run(port=port)
        delay = kill_generator.uniform(0, 0.2)
        answered += kill_in_the_middle_of_saves(run, port, str(kill), delay)
    stored = machine.run("export", str(tmp_path / "export"))
    assert stored.startswith("Exported ")
    lines = (tmp_path / "export" / "knowledge-00001.jsonl").read_text()
    assert [source_id for source_id in answered if source_id not in lines] == []


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


@pytest.mark.anyio
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
