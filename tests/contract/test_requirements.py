"""Requirements are shown by tests or differ on purpose, and declarations have what they ask."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

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
from tests.evidence import (
    DIFFERENCES,
    REQUIREMENTS,
    find_differences,
    find_tests,
    render_evidence,
)
from tests.support.fake_catalog import make_server
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources

ROOT = Path(__file__).parents[2]


def find_faults(table: str, differences: str, tests: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is wrong with the requirements, the differences, and what tests name."""
    rows = [line for line in table.splitlines() if re.match(r"\|(?! id |---)", line)]
    ids = [row.split("|")[1].strip() for row in rows]
    differing = find_differences(differences)
    named = {*differing, *tests}
    return [
        *(f"{row}: is no row" for row in rows if not re.fullmatch(ROW, row)),
        *(f"{name}: has two rows" for name in find_repeated(ids)),
        *(
            f"{name}: belongs before {last}"
            for last, name in pairwise(ids)
            if rank(name) < rank(last)
        ),
        *(f"{name}: is neither shown nor a difference" for name in ids if name not in named),
        *(f"{name}: is no requirement" for name in sorted(named.difference(ids))),
        *(f"{name}: differs twice" for name in find_repeated(differing)),
        *(
            f"{name}: is named twice by {test}"
            for name in tests
            for test in find_repeated(tests[name])
        ),
        *(
            f"{section.splitlines()[0]}: does not say why, and what differs"
            for section in re.split("^## ", differences, flags=re.MULTILINE)[1:]
            if not re.match(r".+\n\n(.+\n)*.*\bbecause\b(.+\n)*\n- ", section)
        ),
    ]


ROW = r"\| 00[0-4]-[A-Z]+\d+(\.\d+)? \| [^|]+ \|[^|]*\|"


def find_repeated(items: Sequence[str]) -> list[str]:
    return [item for item, count in Counter(items).items() if count > 1]


def rank(name: str) -> list[str]:
    """Return the key by which rows are sorted. Its numbers compare as numbers."""
    parts = re.findall(r"[A-Z]+|\d+", name)
    return [part.zfill(4) if part.isdecimal() else part for part in parts]


def test_each_requirement_is_shown_or_a_difference() -> None:
    requirements, differences = (path.read_text("utf-8") for path in (REQUIREMENTS, DIFFERENCES))
    assert find_faults(requirements, differences, find_tests()) == []


def test_the_list_names_the_tests_that_show_each_row() -> None:
    text = REQUIREMENTS.read_text("utf-8")
    assert text == render_evidence(text), "run `make fix`"


def test_each_of_the_five_documents_has_rows() -> None:
    rows = re.findall(r"^\| (\d+)-", REQUIREMENTS.read_text("utf-8"), re.MULTILINE)
    assert sorted(set(rows)) == ["000", "001", "002", "003", "004"]


A9 = "| 004-A9 | this | |"
A10 = "| 004-A10 | that | |"


@pytest.mark.parametrize(
    ("table", "entries", "tests", "expected"),
    [
        ([A9, A10], ["004-A10: other"], {"004-A9": ["a", "b"]}, []),
        ([A9, A10], ["004-A9,\n  004-A10: other"], {"004-A9": ["a"]}, []),
        ([A9], [], {}, ["004-A9: is neither shown nor a difference"]),
        (
            [],
            ["004-A10: other"],
            {"004-A9": ["a"]},
            ["004-A10: is no requirement", "004-A9: is no requirement"],
        ),
        ([A9, A9], ["004-A9: other"], {}, ["004-A9: has two rows"]),
        ([A10, A9], ["004-A9, 004-A10: other"], {}, ["004-A9: belongs before 004-A10"]),
        ([A9], ["004-A9: other", "004-A9: more"], {}, ["004-A9: differs twice"]),
        ([A9], [], {"004-A9": ["a", "b", "a"]}, ["004-A9: is named twice by a"]),
        (["| A9 | this | |"], ["A9: other"], {}, ["| A9 | this | |: is no row"]),
        (
            ["| 004-A9 | or | this | |"],
            ["004-A9: other"],
            {},
            ["| 004-A9 | or | this | |: is no row"],
        ),
    ],
)
def test_a_fault_is_reported(
    table: list[str], entries: list[str], tests: dict[str, list[str]], expected: list[str]
) -> None:
    differences = "".join(f"- {entry}\n" for entry in entries)
    assert find_faults("\n".join(table), differences, tests) == expected


@pytest.mark.parametrize(
    "section", ["Why.\n\n- 004-A9: other\n", "Other,\nbecause.\n", "- 004-A9: other, because\n"]
)
def test_a_section_without_reason_or_entries_is_a_fault(section: str) -> None:
    faults = find_faults(A9, f"# D\n\n## Title\n\n{section}", {"004-A9": ["a"]})
    assert faults == ["Title: does not say why, and what differs"]


@pytest.mark.requirement(
    "004-AC1", "004-AC7", "004-AC8", "004-N1", "004-P1", "004-P2", "004-P3", "004-T1.1", "004-T2.1"
)
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


@pytest.mark.requirement("002-I4", "002-T1.1", "002-T2.1", "002-T3.1", "002-T3.2", "002-T5.1")
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


@pytest.mark.requirement("002-T1.1", "002-T3.1", "002-T3.2")
def test_trace_tools_have_the_listed_bounds_and_values() -> None:
    by_name = {tool.name: tool for tool in tools()}
    limit = by_name["search_traces"].input.model_json_schema()["properties"]["limit"]
    assert limit["minimum"] == 1
    assert limit["maximum"] == 50
    vote = by_name["vote_trace"].declaration()["inputSchema"]["properties"]
    assert {"up", "down"} <= set(vote["vote_type"]["enum"])
    tags = vote["feedback_tag"]["enum"]
    assert tags == ["outdated", "wrong", "security_concern", "spam"]


@pytest.mark.requirement("004-P3")
@pytest.mark.parametrize("limit", [0, 21, -1, "5", 2.5, None])
def test_a_related_limit_outside_one_to_twenty_is_rejected(limit: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(GET_CHUNK.input, {"chunk_id": "c", "related_limit": limit}, GET_CHUNK.name)
    assert list(caught.value.details) == ["related_limit"]


@pytest.mark.requirement("004-F5")
def test_a_related_chunk_has_the_listed_fields() -> None:
    expected = ["chunk_id", "title", "author", "snippet", "similarity_score"]
    assert list(RelatedChunk.model_fields) == [*expected, "reason", "address", "also_in"]


@pytest.mark.requirement("004-S1", "004-T4.3")
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
    assert len(answer["related_chunks"]) == 3
    assert answer["highlight_url"] == BAKING.sections[0].highlight_url
    assert answer["readwise_url"] == BAKING.sections[0].readwise_url
    assert answer["source_url"] == BAKING.source_url


@pytest.mark.requirement("004-AC10", "004-N6")
def test_cards_and_related_chunks_have_no_tool_of_their_own() -> None:
    replaced_names = {"get_related_chunks", "get_knowledge_card"}
    assert replaced_names & {tool.name for tool in tools()} == set()


@pytest.mark.requirement("000-CR2", "000-I2")
def test_every_handler_is_asynchronous() -> None:
    assert [tool.name for tool in tools() if not inspect.iscoroutinefunction(tool.run)] == []


@pytest.mark.requirement("000-CR6")
def test_every_tool_has_tests_of_its_own() -> None:
    untested = {tool.name for tool in tools() if f'"{tool.name}"' not in _read_tests_of_group(tool)}
    assert {name for name in untested if not any(ROOT.glob(f"tests/*/*/test_{name}.py"))} == set()


def _read_tests_of_group(tool: Tool[Any, Any]) -> str:
    """Return the source of the tests in the folder of a tool's group."""
    group = get_package_name(tool).split(".")[2]
    files = (ROOT / "tests" / "emulator" / group).glob("test_*.py")
    return "".join(path.read_text() for path in files)
