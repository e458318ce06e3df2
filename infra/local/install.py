"""Installs an extra of this project into the environment that runs this, and says how far it is.

Usage: python -m infra.local.install local|dev

pip itself prints nothing, or some lines for each of a hundred packages.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.local.lock import CONSTRAINTS, ROOT, count

if TYPE_CHECKING:
    from collections.abc import Iterator

PURPOSES: Final = {"local": "Carrel needs to run", "dev": "tests and checks need"}
_WHEEL: Final = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([^/\s-]+)-\S+\.whl(?!\S)( \(.+? .B\))?"
)
_PRESENT: Final = re.compile(r"Requirement already satisfied: ([\w.-]+)()")
_LINE_EVERY: Final = 10
"""Where the output is no terminal, a line is printed for so many packages."""
_LOOK_SECONDS: Final = 0.2
_INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C ended."""


def main() -> None:
    """Install, and stop in a sentence when interrupted."""
    try:
        _run_pip()
    except KeyboardInterrupt:
        message = "\nThe installation was interrupted. Run the same command again to finish it."
        print(message, file=sys.stderr)  # noqa: T201
        sys.exit(_INTERRUPTED)


def _run_pip() -> None:
    """Run pip; where it fails, print what it says and fail."""
    [extra] = sys.argv[1:]
    print(f"Installing what {PURPOSES[extra]} into .venv ...", flush=True)  # noqa: T201
    # The python of a damaged .venv is the machine's own: pip must not take it for ours.
    command = [sys.executable, "-m", "pip", "--require-virtualenv", "install"]
    options = ["--disable-pip-version-check", "--progress-bar", "off", "-c", str(CONSTRAINTS)]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(  # noqa: S603 - pip
            [*command, *options, "-e", f".[{extra}]"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as pip:
            _print_progress(progress(pip, count(extra)))
        if pip.returncode:
            errors.seek(0)
            sys.exit(errors.read() or f"pip failed ({pip.returncode}).")


def progress(pip: subprocess.Popen[str], total: int) -> Iterator[tuple[str, int, int, str]]:
    """What pip is doing: with how many packages, of how many, and with which now."""
    fetched: set[str] = set()
    assert pip.stdout  # noqa: S101 - for mypy
    for line in pip.stdout:
        if package := _WHEEL.match(line) or _PRESENT.match(line):
            name, size = package.groups("")
            fetched.add(name)
            yield "Fetching packages", len(fetched), max(total, len(fetched)), f": {name}{size}"
        elif line.startswith("Installing collected packages"):
            new = line.count(",") + 1
            before = _installed()
            # What else pip prints is discarded, but read: a full pipe would stop pip.
            rest = threading.Thread(target=pip.stdout.read, daemon=True)
            rest.start()
            while rest.is_alive():
                yield "Installing packages", _installed() - before, new, ""
                rest.join(_LOOK_SECONDS)


def _installed() -> int:
    return sum(1 for _ in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def _print_progress(steps: Iterator[tuple[str, int, int, str]]) -> None:
    latest = ""
    for step, number, total, detail in steps:
        text = f"  {step}: {number} of {total}"
        if sys.stdout.isatty():
            print(f"\r\x1b[2K{text}{detail}", end="", flush=True)  # noqa: T201
        elif text != latest and number % _LINE_EVERY == 0:
            print(text, flush=True)  # noqa: T201
        latest = text
    if latest and sys.stdout.isatty():
        print()  # noqa: T201


if __name__ == "__main__":
    main()
