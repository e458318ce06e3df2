"""Clients of a state folder share a database, which is saved and stops when the last one leaves.

A client is a command that uses the database. A daemon runs the emulator for all of them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from infra.local.emulator import export_data, import_data
from tests.support.fakes.downloads import DownloadServer
from tests.support.local_machine import CARREL, Machine, close_client, read_host
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from google.cloud.firestore import Client

pytestmark = pytest.mark.slow

WITH_OTHER_PROGRAMS: Final = """
import os, sys
from pathlib import Path
from infra.local import emulator_setup
folder = Path(sys.argv.pop(1))
emulator_setup.provide_emulator.__defaults__ = (os.environ, folder, emulator_setup.EMULATOR)
from infra.cli.main import main
main()
"""
"""A program that runs a command as if Carrel had not fetched the emulator and Java yet."""


def start_run(
    machine: Machine, line_to_await: str = "Press Ctrl-C to stop."
) -> subprocess.Popen[str]:
    """Start `carrel up`, and wait until it prints a line, by default when it answers."""
    run = machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())])
    assert run.stdout
    assert any(line_to_await in line for line in run.stdout)
    return run


def test_concurrent_clients_share_a_database(
    machine: Machine, connect: Callable[..., Client]
) -> None:
    first, second, third = (machine.start_client() for _ in range(3))
    hosts = [read_host(client) for client in (first, second, third)]
    assert hosts == [f"127.0.0.1:{machine.port}"] * 3
    assert len(machine.find_daemons()) == 1
    assert len(machine.find_emulators()) == 1

    connect(hosts[0]).document("papers/a").set({"by": "first"})
    close_client(first)
    second.kill()
    second.wait()
    assert connect(hosts[2]).document("papers/a").get().to_dict() == {"by": "first"}
    assert machine.state.get_address() == hosts[2]
    assert third.poll() is None


@pytest.mark.parametrize("leave", [close_client, subprocess.Popen.kill])
def test_the_database_is_saved_when_its_last_client_leaves(
    machine: Machine,
    connect: Callable[..., Client],
    leave: Callable[[subprocess.Popen[str]], None],
) -> None:
    client = machine.start_client()
    connect(read_host(client)).document("papers/a").set({"title": "kept"})
    leave(client)
    machine.wait_until_idle()
    assert not machine.state.address_file.exists()
    host = read_host(machine.start_client())
    assert connect(host).document("papers/a").get().to_dict() == {"title": "kept"}


def test_a_client_that_comes_during_shutdown_gets_all_data(
    machine: Machine, connect: Callable[..., Client]
) -> None:
    for edition in range(3):
        client = machine.start_client()
        document = connect(read_host(client)).document("papers/a")
        assert len(document.get().to_dict() or {}) == edition
        document.set({str(edition): edition}, merge=True)
        close_client(client)


def test_a_client_with_another_port_finds_the_database(machine: Machine) -> None:
    host = read_host(machine.start_client())
    assert read_host(machine.start_client(EMULATOR_PORT=str(find_free_port()))) == host
    assert len(machine.find_daemons()) == 1


@pytest.mark.parametrize(
    ("death", "find_processes", "is_saved"),
    [
        (signal.SIGTERM, Machine.find_daemons, True),
        (signal.SIGKILL, Machine.find_daemons, False),
        (signal.SIGKILL, Machine.find_emulators, False),
    ],
)
def test_the_next_client_restarts_a_dead_database(
    machine: Machine,
    connect: Callable[..., Client],
    death: signal.Signals,
    find_processes: Callable[[Machine], list[int]],
    *,
    is_saved: bool,
) -> None:
    host = read_host(machine.start_client())
    connect(host).document("papers/a").set({"title": "at risk"})
    [pid] = find_processes(machine)
    daemons = machine.find_daemons()
    os.kill(pid, death)
    wait_for_end(*daemons)
    assert read_host(machine.start_client()) == host
    assert connect(host).document("papers/a").get().exists == is_saved


def test_a_taken_port_is_reported_with_its_variable(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", int(machine.port))):
        process = machine.start([*CARREL, "stdio"])
        output, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
    assert output == ""
    assert errors.startswith("Error: The local database did not start.\n")
    assert f"port {machine.port}" in errors
    assert f"EMULATOR_PORT={int(machine.port) + 1} make run" in errors
    assert "Traceback" not in errors


def test_commands_report_that_the_emulator_cannot_be_fetched(
    machine: Machine, tmp_path: Path
) -> None:
    with DownloadServer() as proxy:  # it refuses every host
        for arguments in (["stdio"], ["jobs", "run", "embed"], ["up"]):
            command = [sys.executable, "-c", WITH_OTHER_PROGRAMS, str(tmp_path), *arguments]
            no_programs = {"PATH": "", "JAVA_HOME": "", "HOME": "/nowhere"}
            process = machine.start(command, **no_programs, https_proxy=proxy.url)
            errors = process.communicate(timeout=END_TIMEOUT_SECONDS)[1]
            expected = "Error: The proxy refuses to reach storage.googleapis.com (403 Forbidden)"
            assert process.returncode == 1
            assert errors.count(expected) == 1
            assert "Traceback" not in errors


def test_an_interrupted_run_leaves_the_database_to_other_clients(machine: Machine) -> None:
    with start_run(machine) as run:
        host = read_host(machine.start_client())
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    assert machine.state.get_address() == host


def test_a_run_can_be_interrupted_at_its_start(machine: Machine) -> None:
    with start_run(machine, "Opening the local database") as run:
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    machine.wait_until_idle()  # a daemon that was just starting finds no client, and ends


def test_an_interrupted_run_without_other_clients_saves_the_data(machine: Machine) -> None:
    with start_run(machine) as run:
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    assert not machine.state.has_daemon()
    assert not machine.state.address_file.exists()


def test_a_run_ends_when_its_database_dies(machine: Machine) -> None:
    with start_run(machine) as run:
        [emulator] = machine.find_emulators()
        os.kill(emulator, signal.SIGKILL)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 1
        assert run.stderr
        assert "The Firestore emulator died." in run.stderr.read()


def test_ingest_starts_the_database_if_none_runs(
    machine: Machine, connect: Callable[..., Client], tmp_path: Path
) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    ingest = machine.start([*CARREL, "ingest", str(tmp_path / "tea.md")])
    assert "ingest: " in ingest.communicate(timeout=END_TIMEOUT_SECONDS)[0]
    host = read_host(machine.start_client())
    [chunk] = connect(host).collection("chunks").stream()
    assert "seventy degrees" in chunk.get("content")


def test_concurrent_exports_leave_one_complete_export(
    connect: Callable[..., Client], tmp_path: Path, project: str
) -> None:
    host = os.environ["FIRESTORE_EMULATOR_HOST"]
    connect(host, project).document("papers/a").set({"title": "kept"})
    (tmp_path / "writing" / "left by a crash").mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: export_data(host, tmp_path, project), range(8)))
    assert [path.name for path in tmp_path.glob("0*")] == ["00000008"]
    assert import_data(host, tmp_path, f"{project}-copy")
    assert connect(host, f"{project}-copy").document("papers/a").get().exists
