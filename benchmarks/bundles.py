"""The deployed functions: the sizes of bundles and their environments, and their cold starts.

Usage: python -m benchmarks.bundles [ROUNDS]

There is one row for each distinct set of requirements, measured on one of its functions, the first
by name. The bundles are those of the cloud, without the local embedding model. A cold start is the
time from exec to the first successful GET of the function's health, on this machine, with an
emulator and compiled modules. The cloud adds its own time, for a machine, the image and the code.
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

from benchmarks.measurement import print_table
from infra.build.bundles import stage
from infra.file_lock import hold_lock
from infra.local.emulator import EmulatorMissing, run_emulator
from infra.local.processes import Program, start
from tests.support.cloud_run.archives import unpack
from tests.support.cloud_run.bundles import LAPTOP
from tests.support.cloud_run.cloud import GATEWAY
from tests.support.cloud_run.environments import environment
from tests.support.gateway_process import SECRET

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS: Final = 3
STAGED: Final = LAPTOP / "bench"
_MIB: Final = 1024 * 1024
_GIVEN: Final = {"ACCESS_SECRETS": json.dumps([SECRET]), "PUBLIC_URL": "http://localhost:8080"}


def cold_start(program: Program, path: str) -> float:
    """Seconds from the start of a function to its first health answer."""
    with ExitStack() as stack, httpx2.Client(headers={"host": "localhost:8080"}) as client:
        began = time.perf_counter()
        served = start(stack, program, log=STAGED / "log")
        while True:
            if served.process.poll() is not None:
                raise RuntimeError(f"{program.source} ended: see {STAGED / 'log'}")
            try:
                response = client.get(served.url + path)
            except httpx2.TransportError:
                time.sleep(0.002)
                continue
            taken = time.perf_counter() - began
            if response.json()["status"] not in {"ok", "degraded"}:  # the gateway misses its tools
                raise RuntimeError(response.text)
            return taken


def size(folder: Path) -> int:
    """Bytes of the files in a folder, without compiled Python files."""
    files = (path for path in folder.rglob("*") if path.suffix != ".pyc")
    return sum(path.lstat().st_size for path in files if path.is_file() or path.is_symlink())


def measured(archive: Path, name: str, rounds: int) -> list[str]:
    """Return a row of the table, without its first columns."""
    folder = STAGED / "unpacked" / archive.stem
    if not folder.exists():
        unpack(archive, folder, STAGED / "files")
    with hold_lock(LAPTOP / "lock"):
        python = environment((folder / "requirements.txt").read_bytes(), LAPTOP / "environments")
    given = {**_GIVEN, "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"]}
    program = Program(folder / "main.py", python, given, folder)
    path = "/health" if name == GATEWAY else "/"
    cold_start(program, path)
    taken = [cold_start(program, path) for _ in range(rounds)]
    sizes = (archive.stat().st_size / 1024, size(folder) / 1024, size(python.parents[1]) / _MIB)
    return [*(f"{size:.0f}" for size in sizes), f"{median(taken):.2f}"]


def main(rounds: int) -> None:
    """Pack all functions, and measure one for each distinct set of requirements."""
    manifest = stage(STAGED)["functions"]
    alike: dict[str, list[str]] = {}
    for key in manifest:
        text = (STAGED / key / "requirements.txt").read_text("utf-8")
        alike.setdefault(text, []).append(key)
    rows = []
    with ExitStack() as stack:
        os.environ["FIRESTORE_EMULATOR_HOST"] = stack.enter_context(run_emulator())
        for text, keys in alike.items():
            [first, *others] = keys
            entry = manifest[first]
            line = measured(STAGED / entry["bundle"], entry["name"], rounds)
            rows.append([first, str(len(others)), str(text.count("==")), *line])
    columns = ["archive KiB", "unpacked KiB", "installed MiB", "cold start s"]
    print_table("Bundles", ["function", "others like it", "packages", *columns], rows)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    except EmulatorMissing as error:
        sys.exit(str(error))
