"""Settings of a deployment disable tools, and change their time limits and prices."""

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from functions.gateway.catalog import Catalog, Declaration
from shared.core.caller import Caller
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from tests.support.fake_catalog import BOOK, CATALOG, SHELF, FakeDispatcher, make_server, make_tool

ANNA = Caller.of("anna")


def fail_on_call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Fail the test if a tool is called."""
    raise AssertionError((tool, arguments))


def disable_tools(*names: str) -> Catalog:
    """Return the catalogue of a deployment that disables these tools."""
    return CATALOG.apply_settings(Settings(disabled_tools=names))


@pytest.mark.requirement("001-A2", "001-G9")
def test_setting_changes_the_price_of_a_tool() -> None:
    """And its time limit. By default, no tool changes."""
    catalog = Catalog(
        [make_tool("cheap", price=1), make_tool("expensive", price=9), make_tool("free")]
    )
    defaults = catalog.apply_settings(Settings())
    assert defaults.list_tools_for(ANNA) == catalog.list_tools_for(ANNA)
    assert defaults.names == catalog.names
    settings = Settings(tool_prices={"expensive": 0, "free": 5}, tool_timeouts={"cheap": 60.0})
    changed = catalog.apply_settings(settings).list_tools_for(ANNA)
    assert {tool.name: tool.price for tool in changed} == {"cheap": 1, "expensive": 0, "free": 5}
    timeout = make_tool("free").timeout
    assert [tool.timeout for tool in changed] == [60.0, timeout, timeout]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("disabled_tools", ("try_out", "serch")),
        ("tool_timeouts", {"serch": 60.0}),
        ("tool_prices", {"serch": 5}),
    ],
)
def test_setting_for_an_unknown_tool_is_rejected(
    declaration: Declaration, setting: str, value: Any
) -> None:
    message = f"{setting.upper()} names unknown tools: serch. The tools are: try_out."
    with pytest.raises(InvalidInput, match=message):
        Catalog([declaration]).apply_settings(Settings(**{setting: value}))


@pytest.mark.requirement("001-A1", "001-G3", "001-O1")
async def test_disabled_tool_is_neither_listed_nor_callable() -> None:
    catalog = disable_tools("get_book", "complete_name")
    errors = {}
    async with Client(
        make_server(FakeDispatcher(fail_on_call), catalog), mode="2026-07-28"
    ) as client:
        listed_names = [tool.name for tool in (await client.list_tools()).tools]
        for name in ("get_book", "get_bock"):
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, {})
            errors[name] = (caught.value.code, caught.value.message.replace("bock", "book"))
        templates = (await client.list_resource_templates()).resource_templates
        with pytest.raises(MCPError, match=f"look like: {SHELF.uri}"):
            await client.read_resource("carrel://book/b-1")
        reference = ResourceTemplateReference(uri=SHELF.uri)
        completion = await client.complete(reference, {"name": "shelf_id", "value": "s"})

    assert listed_names == ["get_shelf", "list_books", "list_shelves"]
    assert errors["get_book"] == errors["get_bock"]
    assert f"The tools are: {', '.join(listed_names)}." in errors["get_book"][1]
    assert [template.uri_template for template in templates] == [SHELF.uri]
    assert completion.completion.values == []
    assert "complete_name" not in catalog.names
    assert catalog.get("get_book", ANNA) is None
    assert catalog.find_forbidden("get_book", Caller()) is None
    assert BOOK not in [template for _, template in catalog.list_resource_templates_for(ANNA)]


async def test_a_disabled_tools_resource_is_not_listed() -> None:
    dispatcher = FakeDispatcher(lambda *_: {"shelves": [{"shelf_id": "s", "label": "S"}]})
    catalog = disable_tools("get_book")
    async with Client(make_server(dispatcher, catalog), mode="2026-07-28") as client:
        resources = (await client.list_resources()).resources
    assert [resource.uri for resource in resources] == ["carrel://shelf/s"]
    assert [name for name, _ in dispatcher.calls] == ["list_shelves"]
