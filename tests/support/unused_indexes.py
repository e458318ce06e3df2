"""A pytest plugin that fails a complete run if no query needed one of the declared indexes.

On the embedded Firestore, a query whose index is not declared fails. A declared index is built when
a query first needs it, so the database files of a run show which ones any process has used. A
vector index is stored without the fields of its filter, so the two count as one.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw
import pytest

from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.local_database import INDEX_FILES
from tests.support.embedded_database import get_run_folder

_UNUSED: Final = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a complete run ask for the check."""
    parser.addoption("--check-unused-indexes", action="store_true", help="for a complete run")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Look for unused indexes after a whole run that passed."""
    folder = get_run_folder()
    is_controller = not hasattr(session.config, "workerinput")
    is_asked = is_controller and session.config.option.check_unused_indexes
    if exitstatus == pytest.ExitCode.OK and folder and is_asked:
        unused = session.config.stash[_UNUSED] = find_unused_indexes(folder)
        if unused:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the unused indexes."""
    if unused := terminalreporter.config.stash.get(_UNUSED, []):
        terminalreporter.section("No query uses these indexes", red=True)
        terminalreporter.write_line("\n".join(unused))


def find_unused_indexes(folder: Path) -> list[str]:
    """Return the declared indexes that no database below a folder has, as `file: entry`."""
    unused = []
    for database, file in INDEX_FILES.items():
        used: set[Index] = set()
        for path in folder.glob(f"*/{database.strip('()')}.sqlite"):
            used |= _read_indexes(path)
        lines = (json.dumps(index.to_json()) for index in _list_declared_indexes(file) - used)
        unused += [f"{file.name}: {line}" for line in sorted(lines)]
    return unused


def _list_declared_indexes(file: Path) -> set[Index]:
    """Return the indexes of several fields, of vectors and of collection groups."""
    definitions = Definitions.read(file, dimension=0)
    groups = {
        Index(collection, group=True, fields=((path, kind),))
        for (collection, path), kinds in definitions.overrides.items()
        for is_group, kind in kinds
        if is_group and kind is not Kind.DESCENDING
    }
    return groups | {_as_stored(index) for index, _ in definitions.indexes}


def _as_stored(index: Index) -> Index:
    return replace(index, fields=(), dimension=0) if index.vector else index


def _read_indexes(path: Path) -> set[Index]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    texts = [row[0] for row in connection.execute("SELECT definition FROM indexes")]
    connection.close()
    return {_as_stored(Index.from_json(json.loads(text))) for text in texts}
