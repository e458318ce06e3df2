"""The doctor reports whether a machine meets each requirement of a local run, and what to do."""

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
from tests.support.cards import make_card_reply
from tests.support.fakes.gateway import FakeGateway
from tests.support.fakes.openai import CHAT_MODEL, FakeOpenAI
from tests.support.ports import find_free_port


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine where nothing runs."""
    return Machine(state=tmp_path / "state", port=find_free_port())


def run_check(name: str, machine: Machine) -> CheckResult:
    [check] = [check for check in CHECKS if check.name == name]
    return doctor.run_check(check, machine)


def expect_failure(name: str, machine: Machine) -> tuple[str, str]:
    """Return the message of a failed check, and the command that it advises."""
    result = run_check(name, machine)
    assert result.status == CheckStatus.WRONG
    return result.message, result.next_command


OTHER_FOLDER = "CARREL_STATE=/another/folder make run"


def test_an_old_python_fails(machine: Machine) -> None:
    assert run_check("Python", machine).status == CheckStatus.OK
    assert expect_failure("Python", replace(machine, python=(3, 10, 4))) == (
        "3.10.4 is too old: 3.11.7 or newer is required",
        "make PYTHON=/path/to/python3.13 run",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_folder_without_write_access_fails(machine: Machine) -> None:
    assert run_check("state folder", machine).message == f"{machine.state} (not created yet)"
    machine.state.mkdir(mode=0o500)
    failure = (f"{machine.state} is not writable", OTHER_FOLDER)
    assert expect_failure("state folder", machine) == failure


def test_a_state_folder_where_no_database_is_safe_fails(machine: Machine, tmp_path: Path) -> None:
    mounts = [Mount(Path("/"), "ext4"), Mount(machine.state.parent, "cifs")]
    message, command = expect_failure("state folder", replace(machine, mounts=mounts))
    assert message.endswith("is on a drive of a network or of another system (cifs)")
    assert command == OTHER_FOLDER

    synchronised = tmp_path / "OneDrive - Contoso" / "state"
    assert expect_failure("state folder", replace(machine, state=synchronised)) == (
        f"{synchronised} is in {synchronised.parent}, which a program synchronises",
        OTHER_FOLDER,
    )

    full = replace(machine, measure_free_bytes=lambda _: 12_345_678)
    failure = ("only 12 MB are free on its disk", "free some space")
    assert expect_failure("state folder", full) == failure

    machine.state.touch()
    for state in (machine.state, machine.state / "below"):
        failure = (f"{machine.state} is a file, not a folder", OTHER_FOLDER)
        assert expect_failure("state folder", replace(machine, state=state)) == failure


@pytest.fixture
def database(machine: Machine) -> Path:
    """The file of a database of the machine."""
    databases = Databases(machine.state / "databases", lambda _: Definitions())
    path = databases.open("carrel-local").store.path
    databases.close()
    return path


def test_damage_anywhere_in_a_file_fails(machine: Machine, database: Path) -> None:
    assert run_check("files", machine).message == "1 database, whole"
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
    failure = (f"{database} is not writable", f"chmod u+w {database}")
    assert expect_failure("files", machine) == failure


def test_a_gateway_answers_and_is_healthy(machine: Machine) -> None:
    failure = (f"nothing answers on port {machine.port}", "make run")
    assert expect_failure("gateway", machine) == failure
    with FakeGateway() as gateway:
        served_machine = replace(machine, port=gateway.server_port)
        result = run_check("gateway", served_machine)
        assert result.message == f"answers on port {served_machine.port}"
        gateway.health = 503
        message, command = expect_failure("gateway", served_machine)
    assert "it does not answer" in message
    assert command == "stop it, then make run"


def test_the_embedding_model_embeds_a_sample(machine: Machine) -> None:
    result = run_check("embedding model", machine)
    assert result.status == CheckStatus.OK
    assert (
        result.message
        == "all-MiniLM-L6-v2-onnx-int8+use-multilingual-v3 returns vectors of 896 dimensions"
    )


def test_without_a_language_model_there_is_nothing_to_check(machine: Machine) -> None:
    result = run_check("language model", machine)
    assert result.status == CheckStatus.OK
    assert result.message.startswith("none")


def test_an_endpoints_language_model_writes_a_card(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeOpenAI() as endpoint:
        monkeypatch.setenv("GENERATION_PROVIDER", "openai")
        message, command = expect_failure("language model", machine)
        assert "also needs GENERATION_BASE_URL" in message
        assert command == "change the settings that begin with GENERATION_"

        endpoint.answers["GeneratedCard"] = make_card_reply
        monkeypatch.setenv("GENERATION_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("GENERATION_MODEL", CHAT_MODEL)
        result = run_check("language model", machine)
        assert result.status == CheckStatus.OK
        assert result.message.startswith(f"{CHAT_MODEL} writes a card with ")

        endpoint.keys = {"another"}
        assert "give it a key that it accepts" in expect_failure("language model", machine)[0]
    message, _ = expect_failure("language model", machine)
    assert message == f"nothing answers at {endpoint.base_url}"


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
