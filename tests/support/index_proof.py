"""A pytest plugin that fails the suite if queries need an index that the index files do not have.

`infra.build.index_proof` checks the shapes of queries that repositories list. This plugin checks
the queries that tests really send: in this process, in xdist's workers, and in the functions that
tests start.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import pytest

from infra.build.index_check import IndexVerdict
from infra.build.index_proof import check_files, load_shapes
from infra.local import processes
from tests.support.query_recorder import DIRECTORY_VARIABLE, read_shapes, record_to_directory

_VERDICTS: Final = pytest.StashKey[dict[str, IndexVerdict]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record queries in a directory whose name xdist's workers inherit."""
    if not hasattr(config, "workerinput"):
        directory = tempfile.TemporaryDirectory(prefix="carrel-queries-")
        config.add_cleanup(directory.cleanup)
        os.environ[DIRECTORY_VARIABLE] = directory.name
    record_to_directory()
    processes.launcher = Path(__file__).with_name("recorded_function.py")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare queries and indexes after a run that passed."""
    config = session.config
    if exitstatus != pytest.ExitCode.OK or hasattr(config, "workerinput"):
        return
    shapes = read_shapes(Path(os.environ[DIRECTORY_VARIABLE])) | load_shapes(config.rootpath)
    verdicts = config.stash[_VERDICTS] = check_files(shapes, config.rootpath)
    if not all(verdict.is_correct for verdict in verdicts.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the necessary changes of the index files."""
    for name, verdict in terminalreporter.config.stash.get(_VERDICTS, {}).items():
        if not verdict.is_correct:
            terminalreporter.section(f"{name} is wrong", red=True)
            terminalreporter.write_line(verdict.report())
