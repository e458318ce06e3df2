"""The catalogue offers a caller the tools that their tier, role and scopes allow."""

from functions.gateway.catalog import Catalog, Declaration
from infra.build.discovery import get_group_name, tools
from shared.core.caller import Caller, Role, Scope, Tier
from shared.runtime.tool import Effect, ResourceListing
from tests.support.fake_catalog import SHELF, make_tool

ANYONE = Caller()
MEMBER = Caller.of("u-1")


def test_the_catalog_lists_every_declaration_unchanged_in_order() -> None:
    catalog = Catalog.load()
    public_names = [tool.name for tool in tools() if tool.tier is Tier.PUBLIC and not tool.internal]
    assert [tool.name for tool in catalog.list_tools_for(ANYONE)] == sorted(public_names)
    for tool in tools():
        declaration = catalog.get(tool.name, Caller.of("owner", role=Role.OWNER))
        assert (declaration is None) == tool.internal
        if declaration:
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
    assert catalog.get("nope", MEMBER) is None


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
        listing=ResourceListing(items_field="shelves", uri_template=SHELF.uri, name_field="label"),
    )
    catalog = Catalog([shelf, shelves])

    assert catalog.list_resource_templates_for(ANYONE) == []
    assert catalog.list_resource_listings_for(ANYONE) == []
    assert catalog.find_completer("shelf", ANYONE) is None
    assert catalog.list_resource_templates_for(MEMBER) == [(shelf, SHELF)]
    assert catalog.list_resource_listings_for(MEMBER) == [(shelves, shelves.listing)]
    assert catalog.find_completer("shelf", MEMBER) == shelf


def test_effect_determines_the_hints_for_clients(declaration: Declaration) -> None:
    hints = []
    for effect in Effect:
        annotations = declaration.model_copy(update={"effect": effect}).to_mcp().annotations
        assert annotations
        hints.append(
            (annotations.read_only_hint, annotations.destructive_hint, annotations.idempotent_hint)
        )
    assert hints == [(True, False, None), (False, False, None), (False, True, None)]
