"""Installs this project's dependencies into the current environment.

Usage: python -m infra.local.install [dev]

With `dev`, the packages that only tests and checks need are installed, too.

uv installs if it is on PATH or if this environment has no pip, because it takes seconds. Otherwise,
or if uv fails, pip installs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
CONSTRAINTS: Final = ROOT / "constraints.txt"
PIP: Final = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check")
"""The command that installs packages for this Python with pip."""
_UV_ARGUMENTS: Final = ("pip", "install", "--python", sys.executable)
"""The arguments with which uv installs packages for this Python."""
_FAILURE_ADVICE: Final = (
    "The installation failed. Check the network (behind a proxy, set HTTPS_PROXY) and the disk (600"
    " MB are needed), and run the same command again."
)
_INTERRUPTED_STATUS: Final = 130
"""The conventional exit status after Ctrl-C."""


def main() -> None:
    """Install the dependencies. After an interrupt, exit with a message."""
    is_dev = sys.argv[1:] == ["dev"]
    arguments = ["-c", str(CONSTRAINTS), "-e", f"{ROOT}[dev]" if is_dev else str(ROOT)]
    purpose = "to test and check Carrel" if is_dev else "to run Carrel"
    print(f"Installing the packages {purpose} into .venv ...", flush=True)
    try:
        if not _run_uv(arguments):
            _run_pip(arguments)
    except KeyboardInterrupt:
        message = "\nThe installation was interrupted. Run the same command again to finish it."
        print(message, file=sys.stderr)
        sys.exit(_INTERRUPTED_STATUS)


def find_installer(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the command that installs packages for this Python.

    It is the uv on PATH, else this environment's pip, else this environment's uv.
    """
    uv = shutil.which("uv", path=environ.get("PATH", ""))
    if uv:
        return (uv, *_UV_ARGUMENTS)
    # An environment that uv created has no pip, but contains uv, on which Carrel depends.
    return PIP if find_spec("pip") else (sys.executable, "-m", "uv", *_UV_ARGUMENTS)


def _run_uv(arguments: list[str]) -> bool:
    """Run uv if it is the installer, and return whether it installed everything."""
    command = find_installer()
    if command == PIP:
        return False
    is_installed = not subprocess.run([*command, *arguments], check=False).returncode  # noqa: S603 - uv
    if not is_installed:
        # pip may be configured with a proxy, a mirror or a certificate that uv does not know.
        print("uv failed, see above. Trying pip ...", flush=True)
    return is_installed


def _run_pip(arguments: list[str]) -> None:
    """Run pip. If it fails, exit with advice."""
    options = [
        "--require-virtualenv",  # in a damaged .venv, python is the system's
        "--no-compile",  # Python compiles the few modules that it imports; all take 20 seconds
    ]
    if subprocess.run([*PIP, *options, *arguments], check=False).returncode:  # noqa: S603 - pip
        sys.exit(_FAILURE_ADVICE)


if __name__ == "__main__":
    main()
