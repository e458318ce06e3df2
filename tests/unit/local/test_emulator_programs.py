"""Java and the Firestore emulator are found where gcloud, Firebase or Carrel install them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from infra.local.emulator_programs import EmulatorMissing, find_emulator
from tests.support.emulator_archives import make_archive, make_java, write_program

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVE_NAME: Final = "cloud-firestore-emulator-v1.jar"


def make_sdk(root: Path) -> Path:
    """Make a gcloud folder with the emulator, and return the emulator's archive."""
    write_program(root / "bin" / "gcloud", "#!/bin/sh\nexit 1\n")
    (root / "lib").mkdir()
    (root / "lib" / "gcloud.py").touch()
    return make_archive_file(
        root / "platform" / "cloud-firestore-emulator" / "cloud-firestore-emulator.jar"
    )


def make_archive_file(path: Path, required_java: int = 11) -> Path:
    """Write an emulator that needs this version of Java, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_archive(required_java))
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with Java 17 alone."""
    write_program(tmp_path / "path" / "java", make_java(17))
    return {"PATH": f"{tmp_path}/path", "HOME": f"{tmp_path}/home"}


def test_a_machine_without_an_emulator_gets_an_error(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(EmulatorMissing, match="The Firestore emulator is missing"):
        find_emulator(environment, tmp_path)


def test_gcloud_without_the_component_has_no_emulator(
    environment: dict[str, str], tmp_path: Path
) -> None:
    make_sdk(tmp_path / "sdk").unlink()
    with pytest.raises(EmulatorMissing, match="The Firestore emulator is missing"):
        find_emulator(environment | {"PATH": f"{environment['PATH']}:{tmp_path}/sdk/bin"}, tmp_path)


def test_the_emulator_is_found_next_to_a_linked_gcloud(
    environment: dict[str, str], tmp_path: Path
) -> None:
    archive = make_sdk(tmp_path / "sdk")
    (tmp_path / "path" / "gcloud").symlink_to(tmp_path / "sdk" / "bin" / "gcloud")
    assert str(archive) in find_emulator(environment, tmp_path)


def test_the_emulator_is_found_through_a_wrapper_around_gcloud(
    environment: dict[str, str], tmp_path: Path
) -> None:
    archive = make_sdk(tmp_path / "sdk")
    write_program(tmp_path / "path" / "gcloud", f"#!/bin/sh\necho '{tmp_path}/sdk'\n")
    assert str(archive) in find_emulator(environment, tmp_path)


def test_the_emulator_of_firebase_comes_before_a_fetched_one(
    environment: dict[str, str], tmp_path: Path
) -> None:
    fetched = make_archive_file(tmp_path / "programs" / ARCHIVE_NAME)
    assert str(fetched) in find_emulator(environment, tmp_path / "programs")
    archive = make_archive_file(
        tmp_path / "home" / ".cache" / "firebase" / "emulators" / ARCHIVE_NAME
    )
    assert str(archive) in find_emulator(environment, tmp_path / "programs")


def test_java_home_comes_before_the_path(environment: dict[str, str], tmp_path: Path) -> None:
    make_archive_file(tmp_path / ARCHIVE_NAME)
    java = write_program(tmp_path / "jdk" / "bin" / "java", make_java(17))
    command = find_emulator(environment | {"JAVA_HOME": f"{tmp_path}/jdk"}, tmp_path)
    assert command[0] == str(java)


def test_a_newer_java_on_the_path_beats_an_old_java_home(
    environment: dict[str, str], tmp_path: Path
) -> None:
    make_archive_file(tmp_path / ARCHIVE_NAME)
    write_program(tmp_path / "jdk" / "bin" / "java", make_java(8))
    command = find_emulator(environment | {"JAVA_HOME": f"{tmp_path}/jdk"}, tmp_path)
    assert command[0] == f"{tmp_path}/path/java"


def test_an_emulator_that_needs_a_newer_java_says_so(
    environment: dict[str, str], tmp_path: Path
) -> None:
    archive = make_archive_file(tmp_path / ARCHIVE_NAME, required_java=21)
    with pytest.raises(EmulatorMissing) as failure:
        find_emulator(environment, tmp_path)
    assert str(failure.value) == f"Java 21 or newer is missing, which {archive} needs."
