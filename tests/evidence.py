"""Lists the requirements that the tests show, and those of which Carrel differs on purpose.

Usage: python -m tests.evidence, which `make fix` runs. It writes the last column of
docs/internal/requirements.md.

A test names the requirements that it shows: `@pytest.mark.requirement("001-D5")`. Tests are
parsed, not imported, since they import what only development installs. So marks of a module or of
one parameter are not seen.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.build.discovery import ROOT

REQUIREMENTS: Final = ROOT / "docs" / "internal" / "requirements.md"
DIFFERENCES: Final = ROOT / "docs" / "internal" / "differences.md"


def find_tests() -> dict[str, list[str]]:
    """Return the tests that show each requirement, as pytest names them."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for requirement, test in _read_markers(path):
            tests[requirement].append(f"{path.relative_to(ROOT).as_posix()}::{test}")
    return dict(tests)


def _read_markers(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the requirements that the tests of a file name, each with its test."""
    source = path.read_text("utf-8")
    if "mark.requirement" not in source:  # most files: parsing all takes seconds
        return
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in function.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute(attr="requirement"), args=arguments):
                        yield from ((ast.literal_eval(item), function.name) for item in arguments)


def find_differences(text: str) -> list[str]:
    """Return the requirements that the entries of the document of differences name."""
    entries = re.findall(r"^- ([^:]*):", text, re.MULTILINE)
    return [requirement for entry in entries for requirement in re.split(r",\s+", entry)]


def render_evidence(text: str) -> str:
    """Write the last column of the tables of requirements: "differs", and the tests."""
    tests = find_tests()
    differences = find_differences(DIFFERENCES.read_text("utf-8"))

    def render_row(row: re.Match[str]) -> str:
        requirement = row["id"]
        evidence = ["differs"] if requirement in differences else []
        evidence += (f"`{test}`" for test in tests.get(requirement, []))
        return f"{row['cells']} {', '.join(evidence)} |"

    return re.sub(
        r"^(?P<cells>\| (?P<id>\d\S*) \|[^|\n]*\|).*$", render_row, text, flags=re.MULTILINE
    )


if __name__ == "__main__":
    REQUIREMENTS.write_text(render_evidence(REQUIREMENTS.read_text("utf-8")), "utf-8")
