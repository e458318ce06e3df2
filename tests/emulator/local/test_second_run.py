"""`carrel up` says what to do if another run, another program or unreadable data are in the way."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.fakes.downloads import DownloadServer
from tests.support.local_machine import CARREL, Machine
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.slow


def start_run(machine: Machine, port: int) -> tuple[subprocess.Popen[str], str]:
    """Start a run, wait until it answers, and return its process and its output."""
    run = machine.start([*CARREL, "up", "--no-sample", "--port", str(port)])
    assert run.stdout
    lines = []
    for line in run.stdout:
        lines.append(line)
        if "Press Ctrl-C to stop." in line:
            break
    return run, "".join(lines)


def expect_error(machine: Machine, port: int) -> str:
    """Start a run that fails, and return its message."""
    run = machine.start([*CARREL, "up", "--no-sample", "--port", str(port)])
    _, message = run.communicate(timeout=END_TIMEOUT_SECONDS)
    assert run.returncode == 1
    assert "Traceback" not in message
    return message


def test_a_second_run_names_the_first_and_another_port(machine: Machine, tmp_path: Path) -> None:
    port = find_free_port()
    first, output = start_run(machine, port)
    assert f"Opening the local database in {machine.state.path} (no data yet)" in output
    message = expect_error(machine, port)
    assert f"Carrel already runs here, at http://localhost:{port}/mcp" in message
    assert f"make run ARGS='--port {port + 1}'" in message

    database_port = find_free_port()
    other_folder = {"CARREL_STATE": str(tmp_path / "other"), "EMULATOR_PORT": str(database_port)}
    other = replace(machine, environment=machine.environment | other_folder)
    message = expect_error(other, port)
    assert f"A Carrel from another folder uses port {port}" in message
    assert f"EMULATOR_PORT={database_port + 1} make run ARGS='--port {port + 1}'" in message

    first.send_signal(signal.SIGINT)
    first.communicate(timeout=END_TIMEOUT_SECONDS)
    _, output = start_run(machine, port)
    assert re.search(r"\(the data of \d{4}-\d\d-\d\d \d\d:\d\d\)", output)


def test_another_program_on_the_port_is_reported(machine: Machine) -> None:
    with DownloadServer() as server:
        message = expect_error(machine, server.server_port)
    assert f"Another program uses port {server.server_port}" in message
    assert f"make run ARGS='--port {server.server_port + 1}'" in message


def test_the_error_for_unreadable_data_says_how_to_set_them_aside(machine: Machine) -> None:
    (machine.state.data / "(default)" / "00000001").mkdir(parents=True)
    message = expect_error(machine, find_free_port())
    assert f"The data in {machine.state.data} cannot be loaded" in message
    assert f"mv {machine.state.path} {machine.state.path}.old" in message
