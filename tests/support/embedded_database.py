"""The embedded Firestore for tests, in this process and as a server for others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from google.cloud.firestore import AsyncClient

from infra.build.discovery import ROOT
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions
from infra.local.local_database import INDEX_FILES
from shared.core.target import Target, TargetKind, choose_target
from tests.support.firestore_server import read_definitions

ANY_INDEX: Final = Definitions(builds_missing=True)
_FOLDER: Final = "CARREL_EMBEDDED_TESTS"
"""The environment variable that names the folder of a run, for pytest's workers."""


@contextmanager
def open_any_index(folder: Path) -> Iterator[Databases]:
    """Open the databases of a folder, which have any index that a query needs."""
    databases = Databases(folder, lambda _: ANY_INDEX, durable=False)
    yield databases
    databases.close()


@contextmanager
def serve(folder: Path, *arguments: str) -> Iterator[str]:
    """Serve the databases of a folder from another process, and yield the address."""
    command = [sys.executable, "-m", "tests.support.firestore_server", "--fast"]
    with subprocess.Popen(
        [*command, f"--folder={folder}", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def serve_any_index() -> Iterator[str]:
    """Serve empty databases that have any index, and yield the address."""
    with TemporaryDirectory() as folder, serve(Path(folder), "--build-missing") as address:
        yield address


@contextmanager
def serve_index_files() -> Iterator[str]:
    """Serve empty databases with the indexes of Carrel's, and yield the address.

    Connections of this process and of pytest's workers open the same files by themselves, once
    `connect_in_process` was called.
    """
    with TemporaryDirectory(prefix="carrel-embedded-") as folder:
        os.environ[_FOLDER] = folder
        files = [_write_index_file(file, Path(folder)) for file in INDEX_FILES.values()]
        with serve(Path(folder), "--indexes", *map(str, files)) as address:
            yield address


def get_run_folder() -> Path | None:
    """Return the folder with the databases of this run, or None if it uses no such databases."""
    folder = os.environ.get(_FOLDER)
    return Path(folder) if folder else None


def _write_index_file(file: Path, folder: Path) -> Path:
    """Write a copy of an index file, in which vectors of any dimension are indexed.

    No document expires: tests pin their clocks, and the database's is the system's.
    """
    content = json.loads(file.read_text("utf-8"))
    for override in content["fieldOverrides"]:
        override.pop("ttl", None)
    for entries in (content["indexes"], content["fieldOverrides"]):
        # The corpus of `tests.support.jottings` is searched as chunks are.
        for group, copy_of in (("jottings", "chunks"), ("jotting_facets", "facets")):
            copied = [entry for entry in entries if entry["collectionGroup"] == copy_of]
            entries += [entry | {"collectionGroup": group} for entry in copied]
    copy = folder / file.name
    copy.write_text(json.dumps(content).replace('"dimension": 768', '"dimension": 0'))
    return copy


@cache
def _open_run_databases() -> Databases:
    folder = Path(os.environ[_FOLDER])
    definitions = read_definitions([folder / file.name for file in INDEX_FILES.values()], None)
    return Databases(
        folder, lambda name: definitions.get(name, definitions["(default)"]), durable=False
    )


def connect_in_process() -> None:
    """Let Carrel's connections of this process use the run's databases without a server."""

    def make_client(project: str, database: str) -> AsyncClient:
        return _open_run_databases().make_client(project, database)

    choose_target(Target(TargetKind.EMBEDDED, make_client))


def close_in_process() -> None:
    """Close what this process has open of the run's databases; the next call opens it again."""
    if _open_run_databases.cache_info().currsize:
        _open_run_databases().close()
