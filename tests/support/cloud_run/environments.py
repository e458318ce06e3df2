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


def environment(requirements: bytes, kept: Path) -> Path:
    """Return the Python of an environment with these requirements, created if it does not exist.

    Environments are named by what they hold, made whole or not at all, and never changed but for
    their time, which is that of the last call; two callers at once must not make the same one.

    Args:
        requirements: The text of a `requirements.txt` with hashes.
        kept: The folder of environments.

    Raises:
        InvalidInput: They cannot be installed.
    """
    key = environment_key(requirements)
    folder = kept / key
    if not folder.exists():
        count = requirements.count(b"==")
        click.echo(f"Installing {count} packages into an environment of its own ...", err=True)
        unfinished_folder = kept / f"{key}.unfinished"
        shutil.rmtree(unfinished_folder, ignore_errors=True)
        _uv("venv", "--relocatable", "--python", sys.executable, str(unfinished_folder))
        # As pip does, so that functions that start at once do not all compile the same modules.
        options = ["--require-hashes", "--compile-bytecode", "--python", str(unfinished_folder)]
        _uv("pip", "sync", *options, "-", given=requirements)
        unfinished_folder.rename(folder)
    os.utime(folder)
    return folder / "bin" / "python"


def environment_key(requirements: bytes) -> str:
    """Return the name of an environment for these requirements."""
    return sha256(f"{sys.executable} {sys.version}".encode() + requirements).hexdigest()[:16]


def _uv(*arguments: str, given: bytes = b"") -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", *arguments, "--quiet"],
        input=given,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip()
        raise InvalidInput(
            "What functions need cannot be installed. The first time, and when it has changed, it"
            f" comes over the network: is there one?\n{errors}"
        )
