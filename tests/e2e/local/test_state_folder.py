"""Commands say what to do if the state folder cannot be written, and no data is lost.

The state folder contains the local database.
"""

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.local_machine import END_TIMEOUT_SECONDS, Machine

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

for_every_command = pytest.mark.parametrize("command", [["up"], ["stdio"], ["keys", "list"]])


def require(command: list[str]) -> None:
    """Skip a test if this user may not create user namespaces."""
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"this user may not run: {shlex.join(command)}")


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
    message = machine.fail(*command, CARREL_STATE=str(state))
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
    message = machine.fail(*command, prefix=prefix, CARREL_STATE=str(disk / path))
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
    message = machine.fail(*command, prefix=WITHOUT_PRIVILEGES, CARREL_STATE=str(state))
    assert f"Carrel cannot store data in {state}: Permission denied. To use another" in message


def test_an_invalid_setting_is_reported_before_anything_is_created(machine: Machine) -> None:
    for name, value, expected in (
        ("LEASE_SECONDS", "soon", "Error: LEASE_SECONDS must be a number.\n"),
        (
            "DISABLED_TOOLS",
            '["fly"]',
            "Error: DISABLED_TOOLS names unknown tools: fly. The tools are: ",
        ),
    ):
        assert machine.fail("up", **{name: value}).startswith(expected)
    assert not machine.state.exists()


def test_a_run_ends_when_its_files_are_deleted(machine: Machine) -> None:
    run, _ = machine.start_run()
    shutil.rmtree(machine.state)
    message = run.communicate(timeout=END_TIMEOUT_SECONDS)[1]
    assert message.startswith(f"Error: {machine.files} was deleted or moved while Carrel ran")
