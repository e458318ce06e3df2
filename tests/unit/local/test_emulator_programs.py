"""Where Java and the emulator are found on a machine, and which is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from infra.local.emulator_programs import EmulatorMissing, find_emulator
from tests.support.emulator_archives import make_archive, make_java, write_program

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "cloud-firestore-emulator-v1.jar"


def make_sdk(root: Path) -> Path:
    """Make the parts of gcloud's folder that matter for finding the emulator."""
    write_program(root / "bin" / "gcloud", "#!/bin/sh\nexit 1\n")
    (root / "lib").mkdir()
    (root / "lib" / "gcloud.py").touch()
    return make_archive_file(
        root / "platform" / "cloud-firestore-emulator" / "cloud-firestore-emulator.jar"
    )


def make_archive_file(path: Path, required_java: int = 11) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_archive(required_java))
    return path


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with Java 17 alone."""
    write_program(tmp_path / "path" / "java", make_java(17))
    return {"PATH": f"{tmp_path}/path", "HOME": f"{tmp_path}/home"}


def test_without_an_emulator_it_is_missing(machine: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(EmulatorMissing, match="The Firestore emulator is missing"):
        find_emulator(machine, tmp_path)


def test_gcloud_without_the_component_has_no_emulator(
    machine: dict[str, str], tmp_path: Path
) -> None:
    make_sdk(tmp_path / "sdk").unlink()
    with pytest.raises(EmulatorMissing, match="The Firestore emulator is missing"):
        find_emulator(machine | {"PATH": f"{machine['PATH']}:{tmp_path}/sdk/bin"}, tmp_path)


def test_the_emulator_is_found_beside_a_linked_gcloud(
    machine: dict[str, str], tmp_path: Path
) -> None:
    archive = make_sdk(tmp_path / "sdk")
    (tmp_path / "path" / "gcloud").symlink_to(tmp_path / "sdk" / "bin" / "gcloud")
    assert str(archive) in find_emulator(machine, tmp_path)


def test_a_wrapper_around_gcloud_is_asked_for_its_root(
    machine: dict[str, str], tmp_path: Path
) -> None:
    archive = make_sdk(tmp_path / "sdk")
    write_program(tmp_path / "path" / "gcloud", f"#!/bin/sh\necho '{tmp_path}/sdk'\n")
    assert str(archive) in find_emulator(machine, tmp_path)


def test_the_emulator_of_firebase_comes_before_a_fetched_one(
    machine: dict[str, str], tmp_path: Path
) -> None:
    fetched = make_archive_file(tmp_path / "programs" / NAME)
    assert str(fetched) in find_emulator(machine, tmp_path / "programs")
    archive = make_archive_file(tmp_path / "home" / ".cache" / "firebase" / "emulators" / NAME)
    assert str(archive) in find_emulator(machine, tmp_path / "programs")


def test_java_home_comes_before_the_path(machine: dict[str, str], tmp_path: Path) -> None:
    make_archive_file(tmp_path / NAME)
    java = write_program(tmp_path / "jdk" / "bin" / "java", make_java(17))
    command = find_emulator(machine | {"JAVA_HOME": f"{tmp_path}/jdk"}, tmp_path)
    assert command[0] == str(java)


def test_an_old_java_home_gives_way_to_a_newer_java(
    machine: dict[str, str], tmp_path: Path
) -> None:
    make_archive_file(tmp_path / NAME)
    write_program(tmp_path / "jdk" / "bin" / "java", make_java(8))
    command = find_emulator(machine | {"JAVA_HOME": f"{tmp_path}/jdk"}, tmp_path)
    assert command[0] == f"{tmp_path}/path/java"


def test_an_emulator_that_needs_a_newer_java_says_so(
    machine: dict[str, str], tmp_path: Path
) -> None:
    archive = make_archive_file(tmp_path / NAME, required_java=21)
    with pytest.raises(EmulatorMissing) as failure:
        find_emulator(machine, tmp_path)
    assert str(failure.value) == f"Java 21 or newer is missing, which {archive} needs."
