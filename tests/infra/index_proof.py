"""A pytest plugin: the suite fails when `firestore.indexes.json` and its queries don't agree.

Every query of a full run is recorded, in this process, in xdist's workers and in the functions
that tests start. Query builders can list what they build, so that the proof doesn't depend on the
branches that tests happen to take: a module of shared/store may define
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

from infra.deploy.index_check import Verdict, check
from infra.deploy.index_file import IndexFile
from infra.deploy.query_recorder import (
    DIRECTORY_VARIABLE,
    record_to_directory,
    shapes_in,
    shapes_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.deploy.query_shape import QueryShape

CLOUD_DIMENSION: Final = 768
"""What the cloud's embedding model yields, and so what the file declares."""

_SELECTIONS: Final = (
    "keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly",
)  # fmt: skip
_VERDICT: Final = pytest.StashKey[Verdict]()


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
    path = config.rootpath / "firestore.indexes.json"
    file = IndexFile.parse(path.read_text() if path.exists() else "{}")
    recorded = shapes_in(Path(os.environ[DIRECTORY_VARIABLE]))
    verdict = check(recorded | _listed_shapes(config.rootpath), file, CLOUD_DIMENSION)
    config.stash[_VERDICT] = verdict
    if not verdict.holds:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what to change."""
    verdict = terminalreporter.config.stash.get(_VERDICT, None)
    if verdict and not verdict.holds:
        terminalreporter.section("firestore.indexes.json is wrong", red=True)
        terminalreporter.write_line(verdict.report())


def _is_full(config: pytest.Config) -> bool:
    if any(config.getoption(option, None) for option in _SELECTIONS):
        return False
    chosen = {(config.invocation_params.dir / argument).resolve() for argument in config.args}
    return chosen == {(config.rootpath / path).resolve() for path in config.getini("testpaths")}


def _listed_shapes(root: Path) -> frozenset[QueryShape]:
    client = AsyncClient(project="index-proof", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    modules = map(import_module, _store_modules(root))
    builders = [module.query_shapes for module in modules if hasattr(module, "query_shapes")]
    return shapes_of(query for build in builders for query in build(client))


def _store_modules(root: Path) -> Iterator[str]:
    for module in iter_modules([str(root / "shared" / "store")]):
        yield f"shared.store.{module.name}"
