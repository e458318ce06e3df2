"""Clients of a state folder share one database, which is saved and stops with the last one."""

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
"""Runs a command as if Carrel had fetched nothing into its own folder of programs."""


def test_concurrent_clients_share_a_database(
    machine: Machine, connect: Callable[..., Client]
) -> None:
    first, second, third = (machine.start_client() for _ in range(3))
    hosts = [read_host(client) for client in (first, second, third)]
    assert [f"127.0.0.1:{machine.port}"] * 3 == hosts
    assert len(machine.find_daemons()) == 1
    assert len(machine.find_emulators()) == 1
    connect(hosts[0]).document("papers/a").set({"by": "first"})
    close_client(first)
    second.kill()
    second.wait()
    assert connect(hosts[2]).document("papers/a").get().to_dict() == {"by": "first"}
    assert hosts[2] == machine.state.get_address()
    assert None is third.poll()


@pytest.mark.parametrize("leave", [close_client, subprocess.Popen.kill])
def test_after_the_last_client_the_database_is_saved(
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


def test_a_client_during_shutdown_gets_all_data(
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
    ("death", "whose", "kept"),
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
    whose: Callable[[Machine], list[int]],
    *,
    kept: bool,
) -> None:
    host = read_host(machine.start_client())
    connect(host).document("papers/a").set({"title": "at risk"})
    [pid] = whose(machine)
    daemons = machine.find_daemons()
    os.kill(pid, death)
    wait_for_end(*daemons)
    assert read_host(machine.start_client()) == host
    assert connect(host).document("papers/a").get().exists == kept


def test_a_taken_port_is_reported_with_its_variable(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", int(machine.port))):
        output = machine.start([*CARREL, "stdio"]).communicate(timeout=END_TIMEOUT_SECONDS)
    assert output[0] == ""
    assert output[1].startswith("Error: The local database did not start.\n")
    assert f"port {machine.port}" in output[1]
    assert f"EMULATOR_PORT={int(machine.port) + 1} make run" in output[1]
    assert "Traceback" not in output[1]


def test_where_nothing_can_be_fetched_every_command_says_so(
    machine: Machine, tmp_path: Path
) -> None:
    with DownloadServer() as proxy:  # it refuses every host
        for arguments in (["stdio"], ["jobs", "run", "embed"], ["up"]):
            command = [sys.executable, "-c", WITH_OTHER_PROGRAMS, str(tmp_path), *arguments]
            bare = {"PATH": "", "JAVA_HOME": "", "HOME": "/nowhere", "https_proxy": proxy.url}
            process = machine.start(command, **bare)
            errors = process.communicate(timeout=END_TIMEOUT_SECONDS)[1]
            expected = "Error: The proxy refuses to reach storage.googleapis.com (403 Forbidden)"
            assert (process.returncode, errors.count(expected)) == (1, 1)
            assert "Traceback" not in errors


def test_a_run_leaves_the_database_to_other_clients(machine: Machine) -> None:
    with machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())]) as run:
        assert run.stdout
        assert any("Press Ctrl-C to stop." in line for line in run.stdout)
        other = machine.start_client()
        host = read_host(other)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    assert machine.state.get_address() == host


def test_a_run_can_be_interrupted_at_its_start(machine: Machine) -> None:
    with machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())]) as run:
        assert run.stdout
        assert any("Opening the local database" in line for line in run.stdout)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    machine.wait_until_idle()  # a daemon that was just starting finds nobody, and leaves


def test_a_run_without_other_clients_ends_after_the_save(machine: Machine) -> None:
    with machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())]) as run:
        assert run.stdout
        assert any("Press Ctrl-C to stop." in line for line in run.stdout)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 0
    assert not machine.state.has_daemon()
    assert not machine.state.address_file.exists()


def test_a_run_ends_when_its_database_dies(machine: Machine) -> None:
    with machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())]) as run:
        assert run.stdout
        assert any("Press Ctrl-C to stop." in line for line in run.stdout)
        [emulator] = machine.find_emulators()
        os.kill(emulator, signal.SIGKILL)
        assert run.wait(timeout=END_TIMEOUT_SECONDS) == 1
        assert run.stderr
        assert "The Firestore emulator died." in run.stderr.read()


def test_ingest_works_without_a_running_database(
    machine: Machine, connect: Callable[..., Client], tmp_path: Path
) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    put_in = machine.start([*CARREL, "ingest", str(tmp_path / "tea.md")])
    assert "ingest: " in put_in.communicate(timeout=END_TIMEOUT_SECONDS)[0]
    host = read_host(machine.start_client())
    [chunk] = connect(host).collection("chunks").stream()
    assert "seventy degrees" in chunk.get("content")


def test_concurrent_exports_leave_a_complete_one(
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
