"""What a program needs to run: the modules of ours that it imports, and those of others."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

OURS: Final = ("functions", "shared")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Reach:
    """What is imported from a program on.

    Attributes:
        files: The files of ours, Python and data.
        others: The modules of others, by their full names; what is imported from these may be a
            module too, so it is named here as if it were.
        names: Names that files of ours mention, by file.
    """

    files: set[Path] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    names: dict[Path, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Imports:
    """What one file says.

    Attributes:
        at_once: Modules that it imports when it is imported.
        later: Modules that it imports inside functions, by the outermost function's name.
        names: All names that it mentions.
        reads_data: Whether it looks for files beside itself.
    """

    at_once: frozenset[str]
    later: dict[str, frozenset[str]]
    names: frozenset[str]
    reads_data: bool


def reach(program: str, withheld: Collection[str] = ()) -> Reach:
    """Follow the imports of a program, those inside functions too.

    What a function or a property imports is only followed where something that is reached mentions
    its name: `Store` knows every collection, and a tool uses a few.

    Args:
        program: Its text.
        withheld: Modules of ours that are not followed.
    """
    found, waiting = Reach(), [*_imports(program).at_once]
    mentioned: set[str] = set()
    later: defaultdict[str, set[str]] = defaultdict(set)
    seen: set[str] = set(withheld)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        if module.partition(".")[0] not in OURS:
            found.others.add(module)
            continue
        for path in _files(module):
            said = _imports(path.read_text("utf-8"))
            found.files |= {path, *(_data(path.parent) if said.reads_data else ())}
            found.names[path] = said.names
            mentioned |= said.names
            waiting += said.at_once
            for name, modules in said.later.items():
                later[name] |= modules
        for name in later.keys() & mentioned:
            waiting += later.pop(name)
    return found


def _files(module: str) -> list[Path]:
    """The files that importing a module runs: its own, and those of packages around it."""
    parts = module.split(".")
    around = [ROOT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1)]
    own = ROOT.joinpath(*parts).with_suffix(".py")
    return [path for path in (*around, own) if path.exists()]


def _data(folder: Path) -> Iterator[Path]:
    """The files that a module may read beside itself, and in the folder `data`."""
    for place in (folder, folder / "data"):
        if place.is_dir():
            files = (path for path in place.iterdir() if path.is_file())
            yield from (path for path in files if path.suffix not in {".py", ".pyc"})


@cache
def _imports(text: str) -> _Imports:
    tree = ast.parse(text)
    later: defaultdict[str, set[str]] = defaultdict(set)
    at_once = set(_imported(tree, later))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
    return _Imports(
        at_once=frozenset(at_once),
        later={name: frozenset(modules) for name, modules in later.items()},
        names=frozenset(names),
        reads_data="__file__" in names,
    )


def _imported(
    node: ast.AST, later: defaultdict[str, set[str]], within: str | None = None
) -> Iterator[str]:
    """What a node imports at once; what it imports inside functions goes into `later`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_for_types(child):
            yield from _imported(ast.Module(child.orelse, []), later, within)
        elif isinstance(child, _Definition) and within is None:
            later[child.name] |= set(_imported(child, later, child.name))
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = child.module or ""
            yield module
            if _may_hold_modules(module):
                yield from (f"{module}.{alias.name}" for alias in child.names)
        else:
            yield from _imported(child, later, within)


def _may_hold_modules(module: str) -> bool:
    """Whether names imported from a module may be modules themselves; of others', any may."""
    return module.partition(".")[0] not in OURS or ROOT.joinpath(*module.split(".")).is_dir()


def _is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
