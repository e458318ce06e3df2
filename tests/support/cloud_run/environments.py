"""Python environments with exactly the requirements of a bundle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import click

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


def install_environment(requirements: bytes, environments: Path) -> Path:
    """Return the Python of an environment with these requirements, after creating it if necessary.

    An environment is named by its requirements, appears only when it is complete, and does not
    change. Its modification time is the time of the last call. Two concurrent callers must not
    request the same environment.

    Args:
        requirements: The text of a `requirements.txt` with hashes.
        environments: The folder of all environments.

    Raises:
        InvalidInput: The requirements cannot be installed.
    """
    key = compute_environment_key(requirements)
    folder = environments / key
    if not folder.exists():
        count = requirements.count(b"==")
        click.echo(f"Installing {count} packages into an environment of its own ...", err=True)
        unfinished_folder = environments / f"{key}.unfinished"
        shutil.rmtree(unfinished_folder, ignore_errors=True)
        _run_uv("venv", "--relocatable", "--python", sys.executable, str(unfinished_folder))
        # Compile modules as pip does. Otherwise, functions that start together would all do it.
        options = ["--require-hashes", "--compile-bytecode", "--python", str(unfinished_folder)]
        _run_uv("pip", "sync", *options, "-", stdin=requirements)
        unfinished_folder.rename(folder)
    os.utime(folder)
    return folder / "bin" / "python"


def compute_environment_key(requirements: bytes) -> str:
    """Return the name of an environment for these requirements."""
    return sha256(f"{sys.executable} {sys.version}".encode() + requirements).hexdigest()[:16]


def _run_uv(*arguments: str, stdin: bytes = b"") -> None:
    process = subprocess.run(
        [sys.executable, "-m", "uv", *arguments, "--quiet"],
        input=stdin,
        capture_output=True,
        check=False,
    )
    if process.returncode:
        errors = process.stderr.decode(errors="replace").strip()
        raise InvalidInput(
            "The requirements of the functions cannot be installed. The first installation, and"
            f" every one after they have changed, needs the network.\n{errors}"
        )
