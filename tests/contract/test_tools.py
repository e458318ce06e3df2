"""Every tool has a name, schemas, texts and limits that follow the rules."""

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.inbound import X_MCP_HEADER_KEY

from functions.gateway.catalog import Catalog
from functions.gateway.mcp.instructions import build_instructions
from functions.gateway.mcp.resources import get_variable_name
from functions.gateway.mcp.results import to_compact_json
from infra.build import generated
from infra.build.discovery import ROOT, get_package_name, tools
from shared.core.caller import Tier
from shared.core.json_schema import inline_references
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from tests.examples.base import OWNER
from tests.support.notebook_tools import TOOLS as NOTEBOOK

TOOLS = tools()
TRANSPORTS = {"mcp", "mcp_types", "flask", "starlette", "functions_framework"}

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def every_tool_with(condition: Callable[[Tool[Any, Any]], object]) -> pytest.MarkDecorator:
    """Mark a test of the tools that fulfil a condition, of which there must be some."""
    selected = [tool for tool in TOOLS if condition(tool)]
    assert selected
    return pytest.mark.parametrize("tool", selected, ids=lambda tool: tool.name)


def test_tools_that_write_need_sign_in_and_are_idempotent() -> None:
    writing = [tool for tool in (*TOOLS, *NOTEBOOK) if tool.effect is not Effect.READ]
    assert writing
    assert {tool.tier for tool in writing} == {Tier.REGISTERED}
    idempotent = [
        tool for tool in (*TOOLS, *NOTEBOOK) if issubclass(tool.input, IdempotentArguments)
    ]
    assert writing == idempotent


def find_module(tool: Tool[Any, Any]) -> Path:
    """Return the file that declares a tool."""
    return Path(inspect.getfile(tool.input))


def build_input_schema(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the schema by which a tool checks its arguments; clients see a part of it."""
    return inline_references(tool.input.model_json_schema(mode="validation"))


def build_output_schema(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the whole schema of a tool's result; clients see a part of it."""
    return inline_references(tool.output.model_json_schema(mode="serialization"))


def iterate_nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a JSON schema, the schema itself first."""
    if isinstance(schema, dict):
        yield schema
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children:
        if isinstance(child, dict | list):
            yield from iterate_nodes(child)


def iterate_properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the schema of every field of every object in a schema."""
    for node in iterate_nodes(schema):
        if node.get("type") == "object":
            yield from node.get("properties", {}).items()


def get_item_fields(schema: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the fields of the items of a list, which may be nullable."""
    lists = (
        node for node in iterate_nodes(schema["properties"][field]) if node.get("type") == "array"
    )
    fields: dict[str, Any] = next(lists)["items"]["properties"]
    return fields


def test_tools_are_discovered() -> None:
    assert {"get_chunk", "search_kb"} <= {tool.name for tool in TOOLS}


@pytest.mark.requirement(
    "000-I1", "000-T3.1", "000-T4.1", "000-T5.1", "000-T6.2", "000-T6.4", "001-C1"
)
@every_tool
def test_a_tools_name_begins_with_a_verb_and_names_its_folder(tool: Tool[Any, Any]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tool.name)
    assert find_module(tool).parent.name == tool.name


@pytest.mark.requirement("000-S1", "002-A1", "002-V4", "003-D13", "004-U1")
@every_tool
def test_a_tools_folder_has_a_declaration_and_no_entry_point(tool: Tool[Any, Any]) -> None:
    """The build writes its `main.py`."""
    names = {path.name for path in find_module(tool).parent.glob("*.py")}
    assert {"tool.py", "main.py"} & names == {"tool.py"}


@every_tool
def test_the_idempotency_key_is_the_last_field(tool: Tool[Any, Any]) -> None:
    fields = list(tool.declaration()["inputSchema"]["properties"])
    assert "idempotency_key" not in fields[:-1]


@pytest.mark.requirement("002-I4")
@every_tool
def test_a_tool_has_a_title_and_a_long_description(tool: Tool[Any, Any]) -> None:
    assert tool.title
    assert len(tool.description) > 80


@pytest.mark.requirement("000-I3", "002-I4", "003-D3", "004-T2.1")
@every_tool
def test_every_field_is_described(tool: Tool[Any, Any]) -> None:
    models = {
        "in": tool.input.model_json_schema(mode="validation"),
        "out": tool.output.model_json_schema(mode="serialization"),
    }
    undescribed = [
        name
        for model in models.values()
        for name, field in iterate_properties(inline_references(model))
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

    assert {name: size for name, size in sizes.items() if size > 2_000} == {}, sizes


@pytest.mark.parametrize(("groups", "limit"), [(None, 22_000), ({"knowledge"}, 9_000)])
def test_what_a_model_reads_of_the_list_is_short(groups: set[str] | None, limit: int) -> None:
    """These parts of a declaration reach models, with the instructions."""
    catalog = Catalog.load()
    selected = catalog.select(groups or catalog.groups)
    parts = ("name", "description", "input_schema")
    declarations = [tool.model_dump(include={*parts}) for tool in selected.list_tools_for(OWNER)]
    size = len(to_compact_json(declarations)) + len(build_instructions(selected))
    assert size <= limit


@pytest.mark.requirement("003-D3")
@every_tool
@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
def test_schemas_have_no_references(tool: Tool[Any, Any], side: str) -> None:
    assert "$ref" not in json.dumps(tool.declaration()[side])
    assert "$defs" not in json.dumps(tool.declaration()[side])


@every_tool
def test_no_argument_is_declared_for_a_header(tool: Tool[Any, Any]) -> None:
    """The endpoint does not compare arguments with headers, as the SDK's app does."""
    assert X_MCP_HEADER_KEY not in json.dumps(tool.declaration()["inputSchema"])


@every_tool
def test_inputs_accept_no_unknown_fields(tool: Tool[Any, Any]) -> None:
    objects = [
        node for node in iterate_nodes(build_input_schema(tool)) if node.get("type") == "object"
    ]
    assert {node.get("additionalProperties") for node in objects} == {False}


@every_tool
def test_published_schemas_accept_unknown_fields(tool: Tool[Any, Any]) -> None:
    """Clients store schemas, and must accept fields that are added later."""
    schemas = [tool.declaration()[side] for side in ("inputSchema", "outputSchema")]
    assert False not in [node.get("additionalProperties") for node in iterate_nodes(schemas)]


@every_tool
def test_every_list_and_text_in_the_input_is_bounded(tool: Tool[Any, Any]) -> None:
    bounds = {"string": {"maxLength", "enum", "format", "const"}, "array": {"maxItems"}}
    unbounded = [
        node
        for node in iterate_nodes(build_input_schema(tool))
        if node.get("type") in bounds and not bounds[node["type"]] & node.keys()
    ]
    assert unbounded == []


@pytest.mark.requirement("000-I4", "001-A3", "002-P2", "003-D2")
@every_tool
def test_a_tool_imports_no_transport_and_no_other_tool(tool: Tool[Any, Any]) -> None:
    folder = find_module(tool).parent
    imported_names = {
        name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _list_imported_names(node)
    }
    own_prefix = f"{get_package_name(tool)}."
    other_packages = {
        name.partition(".")[0] for name in imported_names if not f"{name}.".startswith(own_prefix)
    }

    assert other_packages & {*TRANSPORTS, "functions", "infra"} == set()


def _list_imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


@every_tool
def test_a_handler_documents_its_round_trips(tool: Tool[Any, Any]) -> None:
    assert "round trip" in (inspect.getdoc(tool.run) or "")


@every_tool
def test_a_time_limit_is_at_most_a_minute(tool: Tool[Any, Any]) -> None:
    assert 0 < tool.time_limit <= 60


@every_tool_with(lambda tool: tool.resource)
def test_a_resource_needs_only_the_id_in_its_uri(tool: Tool[Any, Any]) -> None:
    assert tool.resource
    schema = build_input_schema(tool)
    assert schema["required"] == [get_variable_name(tool.resource.uri)]
    assert "pattern" in schema["properties"][get_variable_name(tool.resource.uri)]
    assert tool.resource.uri.startswith("carrel://")
    assert all((tool.resource.name, tool.resource.title, tool.resource.description))


def test_no_two_tools_share_a_resource_or_complete_a_name() -> None:
    resources = [tool.resource.uri for tool in TOOLS if tool.resource]
    kinds = [kind for tool in TOOLS for kind in tool.completes]
    assert len(set(resources)) == len(resources)
    assert len(set(kinds)) == len(kinds)


@every_tool_with(lambda tool: tool.listing)
def test_a_listing_has_fields_of_a_resource_and_pages(tool: Tool[Any, Any]) -> None:
    assert tool.listing
    declared = tool.declaration()
    fields = get_item_fields(build_output_schema(tool), tool.listing.items_field)
    assert {get_variable_name(tool.listing.uri_template), tool.listing.name_field} <= fields.keys()
    assert tool.listing.uri_template in {other.resource.uri for other in TOOLS if other.resource}
    assert "cursor" in declared["inputSchema"]["properties"]
    assert not declared["inputSchema"].get("required")
    assert "next_cursor" in declared["outputSchema"]["properties"]


@every_tool_with(lambda tool: tool.completes)
def test_a_completing_tool_is_internal_and_takes_a_prefix(tool: Tool[Any, Any]) -> None:
    inputs, outputs = tool.declaration()["inputSchema"], build_output_schema(tool)
    assert tool.internal
    assert {"kind", "prefix"} <= inputs["properties"].keys()
    assert set(inputs["required"]) <= {"kind", "prefix"}
    assert set(tool.completes) <= set(inputs["properties"]["kind"]["enum"])
    assert {"names", "total"} <= outputs["properties"].keys()
    assert {"name", "id"} <= get_item_fields(outputs, "names").keys()


@every_tool_with(lambda tool: tool.internal and not tool.completes)
def test_the_console_calls_an_internal_tool(tool: Tool[Any, Any]) -> None:
    """Unless it completes names, a page shows what it returns."""
    console = ROOT / "functions" / "gateway" / "console"
    assert any(f'"{tool.name}"' in path.read_text() for path in console.glob("*.py"))


@pytest.mark.requirement("003-D1", "004-T2.2")
def test_generated_files_are_up_to_date() -> None:
    assert generated.find_stale_files() == []


def test_a_missing_catalogue_is_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generated, "CATALOG", tmp_path / "catalog.json")
    assert generated.find_stale_files() == [generated.CATALOG]
    generated.write_file(generated.CATALOG)
    assert generated.find_stale_files() == []
