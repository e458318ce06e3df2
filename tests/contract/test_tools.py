"""Rules for every tool."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.inbound import X_MCP_HEADER_KEY

from functions.gateway.mcp.resource_links import get_variable_name
from infra.build import generated
from infra.build.discovery import ROOT, get_package_name, tools
from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.core.json_schema import inline_references
from shared.runtime.invocation import parse_arguments
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect
from tests.support.notebook_tools import TOOLS as NOTEBOOK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.tool import Tool

TOOLS = tools()
FORBIDDEN = {"mcp", "mcp_types", "flask", "starlette", "functions_framework", "functions", "infra"}

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def test_tools_that_write_need_sign_in_and_are_idempotent() -> None:
    writing = [tool for tool in (*TOOLS, *NOTEBOOK) if tool.effect is not Effect.READ]
    assert writing
    assert {tool.tier for tool in writing} == {Tier.REGISTERED}
    idempotent = [
        tool for tool in (*TOOLS, *NOTEBOOK) if issubclass(tool.input, IdempotentArguments)
    ]
    assert writing == idempotent


def module_path(tool: Tool[Any, Any]) -> Path:
    return Path(inspect.getfile(tool.input))


def input_model(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return what a tool checks, of which clients see a part."""
    return inline_references(tool.input.model_json_schema(mode="validation"))


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a JSON schema, the schema itself first."""
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


def item_fields(schema: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the fields of the items of a list, which may be nullable."""
    lists = (node for node in nodes(schema["properties"][field]) if node.get("type") == "array")
    fields: dict[str, Any] = next(lists)["items"]["properties"]
    return fields


def test_there_are_tools() -> None:
    assert {"get_chunk", "search_kb"} <= {tool.name for tool in TOOLS}


@every_tool
def test_a_tools_name_begins_with_a_verb_and_names_its_folder(tool: Tool[Any, Any]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tool.name)
    assert module_path(tool).parent.name == tool.name


@every_tool
def test_a_tools_folder_has_a_declaration_and_no_entry_point(tool: Tool[Any, Any]) -> None:
    """The build writes its `main.py`."""
    names = {path.name for path in module_path(tool).parent.glob("*.py")}
    assert {"tool.py", "main.py"} & names == {"tool.py"}


@every_tool
def test_the_idempotency_key_is_the_last_field(tool: Tool[Any, Any]) -> None:
    fields = list(tool.declaration()["inputSchema"]["properties"])
    assert "idempotency_key" not in fields[:-1]


@every_tool
def test_a_tool_has_a_title_and_says_when_to_use_it(tool: Tool[Any, Any]) -> None:
    assert tool.title
    assert len(tool.description) > 80


@every_tool
def test_every_field_is_described(tool: Tool[Any, Any]) -> None:
    models = {
        "in": tool.input.model_json_schema(mode="validation"),
        "out": tool.output.model_json_schema(mode="serialization"),
    }
    undescribed = [
        name
        for model in models.values()
        for name, field in properties(inline_references(model))
        if not field.get("description")
    ]
    assert undescribed == []


def test_declarations_are_short() -> None:
    """Every conversation pays for the list of tools before its first word."""
    declarations = [tool.declaration() for tool in TOOLS if not tool.internal]
    sizes = {
        declared["name"]: sum(
            len(json.dumps(declared[part], separators=(",", ":"), ensure_ascii=False))
            for part in ("description", "inputSchema", "outputSchema")
        )
        for declared in declarations
    }
    table = "\n".join(f"{size:6} {name}" for name, size in sorted(sizes.items()))
    sys.stdout.write(f"{table}\n")
    assert {name: size for name, size in sizes.items() if size > 4_000} == {}, sizes
    assert mean(sizes.values()) < 1.6 * 1024, sizes


@every_tool
@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
def test_schemas_have_no_references(tool: Tool[Any, Any], side: str) -> None:
    assert "$ref" not in json.dumps(tool.declaration()[side])
    assert "$defs" not in json.dumps(tool.declaration()[side])


@every_tool
def test_no_argument_is_repeated_in_a_header(tool: Tool[Any, Any]) -> None:
    """The endpoint does not compare arguments with headers, as the SDK's app does."""
    assert X_MCP_HEADER_KEY not in json.dumps(tool.declaration()["inputSchema"])


@every_tool
def test_inputs_are_closed(tool: Tool[Any, Any]) -> None:
    objects = [node for node in nodes(input_model(tool)) if node.get("type") == "object"]
    assert {node.get("additionalProperties") for node in objects} == {False}


@every_tool
def test_published_objects_are_open(tool: Tool[Any, Any]) -> None:
    """Clients store schemas, and must accept fields that are added later."""
    schemas = [tool.declaration()[side] for side in ("inputSchema", "outputSchema")]
    assert False not in [node.get("additionalProperties") for node in nodes(schemas)]


@every_tool
def test_unknown_fields_are_rejected(tool: Tool[Any, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(tool.input, {"no_such_field": 1}, tool.name)
    assert "not a parameter" in caught.value.details["no_such_field"]


@every_tool
def test_every_list_and_text_in_the_input_is_bounded(tool: Tool[Any, Any]) -> None:
    bounds = {"string": {"maxLength", "enum", "format", "const"}, "array": {"maxItems"}}
    unbounded = [
        node
        for node in nodes(input_model(tool))
        if node.get("type") in bounds and not bounds[node["type"]] & node.keys()
    ]
    assert unbounded == []


@every_tool
def test_a_tool_imports_no_transport_and_no_other_tool(tool: Tool[Any, Any]) -> None:
    folder = module_path(tool).parent
    imported = {
        name.partition(".")[0]
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _get_names(node)
        if not f"{name}.".startswith(f"{get_package_name(tool)}.")
    }
    assert imported & FORBIDDEN == set()


def _get_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


@every_tool
def test_a_handler_documents_its_round_trips(tool: Tool[Any, Any]) -> None:
    assert "round trip" in (inspect.getdoc(tool.run) or "")


@every_tool
def test_a_time_limit_is_at_most_a_minute(tool: Tool[Any, Any]) -> None:
    assert 0 < tool.time_limit <= 60


@every_tool
def test_a_resource_needs_only_the_id_in_its_uri(tool: Tool[Any, Any]) -> None:
    if tool.resource:
        schema = input_model(tool)
        assert schema["required"] == [get_variable_name(tool.resource.uri)]
        assert "pattern" in schema["properties"][get_variable_name(tool.resource.uri)]
        assert tool.resource.uri.startswith("carrel://")
        assert all((tool.resource.name, tool.resource.title, tool.resource.description))


@every_tool
def test_links_use_fields_of_the_result(tool: Tool[Any, Any]) -> None:
    if tool.links:
        fields = item_fields(tool.declaration()["outputSchema"], tool.links.items_field)
        assert {get_variable_name(tool.links.uri_template), tool.links.name_field} <= fields.keys()


@every_tool
def test_a_link_leads_to_a_declared_resource(tool: Tool[Any, Any]) -> None:
    if tool.links:
        assert tool.links.uri_template in {other.resource.uri for other in TOOLS if other.resource}


def test_no_two_tools_share_a_resource_or_complete_a_name() -> None:
    resources = [tool.resource.uri for tool in TOOLS if tool.resource]
    kinds = [kind for tool in TOOLS for kind in tool.completes]
    assert len(set(resources)) == len(resources)
    assert len(set(kinds)) == len(kinds)


@every_tool
def test_a_listed_tool_is_paged_by_a_cursor_only(tool: Tool[Any, Any]) -> None:
    if tool.links and tool.links.in_resource_list:
        declared = tool.declaration()
        assert "cursor" in declared["inputSchema"]["properties"]
        assert not declared["inputSchema"].get("required")
        assert "next_cursor" in declared["outputSchema"]["properties"]


@every_tool
def test_a_completing_tool_takes_a_kind_and_a_prefix(tool: Tool[Any, Any]) -> None:
    if tool.completes:
        inputs, outputs = (tool.declaration()[side] for side in ("inputSchema", "outputSchema"))
        assert {"kind", "prefix"} <= inputs["properties"].keys()
        assert set(inputs["required"]) <= {"kind", "prefix"}
        assert set(tool.completes) <= set(inputs["properties"]["kind"]["enum"])
        assert {"names", "total"} <= outputs["properties"].keys()
        assert {"name", "id"} <= item_fields(outputs, "names").keys()


@every_tool
def test_an_internal_tool_is_called_by_the_gateway(tool: Tool[Any, Any]) -> None:
    """It completes names, or a page of the console shows what it returns."""
    console = ROOT / "functions" / "gateway" / "console"
    called = any(f'"{tool.name}"' in path.read_text() for path in console.glob("*.py"))
    assert not tool.internal or tool.completes or called


@every_tool
def test_only_an_internal_tool_completes_names(tool: Tool[Any, Any]) -> None:
    assert tool.internal or not tool.completes


def test_generated_files_are_up_to_date() -> None:
    assert generated.find_stale_files() == []
