"""Only editors and owners may call curating tools, which change the knowledge base."""

from __future__ import annotations

from typing import Any

import pytest

from infra.build.discovery import tools
from shared.core.caller import FULL_ACCESS, Role, Scope
from tests.e2e.access.all_tools_gateway import Carrel
from tests.e2e.access.conftest import MakeKey, make_key_with_role, run_on_access_store

CURATING_TOOLS = {
    tool.name for tool in tools() if tool.role is not Role.READER and not tool.internal
}


def list_tools(carrel: Carrel, key: str) -> set[str]:
    """Return the names of the tools that a user sees."""
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


def test_a_reader_cannot_change_a_source_whose_id_they_guess(
    carrel: Carrel, make_key: MakeKey, project: str
) -> None:
    """Errors do not even say whether an id exists: they are the same for a note and for "none"."""
    author = make_key_with_role(make_key, project, "roles.author", Role.EDITOR)
    reader = make_key("roles.guessing")
    response = carrel.call_tool(author, "save_note", text="The harbour master keeps the lamp oil.")
    note = response.json()["result"]["structuredContent"]
    before = carrel.call_tool(
        reader, "get_source", source_id=note["source_id"], detail="full"
    ).json()

    errors = set()
    for source_id, chunk_id in ((note["source_id"], note["chunk_ids"][0]), ("none", "none-1")):
        attempts: list[tuple[str, dict[str, Any]]] = [
            ("save_note", {"text": "Mine.", "chunk_id": chunk_id}),
            ("save_note", {"source_id": source_id, "revision": 1, "text": "Mine."}),
            ("save_note", {"source_id": source_id, "revision": 1, "restore_revision": 1}),
            ("edit_source", {"source_id": source_id, "revision": 1, "title": "Mine"}),
            ("save_link", {"url": f"https://client.example/{source_id}"}),
            ("forget", {"source_id": source_id, "forgotten": True}),
            ("forget", {"source_id": source_id, "forgotten": False}),
            ("forget", {"chunk_id": chunk_id, "forgotten": True}),
            ("forget", {"chunk_id": chunk_id, "forgotten": False}),
        ]
        for tool, arguments in attempts:
            error = carrel.call_tool(reader, tool, **arguments).json()["error"]
            assert error["data"]["code"] == "FORBIDDEN"
            errors.add((tool, error["message"]))
            assert carrel.call_tool(None, tool, **arguments).status_code == 401
    tools_of_errors = sorted(tool for tool, _ in errors)
    assert tools_of_errors == ["edit_source", "forget", "save_link", "save_note"]  # one error each

    after = carrel.call_tool(
        reader, "get_source", source_id=note["source_id"], detail="full"
    ).json()
    assert after["result"]["structuredContent"] == before["result"]["structuredContent"]


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
