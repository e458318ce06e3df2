"""Each package contains only what belongs there. `make check` checks the imports between them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from infra.build.discovery import ROOT

FOLDERS = ("functions", "shared", "infra", "tests", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
DOCSTRING = re.compile(r'(#.*\n|\s)*r?"""\s*\S')
"""The beginning of a file with a docstring: parsing all files would take seconds."""
MAX_ENTRY_POINT_LINES = 10
WITHOUT_FIRESTORE = (
    "functions/",
    *(f"shared/{name}/" for name in ("ai", "clustering", "core", "runtime", "screening", "search")),
    "shared/text/",
)


def get_relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def find_imports(path: Path) -> Iterator[str]:
    """Yield the full names of everything that a file imports, inside functions too."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_calls(path: Path) -> Iterator[str]:
    """Yield the names of the functions that a file calls by name."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def list_files(*folders: str) -> list[Path]:
    """Return the Python files below these folders, such as `shared/`."""
    return [path for path in FILES if get_relative_path(path).startswith(folders)]


def count_lines(path: Path) -> int:
    """Count the lines that are not blank."""
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def test_there_are_files_in_every_folder() -> None:
    assert all(list_files(f"{folder}/") for folder in FOLDERS)


def test_only_storage_packages_import_firestore() -> None:
    importers = {
        get_relative_path(path)
        for path in list_files(*WITHOUT_FIRESTORE)
        if any(name.startswith("google.cloud.firestore") for name in find_imports(path))
    }
    assert importers == set()


def test_the_gateways_entry_point_is_short() -> None:
    [path] = [path for path in list_files("functions/") if path.name == "main.py"]
    assert count_lines(path) <= MAX_ENTRY_POINT_LINES


@pytest.mark.parametrize("folder", ["shared/", "functions/"])
def test_functions_and_shared_never_print(folder: str) -> None:
    assert [
        get_relative_path(path) for path in list_files(folder) if "print" in find_calls(path)
    ] == []


def test_every_module_has_a_docstring() -> None:
    assert [
        get_relative_path(path) for path in FILES if not DOCSTRING.match(path.read_text())
    ] == []
