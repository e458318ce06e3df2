"""`carrel up` says what to do if another run or another program is in the way."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer
from tests.support.local_machine import Machine
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

pytestmark = pytest.mark.slow


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
