"""What the threat model says is shown by a test, is: the test exists."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = ROOT / "tests"
TEXT = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
CLAIMS = re.findall(r"`([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", TEXT)


def test_every_test_that_the_threat_model_names_exists() -> None:
    known = {path: set(functions(path)) for path in {path for path, _ in CLAIMS}}
    assert [] == [f"{path}::{name}" for path, name in CLAIMS if name not in known[path]]


def test_the_threat_model_names_a_test_in_every_row() -> None:
    rows = re.findall(r"^\| (?!what |---).*$", TEXT, re.MULTILINE)
    assert len(rows) > 20
    assert [] == [row for row in rows if "::test_" not in row]


def functions(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((TESTS / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
