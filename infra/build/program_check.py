"""Checks types in programs that are strings: `python -m infra.build.program_check [PATH ...]`.

Tests give such programs to `python -c`, or write them to files. mypy does not see them, so a rename
would break them unnoticed. By default, the command checks every folder of Python code.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import TYPE_CHECKING, Final, NamedTuple

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CODE: Final = ("functions", "shared", "infra", "tests", "benchmarks")
"""The packages whose strings are checked by default; a program imports at least one of them."""
_MYPY_OPTIONS: Final = (
    "# mypy: allow-untyped-defs, allow-untyped-calls, check-untyped-defs, "
    'disable-error-code="assignment, has-type, method-assign, misc, var-annotated"'
)
"""The comment that lets a program omit annotations, and replace functions and constants."""
_PLACEHOLDER: Final = "NotImplemented"
"""What stands for a value in an f-string: for mypy, it has every type."""


class EmbeddedProgram(NamedTuple):
    """A string that is a Python program, and the line where the string begins."""

    text: str
    line: int


def find_programs(path: Path) -> Iterator[EmbeddedProgram]:
    """Yield the strings in a Python file that are programs with an import of this project."""
    tree = ast.parse(path.read_text("utf-8"))
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {part for string in formatted for part in string.values}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if node not in parts:
                pass
            case ast.JoinedStr(values=values):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else _PLACEHOLDER
                    for part in values
                )
            case _:
                continue
        if _imports_project(dedent(text)):
            yield EmbeddedProgram(dedent(text), node.lineno)


def _imports_project(text: str) -> bool:
    if "import" not in text:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    modules: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules += [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                modules.append(module)
    return any(module.partition(".")[0] in _CODE for module in modules)


def main(arguments: Sequence[str]) -> int:
    """Print the problems of programs in the given paths, and return the exit status."""
    paths = [Path(argument).resolve() for argument in arguments] or [ROOT / name for name in _CODE]
    files = [
        file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    with TemporaryDirectory() as folder:
        origins: dict[str, Path] = {}
        for file in files:
            for program in find_programs(file):
                name = f"program_{len(origins)}.py"
                # The empty lines give mypy's messages the line numbers of the string.
                lines = [_MYPY_OPTIONS, *[""] * (program.line - 2), program.text]
                (Path(folder) / name).write_text("\n".join(lines), "utf-8")
                origins[name] = file
        if not origins:
            return 0
        result = subprocess.run(  # noqa: S603 - mypy
            [sys.executable, "-m", "mypy", "--no-error-summary", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    for problem in result.stdout.splitlines():
        location, _, message = problem.partition(":")
        sys.stdout.write(f"{origins.get(Path(location).name, location)}:{message}\n")
    sys.stderr.write(result.stderr)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
