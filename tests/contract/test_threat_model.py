"""Every test that the threat model names exists."""

import ast
import re
from collections.abc import Iterator

from infra.build.discovery import ROOT

THREAT_MODEL = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
CLAIMS = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", THREAT_MODEL)


def test_every_named_test_exists() -> None:
    tests = {path: set(list_functions(path)) for path in {path for path, _ in CLAIMS}}
    assert [f"{path}::{name}" for path, name in CLAIMS if name not in tests[path]] == []


def test_every_row_names_a_test() -> None:
    rows = re.findall(r"^\| (?!what |an attacker |they find |---).*$", THREAT_MODEL, re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if "::test_" not in row] == []


def list_functions(path: str) -> Iterator[str]:
    """Yield the names of all functions in a file."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
