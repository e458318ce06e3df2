"""Roles and scopes decide which tools a caller sees and may call."""

import pytest

from infra.build.discovery import tools
from shared.core.caller import FULL_ACCESS, Role, Scope, Tier
from shared.runtime.tool import Effect
from tests.support.access import Carrel, MakeKey, make_key_with_role, run_on_access_store
from tests.support.mcp_wire import TOOL_NAMES

VISIBLE_TOOLS = [tool for tool in tools() if tool.name in TOOL_NAMES]
WRITE_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.effect is not Effect.READ}
CURATING_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.role is not Role.READER}
PUBLIC_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.tier is Tier.PUBLIC}


def list_tools(carrel: Carrel, key: str | None) -> set[str]:
    """Return the names of the tools that a caller sees."""
    response = carrel.send_request(key, "tools/list")
    return {tool["name"] for tool in response.json()["result"]["tools"]}


@pytest.mark.parametrize("tool", sorted(CURATING_TOOLS))
def test_a_reader_cannot_curate_and_learns_which_role_is_needed(
    carrel: Carrel, make_key: MakeKey, tool: str
) -> None:
    key = make_key("roles.reader")
    assert tool not in list_tools(carrel, key)
    error = carrel.call_tool(key, tool).json()["error"]
    assert error["data"]["code"] == "FORBIDDEN"
    assert "carrel accounts role roles.reader editor" in error["message"]


@pytest.mark.parametrize("role", [Role.EDITOR, Role.OWNER])
def test_a_new_role_applies_from_the_next_call(
    carrel: Carrel, make_key: MakeKey, project: str, role: Role
) -> None:
    key = make_key_with_role(make_key, project, "roles.changing", role)
    assert list_tools(carrel, key) >= CURATING_TOOLS
    run_on_access_store(project, lambda store: store.accounts.set_role("roles.changing", None))
    assert not list_tools(carrel, key) & CURATING_TOOLS


def test_an_owner_without_the_scope_curate_must_request_it(
    carrel: Carrel, make_key: MakeKey, project: str
) -> None:
    make_key_with_role(make_key, project, "roles.owner", Role.OWNER)
    key = make_key("roles.owner", FULL_ACCESS - {Scope.CURATE})
    response = carrel.call_tool(key, "forget", source_id="baking")
    assert response.status_code == 403
    assert "carrel:curate" in response.headers["www-authenticate"]


def test_a_read_only_key_sees_and_calls_no_writing_tool(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("reader.of.all", scopes=frozenset({Scope.READ}))
    assert list_tools(carrel, key) == {tool.name for tool in VISIBLE_TOOLS} - WRITE_TOOLS

    # A curating tool would be refused anyway, because the user is a reader.
    names = WRITE_TOOLS - CURATING_TOOLS
    statuses = {name: carrel.call_tool(key, name).status_code for name in names}
    assert statuses == dict.fromkeys(names, 403)

    result = carrel.call_tool(key, "list_tasks").json()["result"]["structuredContent"]
    assert result["success"] is True
    assert result["error"] is None


@pytest.mark.requirement("002-L4")
def test_an_anonymous_caller_sees_only_public_tools(carrel: Carrel) -> None:
    assert list_tools(carrel, None) == PUBLIC_TOOLS
    assert not WRITE_TOOLS & PUBLIC_TOOLS
    assert [name for name in PUBLIC_TOOLS if "task" in name] == []
    private = {tool.name for tool in VISIBLE_TOOLS} - PUBLIC_TOOLS
    responses = {name: carrel.call_tool(None, name) for name in private}
    assert {response.status_code for response in responses.values()} == {401}
    messages = {name: response.json()["error"]["message"] for name, response in responses.items()}
    assert messages == {name: f"Sign in to call {name}." for name in private}
    assert carrel.call_tool(None, "list_tags").json()["result"]["isError"] is False
