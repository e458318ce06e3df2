"""What a program needs to run: the modules of ours that it imports, and those of others."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

OURS: Final = ("functions", "shared")
DATA: Final = {
    "functions.gateway.catalog": ("catalog.json",),
    "functions.gateway.oauth.consent_page": ("*.css", "*.html"),
    "shared.ai._minilm": ("data/*",),
    "shared.extractions.topic_names": ("data/*",),
    "shared.text.terms": ("data/*",),
}
"""The files that a module of ours reads, from its folder on: no import names them."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is imported from a program on.

    Attributes:
        files: The files of ours, Python and data.
        others: The modules of others, by their full names; what is imported from these may be a
            module too, so it is named here as if it were.
    """

    files: set[Path] = field(default_factory=set)
    others: set[str] = field(default_factory=set)


def reach(program: str, withheld: Collection[str] = ()) -> Reach:
    """Follow the imports of a program, those inside functions too.

    Args:
        program: Its text.
        withheld: Modules of ours that are not followed.
    """
    imports, waiting, seen = Reach(), [*_imported(program)], set(withheld)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        if module.partition(".")[0] not in OURS:
            imports.others.add(module)
            continue
        for path in _files(module):
            imports.files.add(path)
            waiting += _imported_by(path)
        imports.files.update(data_of(module))
    return imports


def data_of(module: str) -> set[Path]:
    """The files that a module of ours reads."""
    folder = ROOT.joinpath(*module.split(".")[:-1])
    return {path for pattern in DATA.get(module, ()) for path in folder.glob(pattern)}


def _files(module: str) -> list[Path]:
    """The files that importing a module runs: its own, and those of packages around it.

    None where the name is not a module's, but stands in one.
    """
    parts = module.split(".")
    around = [ROOT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1)]
    own = ROOT.joinpath(*parts).with_suffix(".py")
    return [path for path in (*around, own) if path.exists()]


@cache
def _imported_by(path: Path) -> frozenset[str]:
    return _imported(path.read_text("utf-8"))


def _imported(text: str) -> frozenset[str]:
    """What a text imports when it runs. A name that is imported from a module may be one itself."""
    imports = _Imports()
    imports.visit(ast.parse(text))
    return frozenset(imports.modules)


class _Imports(ast.NodeVisitor):
    def __init__(self) -> None:
        self.modules: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.modules |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.modules |= {module, *(f"{module}.{alias.name}" for alias in node.names)}

    def visit_If(self, node: ast.If) -> None:
        """Leave out what is imported for types alone."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)
