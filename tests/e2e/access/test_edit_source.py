"""An owner edits any source through the gateway, and an editor only their own notes."""

from typing import Any

from shared.core.caller import Role
from tests.support.access import Carrel, MakeKey, make_key_with_role


def call_tool(carrel: Carrel, key: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return the result, which may be an error."""
    response = carrel.call_tool(key, tool, **arguments)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["result"]
    return result


def test_an_editor_edits_only_their_own_notes(
    carrel: Carrel, make_key: MakeKey, project: str
) -> None:
    author, other, owner = (
        make_key_with_role(make_key, project, user, role)
        for user, role in (
            ("edits.author", Role.EDITOR),
            ("edits.other", Role.EDITOR),
            ("edits.owner", Role.OWNER),
        )
    )
    text = "The spare oar is in the attic of the boat house."
    note = call_tool(carrel, author, "save_note", text=text)["structuredContent"]
    target = {"source_id": note["source_id"]}

    error = call_tool(carrel, other, "edit_source", **target, revision=1, tags=["boats"])
    assert error["isError"]
    assert "carrel accounts role edits.other owner" in str(error)
    assert "oar" not in str(error)  # no word of the note

    edited = call_tool(carrel, author, "edit_source", **target, revision=1, tags=["boats"])
    assert edited["structuredContent"]["revision"] == 2

    late_edit = call_tool(carrel, owner, "edit_source", **target, revision=1, title="Oars")
    assert late_edit["isError"]
    assert "revision 2" in str(late_edit)
    edited = call_tool(carrel, owner, "edit_source", **target, revision=2, title="Oars")
    assert edited["structuredContent"]["title"] == "Oars"

    undo = edited["structuredContent"]["undo"]
    undone = call_tool(carrel, owner, undo["tool"], **undo["arguments"])["structuredContent"]
    assert undone["title"] == note["title"]
    assert undone["revision"] == 4
    assert undone["tags"] == ["boats"]
