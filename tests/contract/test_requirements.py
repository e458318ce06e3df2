"""The requirement matrix is valid, and declarations have what the requirements ask.

The matrix is a document whose table rows map each requirement to the tests that show it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client

from functions.gateway.catalog import Catalog
from functions.tools.knowledge.get_chunk.tool import TOOL as GET_CHUNK
from functions.tools.knowledge.get_chunk.tool import RelatedChunk
from infra.build.discovery import get_package_name, tools
from infra.local.inline import InlineDispatcher
from shared.core.errors import InvalidInput
from shared.runtime.context import App, Context
from shared.runtime.invocation import parse_arguments
from shared.runtime.tool import Tool
from tests.support.fake_catalog import make_server
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / "docs" / "internal" / "requirements.md"
THIS_FILE = "tests/contract/test_requirements.py"
STATUSES = ("shown", "differs", "open")


class Row(NamedTuple):
    """A row of the matrix: one requirement."""

    id: str
    requirement: str
    status: str
    evidence: str

    @property
    def sort_key(self) -> tuple[str, ...]:
        """The key by which rows are sorted. Its numbers compare as numbers."""
        parts = re.findall(r"[A-Z]+|\d+", self.id)
        return tuple(part.zfill(4) if part.isdecimal() else part for part in parts)

    @property
    def tests(self) -> list[tuple[str, str]]:
        """The file and the function of each test that the row names."""
        return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", self.evidence)


def find_lines(text: str) -> list[str]:
    """Return the lines of the tables, without headers."""
    return [line for line in text.splitlines() if re.match(r"\|(?! id |---)", line)]


def parse_rows(text: str) -> list[Row]:
    """Return the rows with four cells; `find_faults` reports the others."""
    valid_lines = (line for line in find_lines(text) if line.count("|") == 5)
    return [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in valid_lines]


def find_faults(text: str) -> list[str]:
    """Return the faults of the tables in `text`."""
    rows = parse_rows(text)
    counts = Counter(row.id for row in rows)
    return [
        *(f"{line}: does not have four cells" for line in find_lines(text) if line.count("|") != 5),
        *(f"{row_id}: is there {count} times" for row_id, count in counts.items() if count > 1),
        *(
            f"{next_row.id}: belongs before {row.id}"
            for row, next_row in pairwise(rows)
            if next_row.sort_key < row.sort_key
        ),
        *(fault for row in rows for fault in _check_row(row)),
    ]


def _check_row(row: Row) -> Iterator[str]:
    """Yield the faults of a row."""
    if not re.fullmatch(r"00[0-4]-[A-Z]+\d+(\.\d+)?", row.id):
        yield f"{row.id}: is no id"
    if row.status not in STATUSES:
        yield f"{row.id}: {row.status} is no status"
    if row.status == "shown" and not row.tests:
        yield f"{row.id}: names no test"
    if row.status == "differs" and not row.evidence.startswith("because "):
        yield f"{row.id}: differs without a reason"
    if row.evidence.count("::") != len(row.tests):
        yield f"{row.id}: names a test in another form than `tests/file.py::test_name`"
    yield from (
        f"{row.id}: there is no {file}::{name}"
        for file, name in row.tests
        if name not in _list_functions(file)
    )


@cache
def _list_functions(file: str) -> frozenset[str]:
    """Return the names of a file's functions; none if there is no such file."""
    path = ROOT / file
    body = ast.parse(path.read_text("utf-8")).body if path.is_file() else []
    functions = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions)


def test_every_row_is_valid() -> None:
    assert find_faults(MATRIX.read_text("utf-8")) == []


def test_each_of_the_five_documents_has_rows() -> None:
    documents = {row.id.partition("-")[0] for row in parse_rows(MATRIX.read_text("utf-8"))}
    assert documents == {"000", "001", "002", "003", "004"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f"| 004-A1 | this | shown | `{THIS_FILE}::test_an_invalid_row_is_reported` |", []),
        ("| 004-A1 | this | open | |", []),
        ("| 004-A1 | this | done | |", ["004-A1: done is no status"]),
        ("| AC1 | this | open | |", ["AC1: is no id"]),
        (
            "| 004-A1 | a or | b | open | |",
            ["| 004-A1 | a or | b | open | |: does not have four cells"],
        ),
        ("| 004-A1 | this | shown | by hand |", ["004-A1: names no test"]),
        ("| 004-A1 | this | differs | Firestore |", ["004-A1: differs without a reason"]),
        (
            f"| 004-A1 | this | shown | `{THIS_FILE}::test_no_such` |",
            [f"004-A1: there is no {THIS_FILE}::test_no_such"],
        ),
        (
            "| 004-A1 | this | open | `tests/no_such.py::test_a` |",
            ["004-A1: there is no tests/no_such.py::test_a"],
        ),
        (
            f"| 004-A1 | this | open | {THIS_FILE}::test_a |",
            ["004-A1: names a test in another form than `tests/file.py::test_name`"],
        ),
        ("| 004-A1 | a | open | |\n| 004-A1 | b | open | |", ["004-A1: is there 2 times"]),
        ("| 004-A10 | a | open | |\n| 004-A9 | b | open | |", ["004-A9: belongs before 004-A10"]),
    ],
)
def test_an_invalid_row_is_reported(table: str, expected: list[str]) -> None:
    assert find_faults(table) == expected


def test_get_chunk_takes_an_id_and_two_options() -> None:
    schema = GET_CHUNK.input.model_json_schema()
    facts = ("type", "default", "minimum", "maximum")

    assert schema["required"] == ["chunk_id"]

    expected: dict[str, dict[str, Any]] = {
        "chunk_id": {"type": "string"},
        "include_related": {"type": "boolean", "default": True},
        "related_limit": {"type": "integer", "default": 5, "minimum": 1, "maximum": 20},
    }
    actual = {
        name: {fact: schema["properties"][name].get(fact) for fact in facts if fact in fields}
        for name, fields in expected.items()
    }
    assert actual == expected


@pytest.mark.parametrize(
    ("name", "required", "defaults"),
    [
        ("search_traces", [], {"query": "", "tags": [], "limit": 10, "include_flagged": False}),
        (
            "contribute_trace",
            ["title", "context_text", "solution_text"],
            {"tags": [], "supersedes": None},
        ),
        ("vote_trace", ["trace_id", "vote_type"], {"feedback_tag": None, "feedback_text": None}),
        ("get_trace", ["trace_id"], {}),
        ("list_tags", [], {"prefix": ""}),
    ],
)
def test_trace_tools_take_the_listed_arguments(
    name: str, required: list[str], defaults: dict[str, Any]
) -> None:
    [tool] = (tool for tool in tools() if tool.name == name)
    fields = tool.input.model_fields
    assert [field_name for field_name, field in fields.items() if field.is_required()] == required
    for field_name, default in defaults.items():
        assert fields[field_name].get_default(call_default_factory=True) == default


def test_trace_tools_have_the_listed_bounds_and_values() -> None:
    by_name = {tool.name: tool for tool in tools()}
    limit = by_name["search_traces"].input.model_json_schema()["properties"]["limit"]
    assert limit["minimum"] == 1
    assert limit["maximum"] == 50
    vote = by_name["vote_trace"].declaration()["inputSchema"]["properties"]
    assert {"up", "down"} <= set(vote["vote_type"]["enum"])
    tags = vote["feedback_tag"]["enum"]
    assert tags == ["outdated", "wrong", "security_concern", "spam"]


@pytest.mark.parametrize("limit", [0, 21, -1, "5", 2.5, None])
def test_a_related_limit_outside_one_to_twenty_is_rejected(limit: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(GET_CHUNK.input, {"chunk_id": "c", "related_limit": limit}, GET_CHUNK.name)
    assert list(caught.value.details) == ["related_limit"]


def test_a_related_chunk_has_the_listed_fields() -> None:
    expected = ["chunk_id", "title", "author", "snippet", "similarity_score"]
    assert list(RelatedChunk.model_fields) == expected


async def test_one_call_returns_the_card_the_cluster_and_all_urls(ctx: Context, app: App) -> None:
    chunk = (await store_sources(ctx, BAKING, SAILING))[0]
    card = {"summary": "Knead and rest.", "takeaways": ["Smooth dough", "Warm place"]}
    await set_fields(
        ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card, "cluster_id": ["c-1"]}
    )
    await set_fields(ctx, "clusters/c-1", {"name": "Dough", "description": "Flour and water."})
    async with Client(make_server(InlineDispatcher(app), Catalog.load())) as client:
        result = await client.call_tool("get_chunk", {"chunk_id": chunk.chunk_id})
    answer = result.structured_content or {}

    assert answer["knowledge_card"] == card
    assert answer["cluster"]["cluster_name"] == "Dough"
    assert len(answer["related_chunks"]) == 4
    assert answer["highlight_url"] == BAKING.sections[0].highlight_url
    assert answer["readwise_url"] == BAKING.sections[0].readwise_url
    assert answer["source_url"] == BAKING.source_url


def test_cards_and_related_chunks_have_no_tool_of_their_own() -> None:
    replaced_names = {"get_related_chunks", "get_knowledge_card"}
    assert replaced_names & {tool.name for tool in tools()} == set()


def test_every_handler_is_asynchronous() -> None:
    assert [tool.name for tool in tools() if not inspect.iscoroutinefunction(tool.run)] == []


def test_every_tool_has_tests_of_its_own() -> None:
    untested = {tool.name for tool in tools() if f'"{tool.name}"' not in _read_tests_of_group(tool)}
    assert {name for name in untested if not any(ROOT.glob(f"tests/*/*/test_{name}.py"))} == set()


def _read_tests_of_group(tool: Tool[Any, Any]) -> str:
    """Return the source of the tests in the folder of a tool's group."""
    group = get_package_name(tool).split(".")[2]
    files = (ROOT / "tests" / "emulator" / group).glob("test_*.py")
    return "".join(path.read_text() for path in files)
