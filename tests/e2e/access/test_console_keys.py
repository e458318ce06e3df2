"""Users make access keys in the console.

Before a key is made, its maker proves again who they are, with another key or with Google. The new
key is shown once, and may do no more than both its maker's session and the key used as proof.
"""

import uuid
from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr

from shared.accounts.access_key import AccessKey, new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from tests.support.access import (
    CLOUD_SETTINGS,
    MakeKey,
    build_key_maker,
    get_call_status,
    post_form,
    run_on_access_store,
)
from tests.support.console_person import Person
from tests.support.gateway_process import ACCESS_SECRET, INLINE_MAIN, run_gateway

READ_AND_WRITE = frozenset({Scope.READ, Scope.WRITE})


def fill_in_form(person: Person, **fields: str) -> Person:
    """Fill in the form for a new key, which leads to the page that asks for proof."""
    return person.open("/you").submit("Continue", **{"name": "laptop", **fields})


def read_shown_key(person: Person) -> str:
    """Return the new key that the open page shows."""
    [text] = person.texts(".secret")
    return text


def read_stored_keys(project: str, user: str) -> list[AccessKey]:
    """Return the stored keys of a user, newest first."""
    keys: list[AccessKey] = run_on_access_store(project, lambda store: store.keys.list_keys(user))
    return keys


def test_a_key_is_made_after_proof_and_shown_once(
    url: str, make_key: MakeKey, project: str, log: Path
) -> None:
    key = make_key("makes.ada")
    person = fill_in_form(Person(url).sign_in(key), scope="carrel:write", days="90")
    assert person.texts("h1") == ["Make the key “laptop”"]
    assert len(person.texts("li")) == 2  # what the key may do, and for how long
    assert len(read_stored_keys(project, "makes.ada")) == 1

    person.submit("Make the key", key=key)
    assert person.response.status_code == 200
    assert person.response.headers["cache-control"] == "no-store"
    text = read_shown_key(person)
    assert f"{url}/mcp" in person.texts("dl")[0]
    assert "Authorization: Bearer" in person.texts("dl")[0]
    assert get_call_status(url, text) == 200
    stored_key, _ = read_stored_keys(project, "makes.ada")
    assert stored_key.name == "laptop"
    assert stored_key.scopes == READ_AND_WRITE
    assert stored_key.expires_at == stored_key.created_at + timedelta(days=90)

    reloaded = person.http.get(person.path)
    assert reloaded.status_code == 400
    assert text not in reloaded.text
    assert text not in person.open("/you").response.text
    assert "laptop" in " ".join(person.texts(".rows"))
    assert text.encode() not in log.read_bytes()
    assert b"key_created" in log.read_bytes()


def test_a_key_may_be_valid_until_it_is_revoked(url: str, make_key: MakeKey, project: str) -> None:
    key = make_key("makes.forever")
    person = fill_in_form(Person(url).sign_in(key), scope="carrel:read", days="forever")
    text = read_shown_key(person.submit("Make the key", key=key))
    stored_key, _ = read_stored_keys(project, "makes.forever")
    assert stored_key.expires_at is None
    assert stored_key.scopes == frozenset({Scope.READ})
    assert get_call_status(url, text, "search_traces") == 200
    assert get_call_status(url, text, "add_task", title="x") == 403


def test_a_form_submitted_twice_makes_one_key(url: str, make_key: MakeKey, project: str) -> None:
    key = make_key("makes.twice")
    person = fill_in_form(Person(url).sign_in(key))
    form_page = person.page
    text = read_shown_key(person.submit("Make the key", key=key))
    person.page = form_page
    assert read_shown_key(person.submit("Make the key", key=key)) == text
    assert len(read_stored_keys(project, "makes.twice")) == 2

    # Minutes later, the same form no longer shows the key.
    async def make_older(store: AccessStore) -> None:
        stored_key, _ = await store.keys.list_keys("makes.twice")
        reference = Reference("keys", stored_key.key_id)
        fields = {"created_at": stored_key.created_at - timedelta(minutes=5)}
        await store.database.commit([Update(reference, fields)])

    run_on_access_store(project, make_older)
    person.page = form_page
    person.submit("Make the key", key=key)
    assert person.response.status_code == 409
    assert "was shown before" in person.texts("[role=alert]")[0]
    assert text not in person.response.text


def test_a_wrong_proof_makes_no_key(url: str, make_key: MakeKey, project: str) -> None:
    person = fill_in_form(Person(url).sign_in(make_key("makes.none")))
    person.submit("Make the key", key="carrel_wrong")
    assert person.response.status_code == 401
    assert person.texts("h1") == ["Make the key “laptop”"]
    assert person.submit("Cancel").path == "/you"
    for code in ("", "x", f"{'0' * 32}.{'x' * 43}"):
        person.open(f"/you/key?code={code}&state=x")
        assert person.response.status_code == 400
    assert len(read_stored_keys(project, "makes.none")) == 1


def test_the_key_of_another_user_is_not_a_proof(url: str, make_key: MakeKey, project: str) -> None:
    other_key = make_key("makes.other")
    person = fill_in_form(Person(url).sign_in(make_key("makes.own")))
    person.submit("Make the key", key=other_key)
    assert person.response.status_code == 403
    assert "confirmed as makes.other" in person.texts("[role=alert]")[0]
    assert len(read_stored_keys(project, "makes.own")) == 1
    assert len(read_stored_keys(project, "makes.other")) == 1


def test_a_proof_is_valid_only_for_its_session_and_form(
    url: str, make_key: MakeKey, project: str
) -> None:
    key = make_key("makes.bound")
    person, other = Person(url).sign_in(key), Person(url).sign_in(key)

    def prove_identity() -> str:
        """Prove who makes a key; return the path to which the consent page sends the browser."""
        fill_in_form(person)
        [form] = [form for form in person.page.forms if form.get("action") == "/consent"]
        data = {**dict(form.form_values()), "key": key, "decision": "allow"}
        response = person.http.post("/consent", data=data, headers={"origin": url})
        return response.headers["location"].removeprefix(url)

    assert other.open(prove_identity()).response.status_code == 403
    assert person.open(prove_identity().replace("&state=", "&state=x")).response.status_code == 403
    sign_in_path = prove_identity().replace("/you/key", "/session")
    assert person.open(sign_in_path).response.status_code == 401
    assert len(read_stored_keys(project, "makes.bound")) == 1


def test_a_new_key_has_no_more_scopes_than_its_maker(
    url: str, make_key: MakeKey, project: str
) -> None:
    writer = Person(url).sign_in(make_key("makes.writer", READ_AND_WRITE))
    writer.open("/you")
    assert writer.texts("[name=scope] option") == [
        "save pages from a browser, and read nothing",
        "search and read",
        "search, read, and save notes and tasks",
    ]
    fields = {"name": "x", "days": "forever", "scope": "carrel:curate"}
    assert post_form(writer, "/you/key", **fields).status_code == 403

    reader = Person(url).sign_in(make_key("makes.reader", frozenset({Scope.READ})))
    assert "Continue" not in reader.open("/you").buttons
    assert post_form(reader, "/you/key", **fields).status_code == 403

    owner = fill_in_form(Person(url).sign_in(make_key("makes.writer")), scope="carrel:curate")
    read_only_key = make_key("makes.writer", frozenset({Scope.READ}))
    shown_key = read_shown_key(owner.submit("Make the key", key=read_only_key))
    assert shown_key.startswith("carrel_")
    assert read_stored_keys(project, "makes.writer")[0].scopes == frozenset({Scope.READ})


def test_a_user_can_have_at_most_100_keys(url: str, make_key: MakeKey, project: str) -> None:
    key = make_key("makes.many")
    person = fill_in_form(Person(url).sign_in(key))

    async def add_keys(store: AccessStore) -> None:
        now = await store.accounts.get_server_time()
        keyring = Keyring([SecretStr(ACCESS_SECRET)])
        for number in range(99):  # one more key signed in
            _, other = new_key(keyring, "makes.many", f"k{number}", READ_AND_WRITE, created_at=now)
            await store.keys.add(other)

    run_on_access_store(project, add_keys)
    person.submit("Make the key", key=key)
    assert person.response.status_code == 409
    assert "You have 100 keys" in person.texts("[role=alert]")[0]


def test_a_new_key_does_not_outlive_the_key_used_as_proof(url: str, project: str) -> None:
    async def add_brief_key(store: AccessStore) -> str:
        now = await store.accounts.get_server_time()
        text, key = new_key(
            Keyring([SecretStr(ACCESS_SECRET)]),
            "makes.brief",
            "brief",
            FULL_ACCESS,
            created_at=now,
            expires_at=now + timedelta(days=2),
        )
        await store.keys.add(key)
        return text

    key = run_on_access_store(project, add_brief_key)
    fill_in_form(Person(url).sign_in(key), days="forever").submit("Make the key", key=key)
    stored_key, proving_key = read_stored_keys(project, "makes.brief")
    assert stored_key.expires_at == proving_key.expires_at


def test_a_form_without_its_token_is_rejected(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("makes.forged"))
    fields = {"name": "x", "days": "90", "scope": "carrel:read"}
    for headers in ({"origin": url}, {"origin": "https://evil.example"}, {}):
        assert person.http.post("/you/key", data=fields, headers=headers).status_code == 403


def test_failed_proofs_are_rate_limited(log: Path) -> None:
    # The attempts of this address are used up afterwards, so no other test shares the project.
    project = f"guessing-{uuid.uuid4().hex[:16]}"
    environment = {
        "GOOGLE_CLOUD_PROJECT": project,
        **CLOUD_SETTINGS,
        "SIGN_INS_PER_TEN_MINUTES": "6",
    }
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        person = fill_in_form(Person(gateway.url).sign_in(build_key_maker(project)("makes.guess")))
        statuses = [
            person.submit("Make the key", key="carrel_wrong").response.status_code for _ in range(7)
        ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


def test_a_google_sign_in_is_a_proof(google_url: str) -> None:
    person = Person(google_url).open("/").submit("Continue with Google")
    form = fill_in_form(person, scope="carrel:write")
    key = read_shown_key(form.submit("Continue with Google"))
    assert get_call_status(google_url, key) == 200


def test_a_save_only_key_is_made_after_proof(url: str, make_key: MakeKey, project: str) -> None:
    """It needs no more than a session that may write."""
    key = make_key("makes.saver", READ_AND_WRITE)
    person = fill_in_form(Person(url).sign_in(key), scope="carrel:save")
    assert "save pages and notes from a browser" in person.texts("li")[0]
    person.submit("Make the key", key=key)
    assert "in the options of the extension" in person.texts("main")[0]
    stored_key, _ = read_stored_keys(project, "makes.saver")
    assert stored_key.scopes == {Scope.SAVE}
    assert get_call_status(url, read_shown_key(person)) == 403
