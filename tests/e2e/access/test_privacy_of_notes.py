"""Notes through the gateway: who may save one, and who may change whose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.core.caller import Role
from tests.e2e.access.conftest import in_access

if TYPE_CHECKING:
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

TEXT = "The spare key of the boat house hangs behind the third oar."


def make_key_with_role(make_key: MakeKey, realm: str, user: str, role: Role) -> str:
    """Return a key of a user who has this role."""
    key = make_key(user)
    in_access(realm, lambda store: store.accounts.set_role(user, role))
    return key


def get_result(carrel: Carrel, key: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a call of save_note, which may be an error of the tool."""
    response = carrel.ask(key, "save_note", **arguments)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()["result"]
    return answer


def test_only_its_author_and_an_owner_change_a_note(
    carrel: Carrel, make_key: MakeKey, realm: str
) -> None:
    author, other, owner = (
        make_key_with_role(make_key, realm, user, role)
        for user, role in (
            ("notes.author", Role.EDITOR),
            ("notes.other", Role.EDITOR),
            ("notes.owner", Role.OWNER),
        )
    )
    note = get_result(carrel, author, text=TEXT)["structuredContent"]
    attempt = {"source_id": note["source_id"], "revision": 1, "text": "It was moved."}
    refused = get_result(carrel, other, **attempt)
    assert refused["isError"]
    assert "Someone else saved this note" in str(refused)
    assert "oar" not in str(refused)
    assert get_result(carrel, author, **attempt)["structuredContent"]["revision"] == 2
    later_attempt = attempt | {"revision": 2, "text": "It was moved again."}
    assert get_result(carrel, owner, **later_attempt)["structuredContent"]["revision"] == 3


def test_a_reader_cannot_save_a_note(carrel: Carrel, make_key: MakeKey) -> None:
    response = carrel.ask(make_key("notes.reader"), "save_note", text=TEXT)
    assert "needs the role editor" in response.text
    assert carrel.ask(None, "save_note", text=TEXT).status_code == 401
