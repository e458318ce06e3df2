"""The deployed functions: the sizes of their bundles and environments, and their cold starts.

Usage: python -m benchmarks.bundles [ROUNDS]

Functions with the same requirements share a row: the first of them by name is measured. The bundles
are those of the cloud, without the local embedding model. A cold start is the time from exec to the
first successful GET of the function's health check, on this machine, with an emulator and compiled
modules. In the cloud, starting the machine and loading the image and the code take additional time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Final

import httpx2

from benchmarks.emulator import use_emulator
from benchmarks.measurement import print_table
from infra.build.bundles import stage
from infra.file_lock import hold_lock
from infra.local.processes import Program, start
from tests.support.cloud_run.archives import unpack_archive
from tests.support.cloud_run.bundles import LAPTOP
from tests.support.cloud_run.cloud import GATEWAY
from tests.support.cloud_run.environments import install_environment
from tests.support.gateway_process import ACCESS_SECRET

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS: Final = 3
STAGING_FOLDER: Final = LAPTOP / "bench"
_RUNNING_STATUSES: Final = ("ok", "degraded")
"""The gateway reports `degraded` here, because it cannot reach its tools."""
_MIB: Final = 1024 * 1024
_ENVIRONMENT: Final = {
    "ACCESS_SECRETS": json.dumps([ACCESS_SECRET]),
    "PUBLIC_URL": "http://localhost:8080",
}


def measure_cold_start(program: Program, path: str) -> float:
    """Return the seconds from the start of a function to its first answer to a health check."""
    with ExitStack() as stack, httpx2.Client(headers={"host": "localhost:8080"}) as client:
        started = time.perf_counter()
        running = start(stack, program, log=STAGING_FOLDER / "log")
        while True:
            if running.process.poll() is not None:
                raise RuntimeError(f"{program.source} ended: see {STAGING_FOLDER / 'log'}")
            try:
                response = client.get(running.url + path)
            except httpx2.TransportError:
                time.sleep(0.002)
                continue
            elapsed = time.perf_counter() - started
            if response.json()["status"] not in _RUNNING_STATUSES:
                raise RuntimeError(response.text)
            return elapsed


def count_folder_bytes(folder: Path) -> int:
    """Return the bytes of the files in a folder, without compiled Python files."""
    files = (path for path in folder.rglob("*") if path.suffix != ".pyc")
    return sum(path.lstat().st_size for path in files if path.is_file() or path.is_symlink())


def measure_function(archive: Path, name: str, rounds: int) -> list[str]:
    """Measure a function, and return the last four cells of its row."""
    folder = STAGING_FOLDER / "unpacked" / archive.stem
    if not folder.exists():
        unpack_archive(archive, folder, STAGING_FOLDER / "files")
    with hold_lock(LAPTOP / "lock"):
        python = install_environment(
            (folder / "requirements.txt").read_bytes(), LAPTOP / "environments"
        )
    variables = {**_ENVIRONMENT, "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"]}
    program = Program(folder / "main.py", python, variables, folder)
    path = "/health" if name == GATEWAY else "/"
    measure_cold_start(program, path)
    cold_starts = [measure_cold_start(program, path) for _ in range(rounds)]
    sizes = (
        archive.stat().st_size / 1024,
        count_folder_bytes(folder) / 1024,
        count_folder_bytes(python.parents[1]) / _MIB,
    )
    return [*(f"{size:.0f}" for size in sizes), f"{median(cold_starts):.2f}"]


def main(rounds: int) -> None:
    """Build all bundles, and measure one function for each distinct set of requirements."""
    manifest = stage(STAGING_FOLDER)["functions"]
    functions_by_requirements: dict[str, list[str]] = {}
    for key in manifest:
        requirements = (STAGING_FOLDER / key / "requirements.txt").read_text("utf-8")
        functions_by_requirements.setdefault(requirements, []).append(key)
    rows = []
    with ExitStack() as stack:
        stack.enter_context(use_emulator())
        for requirements, keys in functions_by_requirements.items():
            [first, *others] = keys
            entry = manifest[first]
            cells = measure_function(STAGING_FOLDER / entry["bundle"], entry["name"], rounds)
            rows.append([first, str(len(others)), str(requirements.count("==")), *cells])
    columns = ["archive KiB", "unpacked KiB", "installed MiB", "cold start s"]
    print_table("Bundles", ["function", "same requirements", "packages", *columns], rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
