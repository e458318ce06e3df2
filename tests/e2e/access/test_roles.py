"""What readers, editors and owners of the knowledge base may call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import tools
from shared.core.caller import FULL_ACCESS, Role, Scope
from tests.e2e.access.conftest import in_access

if TYPE_CHECKING:
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

CURATING_TOOLS = {tool.name for tool in tools() if tool.role is not Role.READER}


def listed_tools(carrel: Carrel, key: str) -> set[str]:
    answer = carrel.send(key, "tools/list").json()
    return {tool["name"] for tool in answer["result"]["tools"]}


@pytest.mark.parametrize("tool", sorted(CURATING_TOOLS))
def test_a_reader_cannot_curate_and_learns_what_is_missing(
    carrel: Carrel, make_key: MakeKey, tool: str
) -> None:
    key = make_key("roles.reader")
    assert tool not in listed_tools(carrel, key)
    error = carrel.ask(key, tool).json()["error"]
    assert error["data"]["code"] == "FORBIDDEN"
    assert "carrel accounts role roles.reader editor" in error["message"]


@pytest.mark.parametrize("role", [Role.EDITOR, Role.OWNER])
def test_a_role_opens_its_tools_with_the_next_call(
    carrel: Carrel, make_key: MakeKey, realm: str, role: Role
) -> None:
    key = make_key("roles.changing")
    in_access(realm, lambda store: store.accounts.set_role("roles.changing", role))
    assert listed_tools(carrel, key) >= CURATING_TOOLS
    in_access(realm, lambda store: store.accounts.set_role("roles.changing", None))
    assert not listed_tools(carrel, key) & CURATING_TOOLS


def test_an_owner_without_the_scope_is_asked_for_it(
    carrel: Carrel, make_key: MakeKey, realm: str
) -> None:
    in_access(realm, lambda store: store.accounts.set_role("roles.owner", Role.OWNER))
    key = make_key("roles.owner", FULL_ACCESS - {Scope.CURATE})
    response = carrel.ask(key, "forget", source_id="baking")
    assert response.status_code == 403
    assert "carrel:curate" in response.headers["www-authenticate"]
