"""Python environments for bundles, none of which can import the checkout."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from hashlib import sha256
from pathlib import Path

import click

from shared.core.errors import InvalidInput


def install_environment(requirements: bytes, environments: Path) -> Path:
    """Return the Python of an environment with these requirements, after creating it if necessary.

    An environment is named by its requirements, appears only when it is complete, and does not
    change. Two concurrent callers must not request the same environment.

    Args:
        requirements: The text of a `requirements.txt` with hashes.
        environments: The folder of all environments.

    Raises:
        InvalidInput: The requirements cannot be installed.
    """
    key = _compute_key(requirements)
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
    return folder / "bin" / "python"


def link_environment(environments: Path) -> Path:
    """Return the Python of an environment with the packages of the tests, but not the checkout.

    The checkout is installed by a `.pth` file, and Python reads such files only in the folders of
    its own environment. Tests that ran bundles with it ran the checkout instead of the bundle.

    Args:
        environments: The folder of all environments.
    """
    packages = sysconfig.get_path("purelib")
    key = _compute_key(packages.encode())
    folder = environments / key
    if not folder.exists():
        unfinished_folder = environments / f"{key}.unfinished"
        venv.create(unfinished_folder, clear=True, symlinks=True)
        [own_packages] = unfinished_folder.glob("lib/python*/site-packages")
        (own_packages / "packages.pth").write_text(packages + "\n", "utf-8")
        unfinished_folder.rename(folder)
    return folder / "bin" / "python"


def _compute_key(requirements: bytes) -> str:
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
