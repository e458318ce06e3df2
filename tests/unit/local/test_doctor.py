"""The doctor reports whether a machine meets each requirement of a local run, and what to do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra import doctor
from infra.doctor import CHECKS, CheckResult, CheckStatus, Machine
from infra.local.embedded_firestore import files
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions
from infra.local.state_disk import Mount
from tests.support.fakes.gateway import FakeGateway
from tests.support.ports import find_free_port


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine where nothing runs."""
    return Machine(
        state=tmp_path / "state",
        port=find_free_port(),
    )


def run_check(name: str, machine: Machine) -> CheckResult:
    """Run the check of this name on a machine."""
    [check] = [check for check in CHECKS if check.name == name]
    return doctor.run_check(check, machine)


def expect_failure(name: str, machine: Machine) -> tuple[str, str]:
    """Return the message of a failed check, and the command that it advises."""
    result = run_check(name, machine)
    assert result.status == CheckStatus.WRONG
    return result.message, result.next_command


def test_a_new_enough_python_passes(machine: Machine) -> None:
    assert run_check("Python", machine).status == CheckStatus.OK


def test_an_old_python_fails(machine: Machine) -> None:
    message, command = expect_failure("Python", replace(machine, python=(3, 10, 4)))
    assert message == "3.10.4 is too old: 3.11.7 or newer is required"
    assert command == "make PYTHON=/path/to/python3.13 run"


def test_a_state_folder_that_can_be_created_passes(machine: Machine) -> None:
    assert run_check("state folder", machine).message == f"{machine.state} (not created yet)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_folder_without_write_access_fails(machine: Machine) -> None:
    machine.state.mkdir(mode=0o500)
    message, command = expect_failure("state folder", machine)
    assert message == f"{machine.state} is not writable"
    assert command == "CARREL_STATE=/another/folder make run"


def test_a_file_instead_of_a_state_folder_fails(machine: Machine) -> None:
    machine.state.touch()
    machine_below_a_file = replace(machine, state=machine.state / "below")
    for broken_machine in (machine, machine_below_a_file):
        message, command = expect_failure("state folder", broken_machine)
        assert message == f"{machine.state} is a file, not a folder"
        assert command == "CARREL_STATE=/another/folder make run"


def test_a_state_folder_on_a_network_drive_fails(machine: Machine) -> None:
    mounts = [Mount(Path("/"), "ext4"), Mount(machine.state.parent, "cifs")]
    message, command = expect_failure("state folder", replace(machine, mounts=mounts))
    assert message.endswith("is on a drive of a network or of another system (cifs)")
    assert command == "CARREL_STATE=/another/folder make run"


def test_a_state_folder_that_is_synchronised_fails(machine: Machine, tmp_path: Path) -> None:
    synchronised = tmp_path / "OneDrive - Contoso" / "state"
    message, command = expect_failure("state folder", replace(machine, state=synchronised))
    assert message == f"{synchronised} is in {synchronised.parent}, which a program synchronises"
    assert command == "CARREL_STATE=/another/folder make run"


def test_a_disk_that_is_almost_full_fails(machine: Machine) -> None:
    full = replace(machine, measure_free_bytes=lambda _: 12_345_678)
    message, command = expect_failure("state folder", full)
    assert message == "only 12 MB are free on its disk"
    assert command == "free some space"


@pytest.fixture
def database(machine: Machine) -> Path:
    """The file of a database of the machine."""
    databases = Databases(machine.state / "databases", lambda _: Definitions())
    path = databases.open("carrel-local").store.path
    databases.close()
    return path


def test_whole_files_pass(machine: Machine, database: Path) -> None:
    assert run_check("files", machine).message == "1 database, whole"
    assert database.exists()


def test_damage_anywhere_in_a_file_fails(machine: Machine, database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(4_096)
        file.write(b"x" * 4_096)
    message, command = expect_failure("files", machine)
    assert message.startswith(f"{database} is damaged")
    assert command == "that, then .venv/bin/carrel doctor"


def test_a_file_of_a_later_version_fails(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FORMAT", 0)
    message, command = expect_failure("files", machine)
    assert message.startswith(f"{database} was written by a later version, in format 1")
    assert message.endswith("Update, and start again.")
    assert "wait" not in command


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_fails(machine: Machine, database: Path) -> None:
    database.chmod(0o400)
    message, command = expect_failure("files", machine)
    assert message == f"{database} is not writable"
    assert command == f"chmod u+w {database}"


def test_a_stopped_gateway_names_the_command_to_start_it(machine: Machine) -> None:
    message, command = expect_failure("gateway", machine)
    assert message == f"nothing answers on port {machine.port}"
    assert command == "make run"


def test_a_healthy_gateway_passes(machine: Machine) -> None:
    with FakeGateway() as gateway:
        machine_with_gateway = replace(machine, port=gateway.server_port)
        result = run_check("gateway", machine_with_gateway)
    assert result.message == f"answers on port {machine_with_gateway.port}"


def test_an_unhealthy_gateway_is_quoted(machine: Machine) -> None:
    with FakeGateway() as gateway:
        gateway.health = 503
        message, command = expect_failure("gateway", replace(machine, port=gateway.server_port))
    assert "it does not answer" in message
    assert command == "stop it, then make run"


def test_the_embedding_model_embeds_a_sample(machine: Machine) -> None:
    result = run_check("embedding model", machine)
    assert result.status == CheckStatus.OK
    assert result.message == "all-MiniLM-L6-v2-onnx-int8 returns vectors of 384 dimensions"


@pytest.mark.parametrize("name", ["node", "terraform", "gcloud"])
def test_a_missing_optional_program_is_not_a_failure(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    machine_with_one_path = replace(machine, environment={"PATH": str(tmp_path)})
    assert run_check(name, machine_with_one_path).status == CheckStatus.OPTIONAL

    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    result = run_check(name, machine_with_one_path)
    assert result.status == CheckStatus.OK
    assert result.message == str(program)
