"""Arguments are read as their client meant them, where they can mean one thing."""

import json
from typing import Any

import pytest

from functions.gateway.calls.normalization import MAX_PARSED_CHARACTERS, normalize_arguments

TEXT = {"type": "string"}
NAMES = {"type": "array", "items": TEXT}
FILTERS = {
    "type": "object",
    "properties": {
        "tags": NAMES,
        "author": TEXT,
        "days": {"type": "object", "properties": {"start": TEXT}},
    },
}
TASK = {"type": "object", "properties": {"title": TEXT, "due": TEXT}, "required": ["title"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "query": TEXT,
        "limit": {"type": "integer"},
        "share": {"type": "number"},
        "done": {"type": "boolean"},
        "tags": NAMES,
        "filters": FILTERS,
        "tasks": {"type": "array", "items": TASK},
        "details": {"anyOf": [TEXT, {"type": "null"}]},
    },
    "required": ["query"],
}


def normalize(arguments: dict[str, Any], *, is_read: bool = True) -> dict[str, Any]:
    """Normalize arguments for the schema above."""
    return normalize_arguments(arguments, SCHEMA, is_read=is_read)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": " 2.0 "}, {"limit": 2.0}),
        ({"share": "0.5"}, {"share": 0.5}),
        *(({"done": "true"}, {"done": True}), ({"done": "False"}, {"done": False})),
        ({"limit": "null", "done": "None"}, {}),
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ({"tags": "a"}, {"tags": ["a"]}),
        ({"tags": "12"}, {"tags": ["12"]}),
        ({"tags": ["a", None, ""]}, {"tags": ["a"]}),
        ({"tags": [None]}, {"tags": []}),
        ({"filters": '{"tags": "[\\"a\\"]", "author": null}'}, {"filters": {"tags": ["a"]}}),
        ({"filters": {"author": "", "days": {"start": None}}}, {"filters": {"days": {}}}),
        ({"tasks": {"title": "t", "due": None}}, {"tasks": [{"title": "t"}]}),
        ({"tasks": ['{"title": "t"}', {"title": None}]}, {"tasks": [{"title": "t"}, {}]}),
        ({"tasks": '{"title": "t", "due": ""}'}, {"tasks": [{"title": "t"}]}),
        ({"author": "", "filters": {"tag": None}}, {"filters": {}}),  # unknown, and not set
        ({"filters": [], "tags": []}, {"filters": {}}),
        ({"filters": "[]", "tags": "[]"}, {"filters": {}}),
        ({"limit": "", "share": " ", "done": "\n", "tags": " ", "filters": ""}, {}),
        ({"query": None, "details": None}, {"details": None}),
    ],
)
def test_what_can_mean_one_thing_is_read(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        *({"query": ""}, {"query": 5}, {"query": "[1]"}),  # it is required
        *({"limit": "five"}, {"limit": True}, {"limit": "true"}, {"limit": "1_000"}),
        *({"done": "1"}, {"done": "yes"}),
        *({"tags": "a, b"}, {"tags": "['a', 'b']"}, {"tags": '"a"'}, {"tags": {"0": "a"}}),
        {"filters": "tags: a"},
        {"filters": '{"author": "a", "author": "b"}'},
        {"filters": '["a"]'},
        {"filters": '"{}"'},  # JSON in JSON
        {"filters": '{"author": "\\ud83d"}'},
        {"filters": "[" * 100_000},
        {"tasks": "buy milk"},
        {"tags": json.dumps(["a" * MAX_PARSED_CHARACTERS])},
        {"limits": "5"},
    ],
)
def test_what_could_mean_two_things_is_left_as_it_is(given: dict[str, Any]) -> None:
    assert normalize(given) == given


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["a", "", None], {"tags": ["a"]}),
        ([], {"tags": []}),
        ("[]", {"tags": []}),
        ([""], {}),
        ([None, ""], {}),
        ('[""]', {}),
        ("", {}),
    ],
)
def test_a_tool_that_writes_gets_no_emptied_list(tags: Any, expected: dict[str, Any]) -> None:
    """An empty list may mean that all tags are to be removed."""
    assert normalize({"tags": tags}, is_read=False) == expected


def test_a_tool_that_writes_names_what_is_absent_if_empty() -> None:
    given = {"query": "", "details": "", "tags": [], "tasks": [{"title": "", "due": ""}]}
    absent = ["query", "due", "tags"]
    assert normalize_arguments(given, SCHEMA, is_read=False, absent_if_empty=absent) == {
        "query": "",  # required
        "details": "",
        "tasks": [{"title": ""}],
    }
    kept: dict[str, Any] = {"query": "", "details": "", "filters": {"author": ""}, "unknown": None}
    assert normalize(kept, is_read=False) == kept


def test_infinite_numbers_and_deep_lists_are_left_to_the_check() -> None:
    deep = "[" * 100 + "]" * 100
    assert normalize({"limit": "1e999"}) == {"limit": float("inf")}
    assert normalize({"tags": deep}) == {"tags": json.loads(deep)}
