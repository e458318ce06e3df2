"""`run_emulator` starts an emulator of Firestore, whose data can be saved, and ends it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from google.cloud.firestore_v1.vector import Vector

from infra.local import emulator
from infra.local.autosave import load_databases, save_databases
from infra.local.emulator import export_data, import_data, run_emulator
from infra.local.emulator_programs import EmulatorError
from tests.support.emulator_archives import make_java, write_program
from tests.support.ports import find_free_port
from tests.support.process_end import wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.firestore import Client

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[3]
RUN_EMULATOR_UNTIL_EOF: Final = """
import sys
from infra.local.emulator import run_emulator
with run_emulator() as host:
    print(host, flush=True)
    sys.stdin.read()
"""
"""A program that prints the address of its emulator, and waits."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """The address of an emulator for this file, in which each test has its own project."""
    with run_emulator() as address:
        yield address


def test_the_output_of_an_emulator_that_does_not_start_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "bin" / "java", f"{make_java(25)}echo out of luck; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EmulatorError, match="out of luck"), run_emulator():
        pass


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(EmulatorError, match=f"port {port}"), run_emulator(port):
            pass


def test_a_chosen_port_that_was_taken_meanwhile_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server((emulator.LOOPBACK, 0)) as server:
        taken_port = server.getsockname()[1]
        ports = iter([taken_port, find_free_port()])
        monkeypatch.setattr(emulator, "_choose_port", lambda _port: next(ports))
        with run_emulator() as host:
            assert host != f"{emulator.LOOPBACK}:{taken_port}"


def test_two_emulators_can_run_and_leave_no_process(
    host: str, connect: Callable[..., Client]
) -> None:
    with run_emulator() as second_host:
        connect(host, "first").document("papers/a").set({"title": "one"})
        assert not connect(second_host, "first").document("papers/a").get().exists
        processes = _list_processes(second_host)
        assert processes
    wait_for_end(*processes)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_emulator_does_not_outlive_its_parent(death: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN_EMULATOR_UNTIL_EOF],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout
        host = parent.stdout.readline().strip()
        processes = _list_processes(host)
        assert processes
        parent.send_signal(death)
    wait_for_end(*processes)


def test_data_survives_until_the_next_run(tmp_path: Path, connect: Callable[..., Client]) -> None:
    chunk = {"embedding": Vector([0.6, 0.8]), "terms": {"a.b": {"ü": [1, None]}}, "raw": b"\0\xff"}
    with run_emulator() as host:
        connect(host, "kept").document("chunks/1").set(chunk)
        connect(host, "kept", "access").document("keys/1/uses/2").set({"hash": "x"})
        save_databases(host, tmp_path, "kept")
    with run_emulator() as host:
        load_databases(host, tmp_path, "kept")
        assert connect(host, "kept").document("chunks/1").get().to_dict() == chunk
        key = connect(host, "kept", "access").document("keys/1/uses/2").get()
        assert key.to_dict() == {"hash": "x"}
        assert not connect(host, "kept").document("keys/1/uses/2").get().exists


def test_an_export_replaces_the_previous_one(
    host: str, tmp_path: Path, connect: Callable[..., Client]
) -> None:
    connect(host, "source").document("papers/a").set({"edition": 1})
    export_data(host, tmp_path, "source")
    connect(host, "source").document("papers/a").set({"edition": 2})
    export_data(host, tmp_path, "source")
    assert import_data(host, tmp_path, "copy")
    assert connect(host, "copy").document("papers/a").get().to_dict() == {"edition": 2}
    assert len(list(tmp_path.glob("0*"))) == 1


def test_importing_from_an_empty_folder_returns_false(host: str, tmp_path: Path) -> None:
    assert not import_data(host, tmp_path, "copy")


def test_an_error_of_the_emulator_is_quoted(host: str, tmp_path: Path) -> None:
    (tmp_path / "00000001").mkdir()
    with pytest.raises(EmulatorError, match="overall export metadata"):
        import_data(host, tmp_path, "copy")


def _list_processes(host: str) -> list[int]:
    """Return the processes of a host: the emulator, and the shell that watches its parent."""
    listing = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
    port = f"--port={host.rpartition(':')[2]}"
    return [int(line.split()[0]) for line in listing.splitlines() if line.endswith(port)]
