"""Checks names: `python -m infra.build.naming_check [PATH ...]`.

A public class name must have one meaning across `functions`, `shared` and `infra`. A variable must
be named for what it is. By default, the command checks every folder of Python code.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PRODUCT: Final = ("functions", "shared", "infra")
"""The folders in which class names must be unique."""
_CODE: Final = (*_PRODUCT, "tests", "benchmarks")
"""The folders in which variables are checked by default."""
_INDEPENDENT: Final = ROOT / "infra" / "local" / "embedded_firestore"
"""A package that knows nothing of Carrel. Its classes have the names that Firestore gives them."""
_REJECTED: Final = frozenset(
    {"told", "said", "wanted", "found", "known", "held", "shown", "seen", "each"}
)
"""Rejected variable names, which tell what happened to a value instead of what the value is."""
_SHARED_NAMES: Final = frozenset({"In", "Out"})
"""The class names that every tool declares."""


def find_duplicate_classes(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each public class in `paths` whose name other classes have, too."""
    locations: defaultdict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path in _find_python_files(ROOT / folder for folder in _PRODUCT):
        if path.is_relative_to(_INDEPENDENT):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                locations[node.name].append((path, node.lineno))
    checked = set(_find_python_files(paths))
    for name in sorted(locations.keys() - _SHARED_NAMES):
        if len(locations[name]) > 1 and any(path in checked for path, _ in locations[name]):
            places = " ".join(f"{_to_relative(path)}:{line}" for path, line in locations[name])
            yield f"class {name} is defined {len(locations[name])} times: {places}"


def find_rejected_variables(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each variable, parameter or loop target with a rejected name."""
    for path in _find_python_files(paths):
        for name, line in sorted(_find_bindings(path), key=lambda binding: binding[1]):
            yield f"{_to_relative(path)}:{line}: name `{name}` for what it is"


def _find_bindings(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the rejected names that a file binds, with their line numbers.

    The fields of classes are skipped, because some field names are stored or published.
    """
    tree = ast.parse(path.read_text("utf-8"))
    fields = {
        statement.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in _REJECTED and node not in fields:
                yield name, node.lineno
            case ast.arg(arg=name) if name in _REJECTED:
                yield name, node.lineno


def _find_python_files(paths: Iterable[Path]) -> list[Path]:
    return [
        file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]


def _to_relative(path: Path) -> Path:
    return path.relative_to(ROOT)


def main(arguments: Sequence[str]) -> int:
    """Print the problems in the given paths, and return the exit status."""
    paths = [Path(argument).resolve() for argument in arguments] or [ROOT / name for name in _CODE]
    problems = [*find_rejected_variables(paths), *find_duplicate_classes(paths)]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
