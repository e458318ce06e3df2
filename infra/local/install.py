"""Installs this project's dependencies into the current environment, and shows progress.

Usage: python -m infra.local.install [dev]

With `dev`, the packages that only tests and checks need are installed, too.

uv installs if it is on PATH or if this environment has no pip. It takes seconds and shows its own
progress. Otherwise, or if uv fails, pip installs. pip prints either nothing or several lines for
each of a hundred packages, so this module reads pip's output and shows progress instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from infra.local.constraints import CONSTRAINTS, ROOT, count_distributions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PIP: Final = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check")
"""The command that installs packages for this Python with pip."""
_UV_ARGUMENTS: Final = ("pip", "install", "--python", sys.executable)
"""The arguments with which uv installs packages for this Python."""
_FETCHING: Final = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([^/\s-]+)-\S+\.whl(?!\S)( \(.+? .B\))?"
)
"""Matches pip's line about a wheel that it fetches. The groups are the package's name and, for a
download, its size."""
_COLLECTING: Final = re.compile(r"\s*Collecting ([\w.-]+)")
"""Matches pip's line about a package for which it is choosing a version."""
_SATISFIED: Final = re.compile(r"Requirement already satisfied: ([\w.-]+)()")
"""Matches pip's line about a package that is already installed. The second group, the size, is
empty."""
_PACKAGES_PER_LINE: Final = 10
"""Without a terminal, a line of progress is printed after this many packages."""
_POLL_SECONDS: Final = 0.2
"""While pip installs, this module counts the installed packages again after so many seconds."""
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
            _run_pip(arguments, count_distributions(is_dev=is_dev))
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


def _run_pip(arguments: list[str], total: int) -> None:
    """Run pip. If it fails, exit with its errors."""
    options = [
        "--require-virtualenv",  # in a damaged .venv, python is the system's
        "--no-compile",  # Python compiles the few modules that it imports; all take 20 seconds
        *("--progress-bar", "off"),
    ]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(  # noqa: S603 - pip
            [*PIP, *options, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as pip:
            _print_progress(track_progress(pip, total))
        if pip.returncode:
            errors.seek(0)
            sys.exit(f"{errors.read()}{_FAILURE_ADVICE}")


class PipProgress(NamedTuple):
    """How far pip is.

    Attributes:
        step: What pip does now, in words.
        finished: The number of packages for which the step is done.
        total: The number of packages for which the step is to be done.
        detail: The current package, for the end of the line, or an empty string.
    """

    step: str
    finished: int
    total: int
    detail: str = ""


def track_progress(pip: subprocess.Popen[str], total: int) -> Iterator[PipProgress]:
    """Read pip's output, and yield its progress.

    Args:
        pip: The running process.
        total: The expected number of packages. If pip handles more, for example after a dependency
            was added without `make lock`, the total of the yielded progress grows with them.
    """
    collected: set[str] = set()
    fetched: set[str] = set()
    assert pip.stdout  # noqa: S101 - for mypy
    for line in pip.stdout:
        # If the index does not serve metadata separately, pip fetches packages while it chooses.
        if not fetched and (package := _COLLECTING.match(line)):
            collected.add(package[1])
            yield PipProgress(
                "Choosing packages", len(collected), max(total, len(collected)), f": {package[1]}"
            )
        elif package := _FETCHING.match(line) or _SATISFIED.match(line):
            name, size = package.groups("")
            fetched.add(name)
            yield PipProgress(
                "Fetching packages", len(fetched), max(total, len(fetched)), f": {name}{size}"
            )
        elif line.startswith("Installing collected packages"):
            package_count = line.count(",") + 1  # the line lists the packages
            count_before = _count_installed()
            # The remaining output is read and discarded, because a full pipe would block pip.
            reader = threading.Thread(target=pip.stdout.read, daemon=True)
            reader.start()
            while reader.is_alive():
                installed = _count_installed() - count_before
                yield PipProgress("Installing packages", installed, package_count)
                reader.join(_POLL_SECONDS)


def _count_installed() -> int:
    """Count the packages in this environment."""
    return sum(1 for _ in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def _print_progress(updates: Iterator[PipProgress]) -> None:
    """Print progress on one line of a terminal, or else as a line for every ten packages."""
    latest = ""
    for progress in updates:
        is_due = progress.finished % _PACKAGES_PER_LINE == 0 or progress.finished == progress.total
        text = f"  {progress.step}: {progress.finished} of {progress.total}"
        if sys.stdout.isatty():
            print(f"\r\x1b[2K{text}{progress.detail}", end="", flush=True)
        elif text != latest and is_due:
            print(text, flush=True)
        latest = text
    if latest and sys.stdout.isatty():
        print()


if __name__ == "__main__":
    main()
