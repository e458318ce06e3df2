"""What each package may contain. Who imports whom of ours, `make check` looks after."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOMS = ("functions", "shared", "infra", "tests", "benchmarks")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
DOCSTRING = re.compile(r'(#.*\n|\s)*r?"""\s*\S')
"""What a file with a docstring begins with: to parse all files takes seconds."""
LONGEST_ENTRY_POINT = 10
WITHOUT_FIRESTORE = (
    "functions/",
    *(f"shared/{name}/" for name in ("ai", "clustering", "core", "runtime", "screening", "search")),
    "shared/text/",
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def imports(path: Path) -> Iterator[str]:
    """The full names of what a file imports, wherever in it."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[str]:
    """The names of the functions a file calls, where they are names."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def methods_called(path: Path) -> set[str]:
    """The names of the methods a file calls of what it calls `database`."""
    return {
        node.func.attr
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if "database" in ast.unparse(node.func.value)
    }


def files_of(*rooms: str) -> list[Path]:
    return [path for path in FILES if name_of(path).startswith(rooms)]


def statement_lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def test_there_are_files_in_every_room() -> None:
    assert all(files_of(f"{room}/") for room in ROOMS)


def test_firestore_is_known_only_where_things_are_stored() -> None:
    knowing = {
        name_of(path)
        for path in files_of(*WITHOUT_FIRESTORE)
        if any(name.startswith("google.cloud.firestore") for name in imports(path))
    }
    assert knowing == set()


def test_the_gateways_entry_point_only_joins_parts() -> None:
    [path] = [path for path in files_of("functions/") if path.name == "main.py"]
    assert statement_lines(path) <= LONGEST_ENTRY_POINT


@pytest.mark.parametrize("room", ["shared/", "functions/"])
def test_what_runs_in_the_cloud_logs_and_does_not_print(room: str) -> None:
    assert [name_of(path) for path in files_of(room) if "print" in calls(path)] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name_of(path) for path in FILES if not DOCSTRING.match(path.read_text())] == []


def test_whoever_queries_lists_every_query_for_the_index_proof() -> None:
    silent = {
        name_of(path)
        for path in files_of("shared/")
        if {"find", "count"} & methods_called(path)
        if "query_shapes" not in {getattr(node, "name", None) for node in parsed(path).body}
    }
    assert {"shared/index/vector_index.py"} == silent  # others complete its queries, and list these
