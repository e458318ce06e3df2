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
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CONSTRAINTS: Final = ROOT / "constraints.txt"
HEADER: Final = (
    "# What `make` installs. Written by `make lock`; the ranges stand in pyproject.toml.\n"
)


def main() -> None:
    """Resolve the `dev` extra, which includes all others, and write what came out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    _require_oldest_python(".".join(oldest.split(".")[:2]))
    pins = [pin for pin in _resolve() if not pin.startswith(f"{project['name']}==")]
    lines = "".join(f"{pin}\n" for pin in sorted(pins, key=str.lower))
    unfinished = CONSTRAINTS.with_suffix(".unfinished")
    unfinished.write_text(HEADER + lines)
    unfinished.replace(CONSTRAINTS)
    print(f"constraints.txt: {len(pins)} versions")  # noqa: T201 - a command's answer


def _require_oldest_python(oldest: str) -> None:
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != oldest:
        sys.exit(
            f"Lock with Python {oldest}, not {running}: make lock PYTHON=/path/to/python{oldest}"
        )


def _resolve() -> list[str]:
    """Every distribution that `.[dev]` needs, as name==version, the project's own included."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        report = Path(folder) / "report.json"
        command = [f"{folder}/bin/python", "-m", "pip", "install", "-qq", "--dry-run"]
        subprocess.run(  # noqa: S603 - pip
            [*command, "--report", str(report), ".[dev]"],
            cwd=ROOT,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=True,
        )
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return [f"{metadata['name']}=={metadata['version']}" for metadata in found]


if __name__ == "__main__":
    main()
