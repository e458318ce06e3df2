"""Every tool takes the arguments in which clients wrap what a model left out or wrote."""

import json
from typing import Any

import pytest

from functions.gateway.calls.normalization import CLIENT_ARGUMENTS, normalize_arguments
from infra.build.discovery import tools
from shared.runtime.invocation import parse_arguments
from shared.runtime.tool import Effect, Tool

EMPTIED = {
    "add_task": ["description"],
    "amend_trace": ["context_text", "solution_text", "title"],
    "edit_source": ["author", "title"],
    "forget": ["reason"],
    "save_note": ["text", "title"],
    "update_task": ["description", "due_date", "title"],
    "vote_trace": ["feedback_text"],
}
"""The optional texts that a tool takes empty, or refuses because they cannot be emptied."""
SAMPLES = {"string": "1", "integer": 1, "boolean": True}
every_tool = pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)


def get_schema(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the published schema of a tool's arguments."""
    schema: dict[str, Any] = tool.declaration()["inputSchema"]
    return schema


def make_sample(schema: dict[str, Any]) -> Any:
    """Make a value of a schema, with all fields of an object."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: make_sample(field) for name, field in schema["properties"].items()}
        case "array":
            return [make_sample(schema["items"])]
        case None:
            return make_sample(schema["anyOf"][0])
        case kind:
            return SAMPLES[kind]


def make_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Make the required arguments of a tool."""
    return {name: make_sample(schema["properties"][name]) for name in schema.get("required", ())}


def normalize(tool: Tool[Any, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's arguments as the gateway passes them on."""
    is_read = tool.effect is Effect.READ
    return normalize_arguments(
        arguments, get_schema(tool), is_read=is_read, absent_if_empty=tool.absent_if_empty
    )


def list_nullable(schema: dict[str, Any]) -> list[str]:
    """List the parameters for which null is a value."""
    properties = schema["properties"].items()
    return [name for name, field in properties if {"type": "null"} in field.get("anyOf", ())]


@every_tool
def test_null_for_an_optional_argument_is_its_absence(tool: Tool[Any, Any]) -> None:
    schema = get_schema(tool)
    required, nullable = make_required(schema), list_nullable(schema)
    nulls = dict.fromkeys(schema["properties"])
    expected = required | dict.fromkeys(nullable)
    assert normalize(tool, nulls | required) == expected
    parse_arguments(tool.input, normalize(tool, nulls | required), tool.name)


def find_samples(kind: type) -> list[tuple[Tool[Any, Any], str, Any]]:
    """Return the arguments of all tools whose sample is of a type, of which there must be some."""
    samples = [
        (tool, name, make_sample(field))
        for tool in tools()
        for name, field in get_schema(tool)["properties"].items()
    ]
    of_kind = [(tool, name, sample) for tool, name, sample in samples if isinstance(sample, kind)]
    assert of_kind
    return of_kind


@pytest.mark.parametrize("kind", [dict, list, bool, int])
def test_json_in_a_text_is_the_value_that_the_schema_wants(kind: type) -> None:
    for tool, name, sample in find_samples(kind):
        for text in (json.dumps(sample), f" {json.dumps(sample, indent=1)}\n"):
            assert normalize(tool, {name: text}) == {name: sample}


def test_json_in_a_text_stays_one_where_a_text_is_wanted() -> None:
    for tool, name, _ in find_samples(str):
        for text in ("null", "5", "[]", '{"a": 1}'):
            assert normalize(tool, {name: text}) == {name: text}


@every_tool
def test_an_empty_text_is_absent_unless_it_can_be_written(tool: Tool[Any, Any]) -> None:
    schema = get_schema(tool)
    optional = schema["properties"].keys() - schema.get("required", ())
    kept = dict.fromkeys(EMPTIED.get(tool.name, []), "")
    assert normalize(tool, dict.fromkeys(optional, "")) == kept
    required = dict.fromkeys(schema.get("required", ()), "")
    texts = [name for name in required if isinstance(make_sample(schema["properties"][name]), str)]
    assert normalize(tool, required) == dict.fromkeys(texts, "")


def test_an_empty_entry_of_a_list_is_absent() -> None:
    for tool, name, sample in find_samples(list):
        assert normalize(tool, {name: [*sample, "", None]}) == {name: sample}
        emptied: dict[str, Any] = {name: []} if tool.effect is Effect.READ else {}
        assert normalize(tool, {name: [""]}) == emptied


def test_an_empty_list_reaches_only_a_tool_that_takes_it() -> None:
    for tool, name, _ in find_samples(list):
        arguments = normalize(tool, {name: []})
        parse_arguments(tool.input, make_required(get_schema(tool)) | arguments, tool.name)


def test_an_empty_field_of_an_item_is_absent_too() -> None:
    [add_task] = [tool for tool in tools() if tool.name == "add_task"]
    item = {"title": "", "due_date": "", "priority": ""}
    assert normalize(add_task, {"tasks": [item]}) == {"tasks": [{"title": ""}]}


@every_tool
def test_no_tool_has_an_argument_that_clients_add(tool: Tool[Any, Any]) -> None:
    added = dict.fromkeys(CLIENT_ARGUMENTS, "x")
    assert not CLIENT_ARGUMENTS & get_schema(tool)["properties"].keys()
    assert normalize(tool, {**added, "idempotency_key": ""}) == {}
