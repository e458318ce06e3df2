"""The emulator: how it is found and started, saves its data, and ends."""

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
from infra.local.emulator import (
    EmulatorError,
    EmulatorMissing,
    export_data,
    find_emulator,
    import_data,
    run_emulator,
)
from tests.support.ports import free_port
from tests.support.process_end import wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.firestore import Client

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[3]
JAVA_17: Final = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
RUN_AND_WAIT: Final = """
import sys
from infra.local.emulator import run_emulator
with run_emulator() as host:
    print(host, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """An emulator for this file; each test has its own project."""
    with run_emulator() as address:
        yield address


def test_without_java_and_emulator_both_are_explained() -> None:
    with pytest.raises(EmulatorMissing) as failure:
        find_emulator({})
    message = str(failure.value)
    assert "apt-get install default-jre-headless" in message
    assert "brew install openjdk" in message
    assert "gcloud components install cloud-firestore-emulator" in message
    assert "npx firebase-tools setup:emulators:firestore" in message


def test_with_an_old_java_only_java_is_explained(tmp_path: Path) -> None:
    _write_program(tmp_path / "java", """echo 'java version "1.8.0_292"' >&2""")
    _make_firebase_archive(tmp_path)
    with pytest.raises(EmulatorMissing) as failure:
        find_emulator({"PATH": str(tmp_path), "FIREBASE_EMULATORS_PATH": str(tmp_path)})
    message = str(failure.value)
    assert "Java 11 or newer is missing" in message
    assert "The emulator is missing" not in message


def test_gcloud_without_the_component_has_no_emulator(tmp_path: Path) -> None:
    _write_program(tmp_path / "java", JAVA_17)
    _make_sdk(tmp_path / "sdk").unlink()
    with pytest.raises(EmulatorMissing, match="The emulator is missing"):
        find_emulator({"PATH": f"{tmp_path}:{tmp_path}/sdk/bin"})


def test_the_emulator_is_found_beside_a_linked_gcloud(tmp_path: Path) -> None:
    _write_program(tmp_path / "java", JAVA_17)
    archive = _make_sdk(tmp_path / "sdk")
    (tmp_path / "gcloud").symlink_to(tmp_path / "sdk" / "bin" / "gcloud")
    assert str(archive) in find_emulator({"PATH": str(tmp_path)})


def test_a_wrapper_around_gcloud_is_asked_for_its_root(tmp_path: Path) -> None:
    _write_program(tmp_path / "java", JAVA_17)
    archive = _make_sdk(tmp_path / "sdk")
    _write_program(tmp_path / "gcloud", f"echo '{tmp_path}/sdk'")
    assert str(archive) in find_emulator({"PATH": str(tmp_path)})


def test_the_emulator_of_firebase_is_found(tmp_path: Path) -> None:
    _write_program(tmp_path / "java", JAVA_17)
    archive = _make_firebase_archive(tmp_path / ".cache" / "firebase" / "emulators")
    assert str(archive) in find_emulator({"PATH": str(tmp_path), "HOME": str(tmp_path)})


def test_a_test_run_reports_missing_programs(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "tests/contract/test_jobs.py"]
    process = subprocess.run(
        command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False
    )
    assert process.returncode != 0
    assert "sudo apt-get install default-jre-headless" in process.stderr
    assert "gcloud components install cloud-firestore-emulator" in process.stderr
    assert "INTERNALERROR" not in process.stdout + process.stderr


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    java = _write_program(tmp_path / "home" / "bin" / "java", JAVA_17)
    _write_program(tmp_path / "java", JAVA_17)
    _make_firebase_archive(tmp_path)
    environ = {"FIREBASE_EMULATORS_PATH": str(tmp_path), "PATH": str(tmp_path)}
    assert find_emulator(environ | {"JAVA_HOME": f"{tmp_path}/home"})[0] == str(java)


def test_a_java_too_old_for_the_emulator_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_program(
        tmp_path / "bin" / "java", f"{JAVA_17}; echo UnsupportedClassVersionError; exit 1"
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EmulatorMissing, match="newer Java"), run_emulator():
        pass


def test_an_emulator_that_does_not_start_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_program(tmp_path / "bin" / "java", f"{JAVA_17}; echo out of luck; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EmulatorError, match="out of luck"), run_emulator():
        pass


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EmulatorError, match=f"port {port}"), run_emulator(port):
            pass


def test_a_free_port_that_is_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((emulator.LOOPBACK, 0)) as other:
        taken = other.getsockname()[1]
        ports = iter([taken, free_port()])
        monkeypatch.setattr(emulator, "_choose_port", lambda _port: next(ports))
        with run_emulator() as host:
            assert host != f"{emulator.LOOPBACK}:{taken}"


def test_two_emulators_run_at_once_and_leave_no_process(
    host: str, connect: Callable[..., Client]
) -> None:
    with run_emulator() as second:
        connect(host, "first").document("papers/a").set({"title": "one"})
        assert not connect(second, "first").document("papers/a").get().exists
        processes = _list_processes(second)
        assert processes
    wait_for_end(*processes)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_emulator_does_not_outlive_its_parent(death: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN_AND_WAIT],
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


def _write_program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _make_sdk(root: Path) -> Path:
    """Make the parts of gcloud's folder that matter for finding the emulator."""
    _write_program(root / "bin" / "gcloud", "exit 1")
    (root / "lib").mkdir()
    (root / "lib" / "gcloud.py").touch()
    archive = root / "platform" / "cloud-firestore-emulator" / "cloud-firestore-emulator.jar"
    archive.parent.mkdir(parents=True)
    archive.touch()
    return archive


def _make_firebase_archive(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "cloud-firestore-emulator-v1.20.4.jar"
    archive.touch()
    return archive


def _list_processes(host: str) -> list[int]:
    """Return the processes of a host: the emulator, and the shell that watches its parent."""
    listing = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
    port = f"--port={host.rpartition(':')[2]}"
    return [int(line.split()[0]) for line in listing.splitlines() if line.endswith(port)]
