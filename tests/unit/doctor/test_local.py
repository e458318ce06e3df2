"""The doctor reports whether a machine meets each requirement of a local run, and what to do."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra.doctor.check import CheckResult, CheckStatus, run_checks
from infra.doctor.local import CHECKS, Machine
from tests.support.emulator_archives import make_archive, make_java, write_program
from tests.support.fakes.gateway import FakeGateway
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine where nothing runs."""
    return Machine(
        state=tmp_path / "state",
        programs=tmp_path / "programs",
        port=find_free_port(),
        emulator_port=find_free_port(),
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def run_check(name: str, machine: Machine) -> CheckResult:
    """Run the check of this name on a machine."""
    [check] = [check for check in CHECKS if check.name == name]
    [(_, result)] = run_checks([check], machine)
    return result


def expect_failure(name: str, machine: Machine) -> tuple[str, str]:
    """Return the message of a failed check, and the command that it advises."""
    result = run_check(name, machine)
    assert result.status == CheckStatus.WRONG
    return result.message, result.next_command


def make_environment(folder: Path, java_version: int, required_java: int) -> dict[str, str]:
    """Return an environment with a version of Java, and an emulator that requires another."""
    write_program(folder / "java" / "bin" / "java", make_java(java_version))
    archive = folder / "cloud-firestore-emulator-v1.jar"
    archive.write_bytes(make_archive(required_java))
    return {"JAVA_HOME": f"{folder}/java", "FIREBASE_EMULATORS_PATH": str(folder), "PATH": ""}


def test_a_new_enough_python_passes(machine: Machine) -> None:
    assert run_check("Python", machine).status == CheckStatus.OK


def test_an_old_python_fails(machine: Machine) -> None:
    message, command = expect_failure("Python", replace(machine, python=(3, 10, 4)))
    assert message == "3.10.4 is too old: 3.11.7 or newer is required"
    assert command == "make PYTHON=/path/to/python3.13 run"


def test_the_emulator_of_these_tests_is_found(machine: Machine) -> None:
    assert run_check("Firestore emulator", machine).status == CheckStatus.OK


def test_a_missing_emulator_is_fetched_by_the_next_run(machine: Machine, tmp_path: Path) -> None:
    bare_machine = replace(machine, environment={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    message, command = expect_failure("Firestore emulator", bare_machine)
    assert message == "The Firestore emulator is missing."
    assert command == "make run"


def test_an_emulator_that_needs_a_newer_java_fails(machine: Machine, tmp_path: Path) -> None:
    machine_with_java_17 = replace(
        machine, environment=make_environment(tmp_path, java_version=17, required_java=21)
    )
    message, command = expect_failure("Firestore emulator", machine_with_java_17)
    assert message.startswith("Java 21 or newer is missing")
    assert command == "make run"


def test_an_emulator_with_a_new_enough_java_passes(machine: Machine, tmp_path: Path) -> None:
    machine_with_java_21 = replace(
        machine, environment=make_environment(tmp_path, java_version=21, required_java=21)
    )
    assert run_check("Firestore emulator", machine_with_java_21).message.endswith("on Java 21")


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
        assert run_check("local database", broken_machine).status == CheckStatus.OK


def test_a_stopped_database_with_a_free_port_passes(machine: Machine) -> None:
    result = run_check("local database", machine)
    assert result.status == CheckStatus.OK
    assert result.message == f"not running; port {machine.emulator_port} is free"


def test_a_taken_database_port_fails(machine: Machine, taken_port: int) -> None:
    message, command = expect_failure("local database", replace(machine, emulator_port=taken_port))
    assert message == f"another program listens on port {taken_port}"
    assert command == "EMULATOR_PORT=8787 make run"


def test_an_empty_base_names_the_command_to_fill_it(machine: Machine) -> None:
    message, command = expect_failure("knowledge", machine)
    assert message == "the knowledge base is empty"
    assert command == "make run, which loads a sample"


def test_a_saved_base_passes(machine: Machine) -> None:
    (machine.state / "firestore" / "(default)" / "00000001").mkdir(parents=True)
    assert run_check("knowledge", machine).message == f"saved in {machine.state / 'firestore'}"


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
