"""Writes constraints.txt, which pins the newest compatible versions of all dependencies.

`make lock` runs this module with the oldest Python that Carrel supports, because versions that a
newer Python selects may not install on the oldest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ROOT: Final = Path(__file__).parents[2]
CONSTRAINTS: Final = ROOT / "constraints.txt"
HEADER: Final = (
    "# What `make` installs. Written by `make lock`; the ranges are in pyproject.toml.\n"
    "#\n"
    "# To run Carrel:\n"
)
"""The beginning of the file."""
DEV_HEADER: Final = "# To test and check it, as well:\n"
"""The line between the distributions to run Carrel and those only for development."""


def main() -> None:
    """Resolve the dependencies, including the extra `dev`, and write constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    _require_oldest_python(".".join(oldest.split(".")[:2]))
    pins = _resolve(".[dev]")
    temporary = CONSTRAINTS.with_suffix(".temporary")
    temporary.write_text(format_constraints(pins, _resolve(".").keys()))
    temporary.replace(CONSTRAINTS)
    print(f"constraints.txt: {len(pins)} versions")  # noqa: T201 - a command's answer


def format_constraints(pins: Mapping[str, str], run_names: Collection[str]) -> str:
    """Format constraints.txt.

    Args:
        pins: The versions of all distributions by name.
        run_names: The names of the distributions that are needed to run Carrel.
    """
    names = sorted(pins, key=str.lower)
    run_lines = [f"{name}=={pins[name]}\n" for name in names if name in run_names]
    dev_lines = [f"{name}=={pins[name]}\n" for name in names if name not in run_names]
    return "".join([HEADER, *run_lines, DEV_HEADER, *dev_lines])


def _require_oldest_python(oldest: str) -> None:
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    if current != oldest:
        sys.exit(
            f"Lock with Python {oldest}, not {current}: make lock PYTHON=/path/to/python{oldest}"
        )


def _resolve(project: str) -> dict[str, str]:
    """Resolve the version of each distribution that `.` or `.[dev]` installs, by name."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        report = Path(folder) / "report.json"
        command = [f"{folder}/bin/python", "-m", "pip", "install", "-qq", "--dry-run"]
        subprocess.run(  # noqa: S603 - pip
            [*command, "--report", str(report), project],
            cwd=ROOT,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=True,
        )
        items = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {item["name"]: item["version"] for item in items if item["name"] != "carrel"}


if __name__ == "__main__":
    main()
