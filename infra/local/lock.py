"""Write constraints.txt: the versions that a fresh install of everything resolves to today.

Run by `make lock`. The oldest Python that Carrel supports resolves for all of them, since what a
newer one chooses may not install on it.
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
    "# What `make` installs. Written by `make lock`; the ranges stand in pyproject.toml.\n"
    "#\n"
    "# To run Carrel:\n"
)
DEV_HEADER: Final = "# To test and check it, as well:\n"


def main() -> None:
    """Resolve the `dev` extra, which includes all others, and write what came out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    _require_oldest_python(".".join(oldest.split(".")[:2]))
    pins = _resolve("dev")
    unfinished = CONSTRAINTS.with_suffix(".unfinished")
    unfinished.write_text(layout(pins, _resolve("local").keys()))
    unfinished.replace(CONSTRAINTS)
    print(f"constraints.txt: {len(pins)} versions")  # noqa: T201 - a command's answer


def layout(pins: Mapping[str, str], running: Collection[str]) -> str:
    """The text of constraints.txt, from versions by name and the names that running needs."""
    names = sorted(pins, key=str.lower)
    run = [f"{name}=={pins[name]}\n" for name in names if name in running]
    dev = [f"{name}=={pins[name]}\n" for name in names if name not in running]
    return "".join([HEADER, *run, DEV_HEADER, *dev])


def count(extra: str) -> int:
    """How many distributions an extra installs: `local`, or `dev`, which is all."""
    text = CONSTRAINTS.read_text()
    return (text if extra == "dev" else text.partition(DEV_HEADER)[0]).count("==")


def _require_oldest_python(oldest: str) -> None:
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != oldest:
        sys.exit(
            f"Lock with Python {oldest}, not {running}: make lock PYTHON=/path/to/python{oldest}"
        )


def _resolve(extra: str) -> dict[str, str]:
    """The version of every distribution that an extra needs, by name."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        report = Path(folder) / "report.json"
        command = [f"{folder}/bin/python", "-m", "pip", "install", "-qq", "--dry-run"]
        subprocess.run(  # noqa: S603 - pip
            [*command, "--report", str(report), f".[{extra}]"],
            cwd=ROOT,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=True,
        )
        items = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {item["name"]: item["version"] for item in items if item["name"] != "carrel"}


if __name__ == "__main__":
    main()
