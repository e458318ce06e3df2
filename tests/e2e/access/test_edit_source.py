"""Edits of sources through the gateway, by users with different roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.core.caller import FULL_ACCESS, Role, Scope
from tests.e2e.access.conftest import in_access

if TYPE_CHECKING:
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey


def make_key_with_role(make_key: MakeKey, realm: str, user: str, role: Role) -> str:
    """Return a key of a user who has this role."""
    key = make_key(user)
    in_access(realm, lambda store: store.accounts.set_role(user, role))
    return key


def get_result(carrel: Carrel, key: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a call, which may be an error of the tool."""
    response = carrel.ask(key, tool, **arguments)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()["result"]
    return answer


def test_an_editor_edits_only_their_own_notes(
    carrel: Carrel, make_key: MakeKey, realm: str
) -> None:
    author, other, owner = (
        make_key_with_role(make_key, realm, user, role)
        for user, role in (
            ("edits.author", Role.EDITOR),
            ("edits.other", Role.EDITOR),
            ("edits.owner", Role.OWNER),
        )
    )
    text = "The spare oar is in the attic of the boat house."
    note = get_result(carrel, author, "save_note", text=text)["structuredContent"]
    target = {"source_id": note["source_id"]}
    rejection = get_result(carrel, other, "edit_source", **target, revision=1, tags=["boats"])
    assert rejection["isError"]
    assert "carrel accounts role edits.other owner" in str(rejection)
    assert "oar" not in str(rejection)
    edited = get_result(carrel, author, "edit_source", **target, revision=1, tags=["boats"])
    assert edited["structuredContent"]["revision"] == 2
    late_edit = get_result(carrel, owner, "edit_source", **target, revision=1, title="Oars")
    assert late_edit["isError"]
    assert "revision 2" in str(late_edit)
    edited = get_result(carrel, owner, "edit_source", **target, revision=2, title="Oars")
    assert edited["structuredContent"]["title"] == "Oars"
    undo = edited["structuredContent"]["undo"]
    undone = get_result(carrel, owner, undo["tool"], **undo["arguments"])["structuredContent"]
    assert undone["title"] == note["title"]
    assert undone["revision"] == 4
    assert undone["tags"] == ["boats"]


def test_an_edit_needs_the_scope(carrel: Carrel, make_key: MakeKey, realm: str) -> None:
    in_access(realm, lambda store: store.accounts.set_role("edits.writer", Role.OWNER))
    key = make_key("edits.writer", FULL_ACCESS - {Scope.CURATE})
    response = carrel.ask(key, "edit_source", source_id="baking", revision=0, title="Loaves")
    assert response.status_code == 403
    assert "carrel:curate" in response.headers["www-authenticate"]
