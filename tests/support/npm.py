"""Installs the npm packages that tests use, once per clone and lock file."""

import hashlib
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from infra.local.local_database import STATE

INSTALL_SECONDS: Final = 300
"""The time limit of an installation."""


class NotInstalled(Exception):
    """A package cannot be installed here; the message says why."""


def install_packages(package: Path) -> Path:
    """Install the packages of a lock file, unless they are installed.

    Args:
        package: The folder of `package.json` and its lock file. Nothing is written there.

    Returns:
        The folder with `node_modules`: one for each lock file, in the state folder of local runs.

    Raises:
        NotInstalled: npm is missing, fails, or takes too long.
    """
    lock = (package / "package-lock.json").read_bytes()
    folder = STATE / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists():
        _install(package, folder)
    return folder


def _install(package: Path, folder: Path) -> None:
    """Install the packages of a folder.

    They are installed into a temporary folder first: another process may install the same packages,
    and this process may be stopped.
    """
    npm = shutil.which("npm")
    if not npm:
        raise NotInstalled("npm is missing. Install any version of Node.js.")
    click.echo(f"Installing the npm packages of {package.name} ...")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as name:
        unfinished_folder = Path(name) / "unfinished"
        ignored = shutil.ignore_patterns("*.py", "__pycache__")
        shutil.copytree(package, unfinished_folder, ignore=ignored)
        _run_npm_ci(npm, unfinished_folder)
        with suppress(OSError):  # another process was faster
            unfinished_folder.rename(folder)


def _run_npm_ci(npm: str, folder: Path) -> None:
    try:
        subprocess.run(
            [npm, "ci"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        raise NotInstalled(f"npm ci failed:\n{error.stderr}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"npm ci took longer than {INSTALL_SECONDS} s.") from error
