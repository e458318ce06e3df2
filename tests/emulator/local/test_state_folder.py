"""Commands say what to do if the state folder cannot be written, and no data is lost.

The state folder contains the local database.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.local_machine import CARREL, Machine, close_client, read_host
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from google.cloud.firestore import Client

pytestmark = pytest.mark.slow

NEW_DISK: Final = ["unshare", "--user", "--map-root-user", "--mount"]
"""This prefix runs a command in its own mount namespace."""
ON_A_READ_ONLY_DISK: Final = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit
shift
exec "$@"
"""
"""Makes the folder in the first argument read-only, and runs the command in the others."""
WITHOUT_PRIVILEGES: Final = ["unshare", "--user"]
"""This prefix runs a command without privileges, even for root."""
ON_A_SMALL_DISK: Final = f"""
set -e
mkdir -p "$CARREL_STATE"
mount -t tmpfs -o size=200k tmpfs "$CARREL_STATE"
carrel() {{ {shlex.join(CARREL)} "$@"; }}
carrel ingest "$1/tea.md"
carrel ingest "$1/much.md" || echo "refused: $?"
mount -o remount,size=20m "$CARREL_STATE"
while kill -0 $(cat "$CARREL_STATE/keeper") 2>/dev/null; do sleep 0.1; done
carrel ingest "$1/much.md"
"""
"""Fills a disk, enlarges it, waits until the database has been saved, and ingests again."""

for_every_command = pytest.mark.parametrize("command", [["up"], ["stdio"], ["keys", "list"]])


def expect_error(
    machine: Machine, *arguments: str, prefix: Sequence[str] = (), **environment: str
) -> str:
    """Run a command that fails, and return its error."""
    process = machine.start([*prefix, *CARREL, *arguments], **environment)
    message = process.communicate(timeout=END_TIMEOUT_SECONDS)[1]
    assert process.returncode == 1
    assert "Traceback" not in message
    return message


def require(command: list[str]) -> None:
    """Skip a test if this user may not create user namespaces."""
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"this user may not run: {shlex.join(command)}")


def start_run(machine: Machine) -> subprocess.Popen[str]:
    """Start a local run and wait until it answers."""
    run = machine.start([*CARREL, "up", "--no-sample", "--port", str(find_free_port())])
    assert run.stdout
    assert any("Press Ctrl-C to stop." in line for line in run.stdout)
    return run


def await_line(process: subprocess.Popen[str], expected: str) -> None:
    """Wait until a process prints a line to standard error that contains a text."""
    assert process.stderr
    assert any(expected in line for line in process.stderr)


@for_every_command
@pytest.mark.parametrize(
    ("path", "reason"),
    [("file", "it is a file"), ("file/below", "Not a directory"), ("/proc/carrel", "No such file")],
)
def test_a_path_that_cannot_be_a_folder_is_refused(
    machine: Machine, tmp_path: Path, path: str, reason: str, command: list[str]
) -> None:
    (tmp_path / "file").touch()
    state = tmp_path / path
    message = expect_error(machine, *command, CARREL_STATE=str(state))
    assert f"Carrel cannot store data in {state}: {reason}" in message
    assert "CARREL_STATE=/another/folder make run" in message


@for_every_command
@pytest.mark.parametrize("path", [".", "below"])
def test_a_state_folder_on_a_read_only_disk_is_refused(
    machine: Machine, tmp_path: Path, path: str, command: list[str]
) -> None:
    require(NEW_DISK)
    disk = tmp_path / "disk"
    disk.mkdir()
    prefix = [*NEW_DISK, "sh", "-c", ON_A_READ_ONLY_DISK, "sh", str(disk)]
    message = expect_error(machine, *command, prefix=prefix, CARREL_STATE=str(disk / path))
    expected = f"Carrel cannot store data in {disk / path}: Read-only file system. To use another"
    assert expected in message


@for_every_command
@pytest.mark.parametrize("path", [".", "below"])
def test_a_state_folder_without_permission_is_refused(
    machine: Machine, tmp_path: Path, path: str, command: list[str]
) -> None:
    require(WITHOUT_PRIVILEGES)
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    state = folder / path
    message = expect_error(machine, *command, prefix=WITHOUT_PRIVILEGES, CARREL_STATE=str(state))
    assert f"Carrel cannot store data in {state}: Permission denied. To use another" in message


def test_an_invalid_setting_is_reported_before_anything_is_created(machine: Machine) -> None:
    for name, value, expected in (
        ("LEASE_SECONDS", "soon", "Error: LEASE_SECONDS must be a number.\n"),
        ("EMULATOR_PORT", "abc", "Error: EMULATOR_PORT must be a port from 1 to 65535, such as"),
        (
            "DISABLED_TOOLS",
            '["fly"]',
            "Error: DISABLED_TOOLS names unknown tools: fly. The tools are: ",
        ),
    ):
        assert expect_error(machine, "up", **{name: value}).startswith(expected)
    assert not machine.state.path.exists()


def test_a_deleted_state_folder_is_reported_and_restored(
    machine: Machine, connect: Callable[..., Client]
) -> None:
    run = start_run(machine)
    connect(machine.state.get_address() or "").document("papers/a").set({"title": "kept"})
    shutil.rmtree(machine.state.path)
    message = run.communicate(timeout=END_TIMEOUT_SECONDS)[1]
    assert message.startswith(f"Error: {machine.state.path} was deleted or moved while Carrel ran.")
    machine.wait_until_idle()
    host = read_host(machine.start_client())
    assert connect(host).document("papers/a").get().to_dict() == {"title": "kept"}


def test_unsaved_data_is_saved_once_the_folder_can_be_written(
    machine: Machine, connect: Callable[..., Client], tmp_path: Path
) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    run = start_run(machine)
    blocker = machine.state.data / "(default)" / "writing"
    blocker.parent.mkdir(parents=True)
    blocker.touch()
    expected = f"The local data could not be saved in {machine.state.path}: File exists."
    assert expected in expect_error(machine, "ingest", str(tmp_path / "tea.md"))

    run.send_signal(signal.SIGINT)
    assert expected in run.communicate(timeout=END_TIMEOUT_SECONDS)[1]
    assert run.returncode == 1

    client = machine.start_client()
    read_host(client)
    await_line(client, expected)
    blocker.unlink()
    await_line(client, "The local data is saved again.")
    close_client(client)
    machine.wait_until_idle()
    [chunk] = connect(read_host(machine.start_client())).collection("chunks").stream()
    assert "seventy degrees" in chunk.get("content")


def test_a_full_disk_is_reported_and_loses_nothing(machine: Machine, tmp_path: Path) -> None:
    require(NEW_DISK)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    paragraphs = (f"Paragraph {number} of many. {'More of it. ' * 20}" for number in range(200))
    (notes / "much.md").write_text("\n\n".join(paragraphs))
    script = machine.start([*NEW_DISK, "sh", "-c", ON_A_SMALL_DISK, "sh", str(notes)])
    output, errors = script.communicate(timeout=4 * END_TIMEOUT_SECONDS)
    assert script.returncode == 0, errors
    assert "refused: 1" in output
    assert f"could not be saved in {machine.state.path}: No space left on device." in errors
    assert "embed: nothing to do" in output.partition("refused: 1")[2]
