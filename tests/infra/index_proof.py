"""A pytest plugin: the suite fails when a database's queries and its file of indexes don't agree.

Every query of a full run is recorded, in this process, in xdist's workers and in the functions
that tests start. Query builders can list what they build, so that the proof doesn't depend on the
branches that tests happen to take: a module of shared/store that queries defines
`query_shapes(client: AsyncClient)`, which yields one query object, not run, for each shape.
"""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient

from infra.deploy.functions import ACCESS
from infra.deploy.index_check import Verdict, check
from infra.deploy.index_file import IndexFile
from infra.deploy.query_recorder import (
    DIRECTORY_VARIABLE,
    record_to_directory,
    shapes_in,
    shapes_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.deploy.query_shape import QueryShape

CLOUD_DIMENSION: Final = 768
"""What the cloud's embedding model yields, and so what the file declares."""

_SELECTIONS: Final = (
    "keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly",
)  # fmt: skip
FILES: Final[dict[str, Callable[[str], bool]]] = {
    "firestore.indexes.json": lambda database: database != ACCESS,
    "infra/deploy/access.indexes.json": lambda database: database == ACCESS,
}
"""Which file declares the indexes of which databases; tests have some more like the first."""
_VERDICTS: Final = pytest.StashKey[dict[str, Verdict]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start recording; xdist's workers inherit the directory."""
    if not hasattr(config, "workerinput"):
        directory = tempfile.TemporaryDirectory(prefix="carrel-queries-")
        config.add_cleanup(directory.cleanup)
        os.environ[DIRECTORY_VARIABLE] = directory.name
    record_to_directory()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare, after a full run that passed: any other may have left queries out."""
    config = session.config
    if exitstatus != pytest.ExitCode.OK or hasattr(config, "workerinput") or not _is_full(config):
        return
    shapes = shapes_in(Path(os.environ[DIRECTORY_VARIABLE])) | _listed_shapes(config.rootpath)
    verdicts = config.stash[_VERDICTS] = {}
    for name, holds in FILES.items():
        path = config.rootpath / name
        file = IndexFile.parse(path.read_text() if path.exists() else "{}")
        asked = [shape for shape in shapes if holds(shape.database)]
        verdicts[name] = check(asked, file, CLOUD_DIMENSION)
    if not all(verdict.holds for verdict in verdicts.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what to change."""
    for name, verdict in terminalreporter.config.stash.get(_VERDICTS, {}).items():
        if not verdict.holds:
            terminalreporter.section(f"{name} is wrong", red=True)
            terminalreporter.write_line(verdict.report())


def _is_full(config: pytest.Config) -> bool:
    if any(config.getoption(option, None) for option in _SELECTIONS):
        return False
    chosen = {(config.invocation_params.dir / argument).resolve() for argument in config.args}
    return chosen == {(config.rootpath / path).resolve() for path in config.getini("testpaths")}


def _listed_shapes(root: Path) -> frozenset[QueryShape]:
    return frozenset().union(
        _shapes_listed_in(root, "shared.store", "(default)"),
        _shapes_listed_in(root, "shared.store.access", ACCESS),
    )


def _shapes_listed_in(root: Path, package: str, database: str) -> frozenset[QueryShape]:
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    client = AsyncClient(project="index-proof", database=database, credentials=credentials)
    found = iter_modules([str(root.joinpath(*package.split(".")))])
    modules = [import_module(f"{package}.{each.name}") for each in found]
    builders = [module.query_shapes for module in modules if hasattr(module, "query_shapes")]
    return shapes_of(query for build in builders for query in build(client))
