"""The npm packages of tests: locked, and installed once for this clone."""

from __future__ import annotations

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


class NotInstalled(Exception):
    """It cannot be installed here; the message says why."""


def installed(package: Path) -> Path:
    """Install what a package's lock file says, unless that was done before.

    Args:
        package: The folder of `package.json` and its lock file. Nothing is written there.

    Returns:
        The folder that holds `node_modules`: one per lock file, beside what local runs keep.

    Raises:
        NotInstalled: npm is missing or refuses.
    """
    lock = (package / "package-lock.json").read_bytes()
    folder = STATE / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists():
        _install(package, folder)
    return folder


def _install(package: Path, folder: Path) -> None:
    """Install elsewhere first: another process may be doing the same, or this one be stopped."""
    npm = shutil.which("npm")
    if not npm:
        raise NotInstalled("npm is missing: install Node.js, of whatever version.")
    click.echo(f"Installing what {package.name} needs from npm ...")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as name:
        made = Path(name) / "made"
        shutil.copytree(package, made, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        _npm_ci(npm, made)
        with suppress(OSError):  # the other process was faster
            made.rename(folder)


def _npm_ci(npm: str, folder: Path) -> None:
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
