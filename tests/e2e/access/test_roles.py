"""The tools that readers, editors and owners of the knowledge base may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.build.discovery import tools
from shared.core.caller import FULL_ACCESS, Role, Scope
from tests.e2e.access.conftest import in_access

if TYPE_CHECKING:
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

CURATING_TOOLS = {
    tool.name for tool in tools() if tool.role is not Role.READER and not tool.internal
}


def list_tools(carrel: Carrel, key: str) -> set[str]:
    answer = carrel.send(key, "tools/list").json()
    return {tool["name"] for tool in answer["result"]["tools"]}


@pytest.mark.parametrize("tool", sorted(CURATING_TOOLS))
def test_a_reader_cannot_curate_and_learns_what_is_missing(
    carrel: Carrel, make_key: MakeKey, tool: str
) -> None:
    key = make_key("roles.reader")
    assert tool not in list_tools(carrel, key)
    error = carrel.ask(key, tool).json()["error"]
    assert error["data"]["code"] == "FORBIDDEN"
    assert "carrel accounts role roles.reader editor" in error["message"]


def test_a_reader_changes_nothing_whatever_id_they_guess(
    carrel: Carrel, make_key: MakeKey, realm: str
) -> None:
    """The answers do not even say whether an id exists."""
    in_access(realm, lambda store: store.accounts.set_role("roles.author", Role.EDITOR))
    author, reader = make_key("roles.author"), make_key("roles.guessing")
    saved = carrel.ask(author, "save_note", text="The harbour master keeps the lamp oil.").json()
    note = saved["result"]["structuredContent"]
    before = carrel.ask(reader, "get_source", source_id=note["source_id"], detail="full").json()
    answers = set()
    for source_id, chunk_id in ((note["source_id"], note["chunk_ids"][0]), ("none", "none-1")):
        attempts: list[tuple[str, dict[str, Any]]] = [
            ("save_note", {"text": "Mine.", "chunk_id": chunk_id}),
            ("save_note", {"source_id": source_id, "revision": 1, "text": "Mine."}),
            ("save_note", {"source_id": source_id, "revision": 1, "restore_revision": 1}),
            ("edit_source", {"source_id": source_id, "revision": 1, "title": "Mine"}),
            ("save_link", {"url": f"https://client.example/{source_id}"}),
            *(
                ("forget", target | {"forgotten": forgotten})
                for target in ({"source_id": source_id}, {"chunk_id": chunk_id})
                for forgotten in (True, False)
            ),
        ]
        for tool, arguments in attempts:
            error = carrel.ask(reader, tool, **arguments).json()["error"]
            answers.add((tool, error["data"]["code"], error["message"]))
            assert carrel.ask(None, tool, **arguments).status_code == 401
    assert {(tool, code) for tool, code, _ in answers} == {
        (tool, "FORBIDDEN") for tool in ("save_note", "save_link", "edit_source", "forget")
    }
    assert len(answers) == 4
    after = carrel.ask(reader, "get_source", source_id=note["source_id"], detail="full").json()
    assert after["result"]["structuredContent"] == before["result"]["structuredContent"]


@pytest.mark.parametrize("role", [Role.EDITOR, Role.OWNER])
def test_a_role_opens_its_tools_with_the_next_call(
    carrel: Carrel, make_key: MakeKey, realm: str, role: Role
) -> None:
    key = make_key("roles.changing")
    in_access(realm, lambda store: store.accounts.set_role("roles.changing", role))
    assert list_tools(carrel, key) >= CURATING_TOOLS
    in_access(realm, lambda store: store.accounts.set_role("roles.changing", None))
    assert not list_tools(carrel, key) & CURATING_TOOLS


def test_an_owner_without_the_scope_is_asked_for_it(
    carrel: Carrel, make_key: MakeKey, realm: str
) -> None:
    in_access(realm, lambda store: store.accounts.set_role("roles.owner", Role.OWNER))
    key = make_key("roles.owner", FULL_ACCESS - {Scope.CURATE})
    response = carrel.ask(key, "forget", source_id="baking")
    assert response.status_code == 403
    assert "carrel:curate" in response.headers["www-authenticate"]
