"""What the doctor says of a machine: what a local run needs, and whether it is there."""

from __future__ import annotations

import os
import socket
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.doctor.check import Finding, State, findings
from infra.doctor.local import CHECKS, Machine
from tests.support.healthy_deployment import FakeGateway
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

MAIN = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine where nothing runs."""
    return Machine(state=tmp_path / "state", port=free_port(), emulator_port=free_port())


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def finding(name: str, machine: Machine) -> Finding:
    [check] = [each for each in CHECKS if each.name == name]
    [(_, found)] = findings([check], machine)
    return found


def ill(name: str, machine: Machine) -> tuple[str, str]:
    found = finding(name, machine)
    assert State.WRONG == found.state
    return found.said, found.next


def equipped(folder: Path, java: int, needed: int) -> dict[str, str]:
    """An environment with a Java of this version, and an emulator that needs that one."""
    home, emulators = folder / "java", folder / "emulators"
    (home / "bin").mkdir(parents=True)
    emulators.mkdir()
    program = home / "bin" / "java"
    program.write_text(f"""#!/bin/sh\necho 'openjdk version "{java}.0.1" 2025-01-01' >&2\n""")
    program.chmod(0o755)
    with zipfile.ZipFile(emulators / "cloud-firestore-emulator-v1.jar", "w") as archive:
        archive.writestr(MAIN, b"\xca\xfe\xba\xbe\x00\x00" + (needed + 44).to_bytes(2, "big"))
    return {
        "JAVA_HOME": str(home),
        "FIREBASE_EMULATORS_PATH": str(emulators),
        "PATH": "/usr/bin:/bin" if not Path("/usr/bin/gcloud").exists() else str(folder),
    }


def test_a_python_that_is_new_enough_is_well(machine: Machine) -> None:
    assert State.OK == finding("Python", machine).state


def test_a_python_that_is_too_old_is_named(machine: Machine) -> None:
    said, then = ill("Python", replace(machine, python=(3, 10, 4)))
    assert "3.10.4 is too old: 3.11.7 is needed" == said
    assert "make PYTHON=/path/to/python3.13 run" == then


def test_the_emulator_that_the_tests_run_on_is_found(machine: Machine) -> None:
    assert State.OK == finding("Firestore emulator", machine).state


def test_a_machine_without_java_is_told_how_to_get_it(machine: Machine, tmp_path: Path) -> None:
    bare = replace(machine, environment={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    said, then = ill("Firestore emulator", bare)
    assert "The Firestore emulator cannot run on this machine." == said
    assert "sudo apt-get install default-jre-headless" in then


def test_an_emulator_that_needs_a_newer_java_is_named(machine: Machine, tmp_path: Path) -> None:
    old = replace(machine, environment=equipped(tmp_path, java=17, needed=21))
    said, _ = ill("Firestore emulator", old)
    assert "needs Java 21, and" in said
    assert said.endswith("is 17")


def test_an_emulator_whose_java_is_new_enough_is_well(machine: Machine, tmp_path: Path) -> None:
    new = replace(machine, environment=equipped(tmp_path, java=21, needed=21))
    assert finding("Firestore emulator", new).said.endswith("on Java 21")


def test_a_state_folder_that_can_be_made_is_well(machine: Machine) -> None:
    assert f"{machine.state} (not made yet)" == finding("state folder", machine).said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_folder_that_cannot_be_written_to_is_named(machine: Machine) -> None:
    machine.state.mkdir(mode=0o500)
    said, then = ill("state folder", machine)
    assert f"{machine.state} cannot be written to" == said
    assert "CARREL_STATE=/another/folder make run" == then


def test_a_state_folder_that_is_a_file_is_named(machine: Machine) -> None:
    machine.state.touch()
    below = replace(machine, state=machine.state / "below")
    for broken in (machine, below):
        said, then = ill("state folder", broken)
        assert f"{machine.state} is a file, not a folder" == said
        assert "CARREL_STATE=/another/folder make run" == then
        assert State.OK == finding("local database", broken).state


def test_a_database_that_does_not_run_has_its_port_free(machine: Machine) -> None:
    found = finding("local database", machine)
    assert (State.OK, f"not running; port {machine.emulator_port} is free") == found[:2]


def test_a_database_whose_port_is_taken_is_named(machine: Machine, stranger: int) -> None:
    said, then = ill("local database", replace(machine, emulator_port=stranger))
    assert f"somebody else listens on port {stranger}" == said
    assert "EMULATOR_PORT=8787 make run" == then


def test_a_base_that_is_empty_is_told_how_to_fill_it(machine: Machine) -> None:
    expected = ("nothing was put in yet", "make run, which loads a sample")
    assert expected == ill("knowledge", machine)


def test_a_base_that_is_kept_is_well(machine: Machine) -> None:
    (machine.state / "firestore" / "(default)" / "00000001").mkdir(parents=True)
    assert f"kept in {machine.state / 'firestore'}" == finding("knowledge", machine).said


def test_a_gateway_that_does_not_run_is_told_how_to_start(machine: Machine) -> None:
    assert (f"nothing answers on port {machine.port}", "make run") == ill("gateway", machine)


def test_a_gateway_that_answers_is_well(machine: Machine) -> None:
    with FakeGateway() as gateway:
        here = replace(machine, port=gateway.server_port)
        assert f"answers on port {here.port}" == finding("gateway", here).said


def test_a_gateway_that_is_ill_is_quoted(machine: Machine) -> None:
    with FakeGateway() as gateway:
        gateway.health = 503
        said, then = ill("gateway", replace(machine, port=gateway.server_port))
    assert "it does not answer" in said
    assert "make run, once more" == then


def test_the_embedding_model_is_loaded_and_tried(machine: Machine) -> None:
    found = finding("embedding model", machine)
    assert (State.OK, "all-MiniLM-L6-v2-onnx-int8 gives 384 numbers") == found[:2]


@pytest.mark.parametrize("name", ["node", "terraform", "gcloud"])
def test_what_only_some_need_is_missing_without_harm(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    bare = replace(machine, environment={"PATH": str(tmp_path)})
    assert State.OPTIONAL == finding(name, bare).state
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert (State.OK, str(program)) == finding(name, bare)[:2]
