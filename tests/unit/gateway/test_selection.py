"""The query of the endpoint's address selects groups of tools, with their prompts and resources."""

from itertools import chain, combinations
from typing import Any

import pytest
from mcp import Client

from functions.gateway.catalog import Catalog
from functions.gateway.mcp.instructions import INSTRUCTIONS, build_instructions
from functions.gateway.mcp.prompt_texts import PROMPTS
from functions.gateway.mcp.selection import SelectedServers, ToolSelection
from infra.build.discovery import get_group_name, tools
from shared.core.caller import Caller, Role
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.runtime.tool import Effect
from tests.support.fake_catalog import FakeDispatcher, make_pipeline, make_server

CATALOG = Catalog.load()
GROUPS = {"extractions", "knowledge", "reviews", "tasks", "traces", "workspaces"}
OWNER = Caller.of("anna", role=Role.OWNER)


def select(query: str) -> Catalog:
    """Return the catalogue at an address with this query."""
    selection = ToolSelection.parse(query, CATALOG.groups)
    return CATALOG.select(selection.groups, read_only=selection.read_only)


def list_names(catalog: Catalog) -> set[str]:
    return {tool.name for tool in catalog.list_tools_for(OWNER)}


GROUP_QUERIES = [
    f"tools={','.join(groups)}"
    for groups in chain.from_iterable(combinations(sorted(GROUPS), n) for n in range(1, 7))
]
"""A query for each combination of groups."""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", list_names(CATALOG)),
        ("tools=workspaces", {"extract_key_info"}),
        ("tools=%20workspaces", {"extract_key_info"}),
        ("readonly&tools=tasks", {"list_tasks"}),
        ("tools=tasks&readonly=true", {"list_tasks"}),
    ],
)
def test_a_query_selects_tools(query: str, expected: set[str]) -> None:
    assert list_names(select(query)) == expected


@pytest.mark.parametrize("query", GROUP_QUERIES)
def test_a_selection_has_all_tools_of_its_groups(query: str) -> None:
    groups = set(query.removeprefix("tools=").split(","))
    visible_tools = [
        tool for tool in tools() if not tool.internal and get_group_name(tool) in groups
    ]
    assert list_names(select(query)) == {tool.name for tool in visible_tools}
    reading_tools = {tool.name for tool in visible_tools if tool.effect is Effect.READ}
    assert list_names(select(f"{query}&readonly")) == reading_tools


@pytest.mark.parametrize(
    "query",
    [
        *("tools=", "tools=knowledge,", "tools=Knowledge", "tools=nothing"),
        *("tools=tasks,tasks", "tools=tasks&tools=tasks", "tools=chatgpt,chatgpt"),
        *("tool=knowledge", "read_only", "readonly=false", "readonly=0", "%F0%28%8C%28"),
    ],
)
def test_an_error_for_an_invalid_query_lists_the_groups(query: str) -> None:
    with pytest.raises(InvalidInput, match="extractions,knowledge,reviews,tasks,traces,workspaces"):
        ToolSelection.parse(query, CATALOG.groups)


@pytest.mark.parametrize("query", [*GROUP_QUERIES, "readonly"])
def test_instructions_listings_and_prompts_fit_the_selection(query: str) -> None:
    catalog = select(query)
    hidden_names = set(CATALOG.names) - set(catalog.names)
    assert CATALOG.groups == GROUPS
    assert catalog.removed_names == hidden_names

    instruction_words = build_instructions(catalog).replace(".", " ").replace(",", " ").split()
    assert hidden_names.isdisjoint(instruction_words)

    uris = {tool.resource.uri for tool in catalog.list_tools_for(OWNER) if tool.resource}
    listings = catalog.list_resource_listings_for(OWNER)
    assert {listing.uri_template for _, listing in listings} <= uris

    prompts = [prompt for prompt in PROMPTS if catalog.offers_all_in(prompt.example)]
    assert prompts == (list(PROMPTS) if "search_kb" in catalog.names else [])


def test_settings_limit_the_tools_that_addresses_select() -> None:
    catalog = CATALOG.apply_settings(Settings(tool_groups=("tasks", "traces"), read_only=True))
    assert catalog.groups == {"tasks", "traces"}
    assert list_names(catalog) == {"list_tasks", "search_traces", "get_trace", "list_tags"}
    with pytest.raises(InvalidInput, match="one or more of tasks,traces,"):
        ToolSelection.parse("tools=knowledge", catalog.groups)
    with pytest.raises(InvalidInput, match="unknown groups: notes"):
        CATALOG.apply_settings(Settings(tool_groups=("notes",)))
    assert build_instructions(select("")) == INSTRUCTIONS


def test_a_selection_has_one_server() -> None:
    servers = SelectedServers(CATALOG, make_pipeline(FakeDispatcher(lambda *_: {})))
    assert servers.find("tools=tasks,traces") is servers.find("tools=traces,tasks&")
    assert servers.find("") is not servers.find("readonly")


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_prompts_and_resources_of_other_groups_are_not_listed(mode: Any) -> None:
    dispatcher = FakeDispatcher(lambda *_: {})
    async with Client(make_server(dispatcher, select("tools=tasks")), mode=mode) as client:
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_resources()).resources == []
    assert dispatcher.calls == []
