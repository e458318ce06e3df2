"""Making a key in the console: proof again, shown once, never more than its maker may."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx2
import pytest
from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.core.caller import Scope
from tests.e2e.access.conftest import CLOUD, in_access, key_maker
from tests.support.console_app import parse_page, read_texts
from tests.support.console_person import Person
from tests.support.gateway_process import ACCESS_SECRET, INLINE_MAIN, run_gateway
from tests.support.mcp_wire import HEADERS, make_call

if TYPE_CHECKING:
    from pathlib import Path

    from shared.accounts.access_key import AccessKey
    from shared.accounts.repositories.access_store import AccessStore
    from tests.e2e.access.conftest import MakeKey

READ_AND_WRITE = frozenset({Scope.READ, Scope.WRITE})


def call_status(url: str, key: str, tool: str = "list_tasks", **arguments: str) -> int:
    headers = {**HEADERS, "authorization": f"Bearer {key}"}
    return httpx2.post(f"{url}/mcp", json=make_call(tool, arguments), headers=headers).status_code


def ask(person: Person, **fields: str) -> Person:
    """Fill in the form for a key."""
    return person.open("/you").submit("Continue", **{"name": "laptop", **fields})


def send(person: Person, path: str, **fields: str) -> httpx2.Response:
    """Send fields that the form on the account's page does not offer."""
    token = person.open("/you").select("[name=form]")[0].get("value")
    origin = str(person.http.base_url).rstrip("/")
    return person.http.post(path, data={"form": token, **fields}, headers={"origin": origin})


def read_shown_key(person: Person) -> str:
    [text] = person.texts(".secret")
    return text


def read_stored_keys(realm: str, user: str) -> list[AccessKey]:
    keys: list[AccessKey] = in_access(realm, lambda store: store.keys.list_keys(user))
    return keys


def test_a_key_is_made_after_proof_and_shown_once(
    url: str, make_key: MakeKey, realm: str, log: Path
) -> None:
    key = make_key("makes.ada")
    person = ask(Person(url).sign_in(key), scope="carrel:write", days="90")
    assert person.texts("h1") == ["Make the key “laptop”"]
    assert len(person.texts("li")) == 2
    assert len(read_stored_keys(realm, "makes.ada")) == 1
    person.submit("Make the key", key=key)
    assert person.response.status_code == 200
    assert person.response.headers["cache-control"] == "no-store"
    text = read_shown_key(person)
    assert f"{url}/mcp" in person.texts("dl")[0]
    assert "Authorization: Bearer" in person.texts("dl")[0]
    assert call_status(url, text) == 200
    made, _ = read_stored_keys(realm, "makes.ada")
    assert (made.name, made.scopes) == ("laptop", READ_AND_WRITE)
    assert made.expires_at == made.created_at + timedelta(days=90)
    again = person.http.get(person.path)
    assert again.status_code == 400
    assert text not in again.text
    assert text not in person.open("/you").response.text
    assert "laptop" in " ".join(person.texts(".rows"))
    assert text.encode() not in log.read_bytes()
    assert b"key_created" in log.read_bytes()


def test_a_key_may_be_valid_until_it_is_revoked(url: str, make_key: MakeKey, realm: str) -> None:
    key = make_key("makes.forever")
    text = read_shown_key(
        ask(Person(url).sign_in(key), scope="carrel:read", days="").submit("Make the key", key=key)
    )
    made, _ = read_stored_keys(realm, "makes.forever")
    assert (made.expires_at, made.scopes) == (None, frozenset({Scope.READ}))
    assert call_status(url, text, "search_traces") == 200
    assert call_status(url, text, "add_task", title="x") == 403


def test_a_button_pressed_twice_makes_one_key(url: str, make_key: MakeKey, realm: str) -> None:
    key = make_key("makes.twice")
    person = ask(Person(url).sign_in(key))
    first = person.page
    text = read_shown_key(person.submit("Make the key", key=key))
    person.page = first
    assert read_shown_key(person.submit("Make the key", key=key)) == text
    assert len(read_stored_keys(realm, "makes.twice")) == 2

    async def make_older(store: AccessStore) -> None:
        made, _ = await store.keys.list_keys("makes.twice")
        reference = store.database.document("keys", made.key_id)
        fields = {"created_at": made.created_at - timedelta(minutes=5)}
        await store.database.commit([lambda batch: batch.update(reference, fields)])

    in_access(realm, make_older)
    person.page = first
    person.submit("Make the key", key=key)
    assert person.response.status_code == 409
    assert "was shown before" in person.texts("[role=alert]")[0]
    assert text not in person.response.text


def test_without_proof_there_is_no_key(url: str, make_key: MakeKey, realm: str) -> None:
    person = ask(Person(url).sign_in(make_key("makes.none")))
    person.submit("Make the key", key="carrel_wrong")
    assert person.response.status_code == 401
    assert person.texts("h1") == ["Make the key “laptop”"]
    assert person.submit("Cancel").path == "/you"
    for code in ("", "x", f"{'0' * 32}.{'x' * 43}"):
        person.open(f"/you/key?code={code}&state=x")
        assert person.response.status_code == 400
    assert len(read_stored_keys(realm, "makes.none")) == 1


def test_another_person_proves_nothing(url: str, make_key: MakeKey, realm: str) -> None:
    other_key = make_key("makes.other")
    person = ask(Person(url).sign_in(make_key("makes.own")))
    person.submit("Make the key", key=other_key)
    assert person.response.status_code == 403
    assert "confirmed as makes.other" in person.texts("[role=alert]")[0]
    assert (
        len(read_stored_keys(realm, "makes.own"))
        == len(read_stored_keys(realm, "makes.other"))
        == 1
    )


def test_a_proof_is_valid_for_its_session_and_key_alone(
    url: str, make_key: MakeKey, realm: str
) -> None:
    key = make_key("makes.bound")
    person, other = Person(url).sign_in(key), Person(url).sign_in(key)

    def prove() -> str:
        """Return the address to which the consent page sends the browser."""
        ask(person)
        [form] = [form for form in person.page.forms if form.get("action") == "/consent"]
        data = {**dict(form.form_values()), "key": key, "decision": "allow"}
        response = person.http.post("/consent", data=data, headers={"origin": url})
        return response.headers["location"].removeprefix(url)

    assert other.open(prove()).response.status_code == 403
    assert person.open(prove().replace("&state=", "&state=x")).response.status_code == 403
    sign_in_code = prove().replace("/you/key", "/session")
    assert person.open(sign_in_code).response.status_code == 401
    assert len(read_stored_keys(realm, "makes.bound")) == 1


def test_a_key_does_no_more_than_its_maker(url: str, make_key: MakeKey, realm: str) -> None:
    writer = Person(url).sign_in(make_key("makes.writer", READ_AND_WRITE))
    writer.open("/you")
    assert writer.texts("[name=scope] option") == [
        "search and read",
        "search, read, and save notes and tasks",
    ]
    fields = {"name": "x", "days": "", "scope": "carrel:curate"}
    assert send(writer, "/you/key", **fields).status_code == 403
    reader = Person(url).sign_in(make_key("makes.reader", frozenset({Scope.READ})))
    assert "Continue" not in reader.open("/you").buttons
    assert (
        send(
            reader,
            "/you/key",
            **fields,
        ).status_code
        == 403
    )
    owner = ask(Person(url).sign_in(make_key("makes.writer")), scope="carrel:curate")
    weak_key = make_key("makes.writer", frozenset({Scope.READ}))
    assert read_shown_key(owner.submit("Make the key", key=weak_key)).startswith("carrel_")
    assert read_stored_keys(realm, "makes.writer")[0].scopes == frozenset({Scope.READ})


def test_nobody_has_more_than_100_keys(url: str, make_key: MakeKey, realm: str) -> None:
    key = make_key("makes.many")
    person = ask(Person(url).sign_in(key))

    async def add_keys(store: AccessStore) -> None:
        now = await store.accounts.get_server_time()
        keyring = Keyring([SecretStr(ACCESS_SECRET)])
        for number in range(99):
            _, other = new_key(keyring, "makes.many", f"k{number}", READ_AND_WRITE, created_at=now)
            await store.keys.add(other)

    in_access(realm, add_keys)
    person.submit("Make the key", key=key)
    assert person.response.status_code == 409
    assert "You have 100 keys" in person.texts("[role=alert]")[0]


def test_a_key_does_not_outlast_the_proof(url: str, realm: str) -> None:
    async def add_key(store: AccessStore) -> str:
        now = await store.accounts.get_server_time()
        text, key = new_key(
            Keyring([SecretStr(ACCESS_SECRET)]),
            "makes.brief",
            "brief",
            frozenset(Scope),
            created_at=now,
            expires_at=now + timedelta(days=2),
        )
        await store.keys.add(key)
        return text

    key = in_access(realm, add_key)
    ask(Person(url).sign_in(key), days="").submit("Make the key", key=key)
    made, brief = read_stored_keys(realm, "makes.brief")
    assert made.expires_at == brief.expires_at


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\u202eb"},
        {"name": "\U0001f469\u200d\U0001f680"},
        {"days": "1000"},
        {"days": "x"},
        {"scope": "x"},
    ],
)
def test_a_form_of_no_page_is_rejected(url: str, make_key: MakeKey, fields: dict[str, str]) -> None:
    person = Person(url).sign_in(make_key("makes.odd"))
    valid = {"name": "x", "days": "90", "scope": "carrel:read"}
    response = send(person, "/you/key", **{**valid, **fields})
    assert response.status_code == 400
    assert read_texts(parse_page(response), "[role=alert]")


def test_a_form_without_its_token_makes_nothing(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("makes.forged"))
    fields = {"name": "x", "days": "90", "scope": "carrel:read"}
    for headers in ({"origin": url}, {"origin": "https://evil.example"}, {}):
        assert person.http.post("/you/key", data=fields, headers=headers).status_code == 403


def test_attempts_to_prove_are_limited(log: Path) -> None:
    # The attempts of this address are used up afterwards, so no other test shares the project.
    project = f"guessing-{uuid.uuid4().hex[:16]}"
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD, "SIGN_INS_PER_TEN_MINUTES": "6"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        person = ask(Person(gateway.url).sign_in(key_maker(project)("makes.guess")))
        statuses = [
            person.submit("Make the key", key="carrel_wrong").response.status_code for _ in range(7)
        ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


def test_google_proves_who_makes_a_key(google_url: str) -> None:
    person = Person(google_url).open("/").submit("Continue with Google")
    key = read_shown_key(ask(person).submit("Continue with Google"))
    assert call_status(google_url, key) == 200
