"""What every tool must keep, whoever writes it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.deploy import generated
from infra.deploy.discovery import tools
from shared.calling import parse
from shared.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.tool import Tool

TOOLS = tools()
FORBIDDEN = {"mcp", "mcp_types", "flask", "starlette", "functions_framework", "functions", "infra"}

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def module_of(tool: Tool[Any, Any]) -> Path:
    return Path(inspect.getfile(tool.input))


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON schema, the schema itself first."""
    if isinstance(schema, dict):
        yield schema
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children:
        if isinstance(child, dict | list):
            yield from nodes(child)


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in nodes(schema):
        if node.get("type") == "object":
            yield from node.get("properties", {}).items()


def test_there_are_tools() -> None:
    assert {"get_chunk", "search_kb"} <= {tool.name for tool in TOOLS}


@every_tool
def test_a_tools_name_is_a_verb_and_a_noun_and_its_folder(tool: Tool[Any, Any]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool.name)
    assert module_of(tool).parent.name == tool.name


@every_tool
def test_a_tools_folder_holds_a_declaration_and_an_entry_point(tool: Tool[Any, Any]) -> None:
    names = {path.name for path in module_of(tool).parent.glob("*.py")}
    assert {"tool.py", "main.py"} <= names


@every_tool
def test_a_tool_has_a_title_and_says_when_to_use_it(tool: Tool[Any, Any]) -> None:
    assert tool.title
    assert len(tool.description) > 80


@every_tool
@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
def test_every_field_is_described(tool: Tool[Any, Any], side: str) -> None:
    schema = tool.declaration()[side]
    assert schema["type"] == "object"
    undescribed = [name for name, field in properties(schema) if not field.get("description")]
    assert undescribed == []


@every_tool
@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
def test_schemas_hold_no_references(tool: Tool[Any, Any], side: str) -> None:
    assert "$ref" not in json.dumps(tool.declaration()[side])
    assert "$defs" not in json.dumps(tool.declaration()[side])


@every_tool
def test_unknown_fields_are_rejected(tool: Tool[Any, Any]) -> None:
    assert tool.declaration()["inputSchema"]["additionalProperties"] is False
    with pytest.raises(InvalidInput) as caught:
        parse(tool, {"no_such_field": 1})
    assert "not a parameter" in caught.value.details["no_such_field"]


@every_tool
def test_every_list_and_text_in_the_input_is_bounded(tool: Tool[Any, Any]) -> None:
    bounds = {"string": {"maxLength", "enum", "format", "const"}, "array": {"maxItems"}}
    unbounded = [
        node
        for node in nodes(tool.declaration()["inputSchema"])
        if node.get("type") in bounds and not bounds[node["type"]] & node.keys()
    ]
    assert unbounded == []


@every_tool
def test_a_tool_knows_no_transport_and_no_other_tool(tool: Tool[Any, Any]) -> None:
    tree = ast.parse(module_of(tool).read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _names(node)
    }
    assert imported & FORBIDDEN == set()


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


@every_tool
def test_a_handler_says_how_deep_it_goes(tool: Tool[Any, Any]) -> None:
    assert "round trip" in (inspect.getdoc(tool.run) or "")


@every_tool
def test_a_tool_has_time_to_answer_but_not_for_ever(tool: Tool[Any, Any]) -> None:
    assert 0 < tool.timeout <= 60


def test_generated_files_say_what_the_declarations_say() -> None:
    assert generated.stale() == []
