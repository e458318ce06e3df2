"""Only editors save notes, and only the author and an owner of the knowledge base change one."""

from __future__ import annotations

from typing import Any

from shared.core.caller import Role
from tests.e2e.access.all_tools_gateway import Carrel
from tests.e2e.access.conftest import MakeKey, make_key_with_role

TEXT = "The spare key of the boat house hangs behind the third oar."


def save_note(carrel: Carrel, key: str, **arguments: Any) -> dict[str, Any]:
    """Call `save_note`; return the result, which may be an error."""
    response = carrel.call_tool(key, "save_note", **arguments)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["result"]
    return result


def test_only_the_author_and_an_owner_can_change_a_note(
    carrel: Carrel, make_key: MakeKey, project: str
) -> None:
    author, other, owner = (
        make_key_with_role(make_key, project, user, role)
        for user, role in (
            ("notes.author", Role.EDITOR),
            ("notes.other", Role.EDITOR),
            ("notes.owner", Role.OWNER),
        )
    )
    note = save_note(carrel, author, text=TEXT)["structuredContent"]

    change = {"source_id": note["source_id"], "revision": 1, "text": "It was moved."}
    error = save_note(carrel, other, **change)
    assert error["isError"]
    assert "Someone else saved this note" in str(error)
    assert "oar" not in str(error)  # no word of the note

    assert save_note(carrel, author, **change)["structuredContent"]["revision"] == 2
    next_change = change | {"revision": 2, "text": "It was moved again."}
    assert save_note(carrel, owner, **next_change)["structuredContent"]["revision"] == 3


def test_a_reader_cannot_save_a_note(carrel: Carrel, make_key: MakeKey) -> None:
    response = carrel.call_tool(make_key("notes.reader"), "save_note", text=TEXT)
    assert "needs the role editor" in response.text
    assert carrel.call_tool(None, "save_note", text=TEXT).status_code == 401
