"""Every tool names wrong arguments and says what is allowed, before it reads anything.

What is wrong is in `tests/examples`. The app of these tests has no database.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from infra.build.discovery import tools
from shared.core.ids import make_passage_id
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import parse_arguments
from shared.runtime.messages import WireError
from shared.runtime.schemas import DocumentId
from tests.examples.catalog import EXAMPLES
from tests.examples.example import NOT_AN_ID
from tests.support.fakes.embedder import WordEmbedder
from tests.support.tool_calls import call, find_tool

Case = tuple[dict[str, Any], str, str]
"""Arguments, the one that the error names or "", and a part of the message."""


WRONG_IDS = {
    NOT_AN_ID: ("", "a/b", "../users/ben", "__x__", "."),
    "at most 200 characters": ("a" * 201,),
}
WRONG_COMMON_ARGUMENTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "cursor": {
        NOT_AN_ID: ("", "!"),
        "does not belong to these arguments": ("abc",),
        "at most 4000 characters": ("x" * 4_001,),
    },
    "idempotency_key": {
        "at least 1 character": ("",),
        "at most 200 characters": ("x" * 201,),
    },
    "max_tokens": {"greater than or equal to 100": (99,)},
}
"""What is wrong in the arguments that many tools have."""
WRONG_TYPES: dict[str, tuple[Any, ...]] = {
    "string": ({"a": 1},),
    "integer": ("5", "", 1.5, True, [5], {"k": 5}),
    "boolean": ("yes", 1),
    "array": ("x", {"a": 1}),
    "object": (5, "x"),
}
"""Values that no argument of a type takes."""

DOCUMENT_ID_PATTERN = TypeAdapter(DocumentId).json_schema()["pattern"]
SECOND_NAMES = {"topK", "limit"}
ENVELOPE_CODES = {
    "priority": "invalid_priority",
    **dict.fromkeys(("due_date", "due_from", "due_to"), "invalid_date"),
}
"""The codes that the tools for tasks publish for an argument, in place of `invalid_input`."""

every_tool = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(scope="module")
async def app() -> AsyncIterator[App]:
    """An app that the calls of all tests share, because they store nothing."""
    opened = App(Settings(google_cloud_project="no-database"), embedder=WordEmbedder())
    yield opened
    await opened.aclose()


def get_fields(name: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of a tool's arguments, those of nullable ones without null."""
    schema = find_tool(name).input.model_json_schema(mode="validation", by_alias=False)
    definitions = schema.get("$defs", {})
    fields = {}
    for field, declared in schema["properties"].items():
        options = [part for part in declared.get("anyOf", [declared]) if part != {"type": "null"}]
        fields[field] = definitions.get(options[0].get("$ref", "").rpartition("/")[2], options[0])
    return fields


def iterate_wrong_values(name: str) -> Iterator[tuple[str, Any, str]]:
    """Yield an argument's name, a wrong value of it and a part of the message."""
    example = EXAMPLES[name]
    for field, (least, greatest) in example.ranges.items():
        yield field, least - 1, f"greater than or equal to {least}"
        yield field, greatest + 1, f"less than or equal to {greatest}"
    for field, length in example.lengths.items():
        yield field, "x" * (length + 1), f"{length}"
    for field, count in example.counts.items():
        yield field, [f"t{number}" for number in range(count + 1)], f"{count}"
    for field, values in example.choices.items():
        for value in (f"{values[0]}!", 1):
            yield field, value, str(values[-1])
    for field, schema in get_fields(name).items():
        by_message = {**example.wrong.get(field, {}), **WRONG_COMMON_ARGUMENTS.get(field, {})}
        if schema.get("pattern") == DOCUMENT_ID_PATTERN:
            by_message |= WRONG_IDS
        for part, wrong_values in by_message.items():
            yield from ((field, value, part) for value in wrong_values)
        yield from ((field, value, "") for value in WRONG_TYPES.get(schema.get("type", ""), ()))


def iterate_cases(name: str) -> Iterator[Case]:
    """Yield all wrong arguments of a tool."""
    example, tool = EXAMPLES[name], find_tool(name)
    for field, value, part in iterate_wrong_values(name):
        yield example.arguments | {field: value}, field, part
    for field in tool.input.model_json_schema(by_alias=False).get("required", ()):
        others = {key: value for key, value in example.arguments.items() if key != field}
        yield others, field, "required, but missing"
    yield example.arguments | {"no_such_field": 1}, "no_such_field", "not a parameter"
    yield from example.contradictions


def find_problem(error: WireError | None, field: str, part: str) -> str | None:
    """Return what is wrong with the error of a case, or None."""
    if error is None:
        return "accepted"
    if error.code != "VALIDATION_ERROR":
        return error.code
    if {path.partition(".")[0] for path in error.details} != ({field} if field else set()):
        return f"details of {list(error.details)}"
    if part.replace(",", "") not in f"{error.message} {error.details}".replace(",", ""):
        return error.message
    return None


@pytest.mark.requirement(
    "000-Q2",
    "000-T2.1",
    "001-C3",
    "001-C4",
    "001-C5",
    "001-C7",
    "001-F1",
    "001-X1",
    "002-S5",
    "002-T1.1",
    "002-T1.2",
    "002-T3.2",
    "002-T3.3",
    "003-C1",
    "003-C2",
    "003-C3",
    "003-D11",
    "003-E1",
    "003-V1",
    "003-V2",
    "003-V3",
    "003-V4",
    "003-V5",
)
@every_tool
async def test_wrong_arguments_are_named_before_any_read(app: App, name: str) -> None:
    """The message says what is allowed, and does not quote what may be a secret."""
    example, tool = EXAMPLES[name], find_tool(name)
    offenders = []
    for arguments, field, part in iterate_cases(name):
        answer = await call(app, name, example.caller, **arguments)
        problem = find_problem(answer.error, field, part)
        if answer.receipt.round_trips:
            problem = "read before it was refused"
        elif quotes_text(answer.error, arguments.get(field)):
            problem = "quoted"
        elif tool.envelope and answer.error and not problem:
            code = tool.envelope.translate_error(answer.error)["code"]
            problem = None if code == ENVELOPE_CODES.get(field, "invalid_input") else code
        if problem:
            offenders.append((field, str(arguments.get(field))[:80], part, problem[:200]))
    assert offenders == []


def quotes_text(error: WireError | None, value: Any) -> bool:
    """Return whether an error contains a long text of a wrong value."""
    texts = [text for text in (value if isinstance(value, list) else [value]) if text]
    return any(isinstance(text, str) and len(text) > 20 and text in f"{error}" for text in texts)


@every_tool
async def test_half_a_surrogate_pair_is_refused(app: App, name: str) -> None:
    """JSON may contain one, but no text can be stored with it."""
    texts = [field for field, schema in get_fields(name).items() if schema.get("type") == "string"]
    for field in texts:
        arguments = EXAMPLES[name].arguments | {field: "half \ud83c"}
        answer = await call(app, name, EXAMPLES[name].caller, **arguments)
        assert answer.error, field
        assert answer.error.code == "VALIDATION_ERROR"
        assert answer.receipt.round_trips == 0


@pytest.mark.requirement("003-V1", "003-V2", "003-V4")
@every_tool
def test_values_that_are_barely_valid_are_accepted(name: str) -> None:
    example, tool = EXAMPLES[name], find_tool(name)
    accepted = [
        *((field, value) for field, values in example.accepted.items() for value in values),
        *((field, value) for field, values in example.choices.items() for value in values),
        *((field, value) for field, bounds in example.ranges.items() for value in bounds),
        *((field, float(bounds[0])) for field, bounds in example.ranges.items()),
        *((field, "x" * length) for field, length in example.lengths.items()),
        *(
            (field, [f"t{number}" for number in range(count)])
            for field, count in example.counts.items()
        ),
    ]
    for field, value in accepted:
        parse_arguments(tool.input, example.arguments | {field: value}, name)
    parse_arguments(tool.input, example.arguments, name)


@every_tool
def test_a_passage_stands_for_its_source(name: str) -> None:
    tool = find_tool(name)
    if "source_id" in tool.input.model_fields:
        source_id = {"source_id": make_passage_id("baking", "Knead.")}
        arguments = EXAMPLES[name].arguments | source_id
        assert parse_arguments(tool.input, arguments, name).source_id == "baking"


def test_every_tool_has_an_example() -> None:
    assert {tool.name for tool in tools()} == EXAMPLES.keys()


@pytest.mark.parametrize(
    "part",
    ["accepted", "ranges", "lengths", "counts", "choices", "wrong", "contradictions", "missing"],
)
def test_every_part_of_an_example_is_used(part: str) -> None:
    assert any(getattr(example, part) for example in EXAMPLES.values())


def test_examples_name_arguments_that_exist() -> None:
    """An argument may have a second name, which is not in the schema."""
    unknown = [
        (name, field)
        for name, example in EXAMPLES.items()
        for field in (
            *(example.accepted.keys() | example.ranges.keys() | example.lengths.keys()),
            *(example.counts.keys() | example.choices.keys() | example.wrong.keys()),
        )
        if field not in get_fields(name).keys() | SECOND_NAMES
    ]
    assert unknown == []
