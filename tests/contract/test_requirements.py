"""The table of requirements stays true, and what the documents ask of every declaration holds."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from functions.tools.get_chunk.tool import TOOL as GET_CHUNK
from functions.tools.get_chunk.tool import RelatedChunk
from infra.deploy.discovery import tools
from shared.calling import parse
from shared.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "requirements.md"
THIS = "tests/contract/test_requirements.py"
STATUSES = ("shown", "differs", "open")


class Row(NamedTuple):
    """One line of a table."""

    id: str
    asked: str
    status: str
    evidence: str

    @property
    def order(self) -> tuple[str, ...]:
        """Where it stands among its neighbours: numbers count as numbers."""
        return tuple(part.zfill(4) for part in re.findall(r"[A-Z]+|\d+", self.id))

    @property
    def tests(self) -> list[tuple[str, str]]:
        """The tests it names: file and function."""
        return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", self.evidence)


def rows(text: str) -> list[Row]:
    lines = (line for line in text.splitlines() if line.startswith("| ") and "| id |" not in line)
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def faults(text: str) -> list[str]:
    """What is wrong with the tables in `text`, one entry for each fault."""
    found = rows(text)
    times = Counter(row.id for row in found)
    twice = [f"{each}: comes {count} times" for each, count in times.items() if count > 1]
    return [*twice, *_out_of_order(found), *(fault for row in found for fault in _faults_of(row))]


def _out_of_order(found: list[Row]) -> list[str]:
    pairs = zip(found, found[1:], strict=False)
    return [
        f"{row.id}: belongs before {before.id}" for before, row in pairs if row.order < before.order
    ]


def _faults_of(row: Row) -> Iterator[str]:
    if not re.fullmatch(r"00[0-4]-[A-Z]+\d+(\.\d+)?", row.id):
        yield f"{row.id}: is no id"
    if row.status not in STATUSES:
        yield f"{row.id}: {row.status} is no status"
    if row.status == "shown" and not row.tests:
        yield f"{row.id}: is shown by no test"
    if row.status == "differs" and not row.evidence.startswith("because "):
        yield f"{row.id}: differs without a reason"
    if row.evidence.count("::") != len(row.tests):
        yield f"{row.id}: names a test in another form than `tests/file.py::test_name`"
    yield from (
        f"{row.id}: there is no {file}::{name}"
        for file, name in row.tests
        if name not in _functions(file)
    )


@cache
def _functions(file: str) -> frozenset[str]:
    path = ROOT / file
    body = ast.parse(path.read_text()).body if path.is_file() else []
    functions = (each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions)


def test_the_table_of_requirements_is_true() -> None:
    assert faults(DOCUMENT.read_text()) == []


def test_each_of_the_five_documents_has_rows() -> None:
    documents = {row.id.partition("-")[0] for row in rows(DOCUMENT.read_text())}
    assert documents == {"000", "001", "002", "003", "004"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f"| 004-A1 | this | shown | `{THIS}::test_a_wrong_row_is_named` |", []),
        ("| 004-A1 | this | open | |", []),
        ("| 004-A1 | this | done | |", ["004-A1: done is no status"]),
        ("| AC1 | this | open | |", ["AC1: is no id"]),
        ("| 004-A1 | this | shown | by hand |", ["004-A1: is shown by no test"]),
        ("| 004-A1 | this | differs | Firestore |", ["004-A1: differs without a reason"]),
        (
            f"| 004-A1 | this | shown | `{THIS}::test_no_such` |",
            [f"004-A1: there is no {THIS}::test_no_such"],
        ),
        (
            "| 004-A1 | this | open | `tests/no_such.py::test_a` |",
            ["004-A1: there is no tests/no_such.py::test_a"],
        ),
        (
            f"| 004-A1 | this | open | {THIS}::test_a |",
            ["004-A1: names a test in another form than `tests/file.py::test_name`"],
        ),
        ("| 004-A1 | a | open | |\n| 004-A1 | b | open | |", ["004-A1: comes 2 times"]),
        ("| 004-A10 | a | open | |\n| 004-A9 | b | open | |", ["004-A9: belongs before 004-A10"]),
    ],
)
def test_a_wrong_row_is_named(table: str, expected: list[str]) -> None:
    assert faults(table) == expected


def test_get_chunk_takes_an_id_and_two_options() -> None:
    schema = GET_CHUNK.declaration()["inputSchema"]
    facts = ("type", "default", "minimum", "maximum")
    taken = {
        name: {fact: field[fact] for fact in facts if fact in field}
        for name, field in schema["properties"].items()
    }
    assert schema["required"] == ["chunk_id"]
    assert taken == {
        "chunk_id": {"type": "string"},
        "include_related": {"type": "boolean", "default": True},
        "related_limit": {"type": "integer", "default": 5, "minimum": 1, "maximum": 20},
    }


@pytest.mark.parametrize("limit", [0, 21, -1, "5", 2.5, None])
def test_a_related_limit_outside_one_to_twenty_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(GET_CHUNK, {"chunk_id": "c", "related_limit": limit})
    assert list(caught.value.details) == ["related_limit"]


def test_a_related_chunk_has_the_fields_its_document_lists() -> None:
    expected = ["chunk_id", "title", "author", "snippet", "similarity_score"]
    assert list(RelatedChunk.model_fields) == expected


def test_cards_and_related_chunks_have_no_tool_of_their_own() -> None:
    assert {"get_related_chunks", "get_knowledge_card"} & {tool.name for tool in tools()} == set()


def test_every_handler_is_asynchronous() -> None:
    assert [tool.name for tool in tools() if not inspect.iscoroutinefunction(tool.run)] == []


def test_every_tool_has_tests_where_they_are_looked_for() -> None:
    names = {tool.name for tool in tools()}
    assert {name for name in names if not _functions(f"tests/tools/test_{name}.py")} == set()
