"""The catalogue offers a caller the tools that their tier, role and scopes allow."""

from __future__ import annotations

import pytest

from functions.gateway.catalog import Catalog, Declaration
from infra.build.discovery import get_group_name, tools
from shared.core.caller import Caller, Role, Scope, Tier
from shared.runtime.tool import Effect, Links
from tests.support.fake_catalog import SHELF, make_tool

ANYONE = Caller()
MEMBER = Caller.of("u-1")


def test_the_catalog_lists_every_public_tool_in_order() -> None:
    public_tools = Catalog.load().list_tools_for(ANYONE)
    public_names = [tool.name for tool in tools() if tool.tier is Tier.PUBLIC and not tool.internal]
    assert [tool.name for tool in public_tools] == sorted(public_names)


def test_catalog_does_not_change_declarations() -> None:
    catalog = Catalog.load()
    for tool in tools():
        if not tool.internal:
            declaration = catalog.get(tool.name, Caller.of("owner", role=Role.OWNER))
            assert declaration is not None
            assert declaration.model_dump(mode="json", by_alias=True) == tool.declaration() | {
                "group": get_group_name(tool)
            }


def test_a_tool_for_registered_callers_is_hidden_from_others(declaration: Declaration) -> None:
    private = declaration.model_copy(update={"name": "look_inside", "tier": Tier.REGISTERED})
    catalog = Catalog([declaration, private])
    assert catalog.list_tools_for(ANYONE) == [declaration]
    assert catalog.list_tools_for(MEMBER) == [private, declaration]
    assert catalog.get("look_inside", ANYONE) is None
    assert catalog.get("look_inside", MEMBER) == private


def test_a_tool_that_needs_a_role_or_scope_is_hidden_from_others() -> None:
    save = make_tool("save", tier=Tier.REGISTERED, role=Role.EDITOR, scope=Scope.WRITE)
    forget = make_tool("forget", tier=Tier.REGISTERED, role=Role.EDITOR, scope=Scope.CURATE)
    catalog = Catalog([forget, save])
    editor = Caller.of("ed", role=Role.EDITOR)
    writer = Caller.of("ed", frozenset({Scope.READ, Scope.WRITE}), role=Role.EDITOR)
    assert catalog.list_tools_for(MEMBER) == []
    assert catalog.list_tools_for(writer) == [save]
    assert catalog.list_tools_for(editor) == [forget, save]


def test_internal_tool_is_not_offered_to_clients(declaration: Declaration) -> None:
    update = {"internal": True, "completes": ["tag"], "name": "complete_tag"}
    internal_tool = declaration.model_copy(update=update)
    catalog = Catalog([declaration, internal_tool])
    assert catalog.list_tools_for(MEMBER) == [declaration]
    assert catalog.get("complete_tag", MEMBER) is None
    assert catalog.find_completer("tag", MEMBER) == internal_tool
    assert set(catalog.names) == {"complete_tag", declaration.name}


def test_resource_of_a_registered_tool_is_hidden_from_others() -> None:
    shelf = make_tool("get_shelf", tier=Tier.REGISTERED, resource=SHELF, completes=["shelf"])
    shelves = make_tool(
        "list_shelves",
        tier=Tier.REGISTERED,
        links=Links(
            items_field="shelves", uri_template=SHELF.uri, name_field="label", in_resource_list=True
        ),
    )
    catalog = Catalog([shelf, shelves])

    assert catalog.list_resource_templates_for(ANYONE) == []
    assert catalog.list_resource_listings_for(ANYONE) == []
    assert catalog.find_completer("shelf", ANYONE) is None
    assert catalog.list_resource_templates_for(MEMBER) == [(shelf, SHELF)]
    assert catalog.list_resource_listings_for(MEMBER) == [(shelves, shelves.links)]
    assert catalog.find_completer("shelf", MEMBER) == shelf


def test_an_unknown_tool_is_not_in_the_catalogue(declaration: Declaration) -> None:
    catalog = Catalog([declaration])
    assert catalog.get("nope", MEMBER) is None


@pytest.mark.parametrize(
    ("effect", "hints"),
    [
        (Effect.READ, {"read_only": True, "destructive": False, "idempotent": True}),
        (Effect.WRITE, {"read_only": False, "destructive": False, "idempotent": False}),
        (Effect.DESTROY, {"read_only": False, "destructive": True, "idempotent": False}),
    ],
)
def test_effect_determines_the_hints_for_clients(
    declaration: Declaration, effect: Effect, hints: dict[str, bool]
) -> None:
    annotations = declaration.model_copy(update={"effect": effect}).to_mcp().annotations
    assert annotations is not None
    assert annotations.read_only_hint == hints["read_only"]
    assert annotations.destructive_hint == hints["destructive"]
    assert annotations.idempotent_hint == hints["idempotent"]
