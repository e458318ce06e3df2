"""Signed codes, tokens, client ids and secrets: only this server makes them, for one purpose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from functions.gateway.oauth.authorization import make_code, parse_code
from functions.gateway.oauth.clients import (
    is_issued_client_id,
    issue_client_id,
    make_client_secret,
    replace_rotated_secret,
)
from functions.gateway.oauth.provider import make_refresh_token, parse_refresh_token
from shared.accounts.keyring import Keyring
from tests.support.authorization_server import make_corruptions

OLD_SECRET, NEW_SECRET = SecretStr("o" * 32), SecretStr("n" * 32)
KEYRING = Keyring([OLD_SECRET])
GRANT = "0123456789abcdef" * 2
NAME = "0b0e9f3c-8d5c-4a52-a2b6-0d2d1a6b3a5e"

grants = st.text("0123456789abcdef", min_size=32, max_size=32)
clients = st.text(min_size=1)
generations = st.integers(1, 10**9 - 1)


@given(grants, clients, generations)
def test_credentials_are_parsed_to_their_contents(grant: str, client: str, generation: int) -> None:
    code = make_code(KEYRING, grant, client)
    token = make_refresh_token(KEYRING, grant, generation, client)
    assert parse_code(KEYRING, code, client) == grant
    assert parse_refresh_token(KEYRING, token, client) == (grant, generation)
    assert parse_code(KEYRING, token, client) is None
    assert parse_refresh_token(KEYRING, code, client) is None


@given(st.text(), clients)
def test_arbitrary_text_is_not_a_credential(text: str, client: str) -> None:
    assert parse_code(KEYRING, text, client) is None
    assert parse_refresh_token(KEYRING, text, client) is None
    assert not is_issued_client_id(KEYRING, text)


@given(
    st.from_regex(r"[0-9a-f]{32}\.[A-Za-z0-9_-]{43}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{32}\.[1-9][0-9]?\.[A-Za-z0-9_-]{43}", fullmatch=True),
    st.from_regex(r"[0-9a-f-]{36}\.[A-Za-z0-9_-]{8}", fullmatch=True),
)
def test_well_formed_text_without_a_signature_is_rejected(
    code: str, token: str, client_id: str
) -> None:
    assert parse_code(KEYRING, code, "client") is None
    assert parse_refresh_token(KEYRING, token, "client") is None
    assert not is_issued_client_id(KEYRING, client_id)


@given(grants, clients, clients, generations)
def test_credential_is_valid_for_its_client_only(
    grant: str, own_client: str, other_client: str, generation: int
) -> None:
    code = make_code(KEYRING, grant, own_client)
    token = make_refresh_token(KEYRING, grant, generation, own_client)
    expected = (grant, (grant, generation)) if own_client == other_client else (None, None)
    assert (
        parse_code(KEYRING, code, other_client),
        parse_refresh_token(KEYRING, token, other_client),
    ) == expected


def test_corrupted_credential_is_rejected() -> None:
    for text in make_corruptions(make_code(KEYRING, GRANT, "client")):
        assert parse_code(KEYRING, text, "client") is None
    for text in make_corruptions(make_refresh_token(KEYRING, GRANT, 12, "client")):
        assert parse_refresh_token(KEYRING, text, "client") is None
    for text in make_corruptions(issue_client_id(KEYRING, NAME)):
        assert not is_issued_client_id(KEYRING, text)


@given(generations, generations)
def test_a_generation_cannot_be_raised(generation: int, forged_generation: int) -> None:
    token = make_refresh_token(KEYRING, GRANT, generation, "client")
    changed_token = token.replace(f".{generation}.", f".{forged_generation}.")
    read = parse_refresh_token(KEYRING, changed_token, "client")
    assert read == ((GRANT, generation) if generation == forged_generation else None)


def test_a_rotation_keeps_all_valid_until_the_old_secret_goes() -> None:
    code = make_code(KEYRING, GRANT, "c")
    token = make_refresh_token(KEYRING, GRANT, 3, "c")
    client_id = issue_client_id(KEYRING, NAME)
    for keyring, holds in (
        (Keyring([NEW_SECRET, OLD_SECRET]), True),
        (Keyring([NEW_SECRET]), False),
    ):
        assert (parse_code(keyring, code, "c") is not None) == holds
        assert (parse_refresh_token(keyring, token, "c") is not None) == holds
        assert is_issued_client_id(keyring, client_id) == holds


@given(st.text(), st.text())
def test_only_a_valid_secret_is_replaced_by_the_newest(client_id: str, guess: str) -> None:
    rotated_keyring = Keyring([NEW_SECRET, OLD_SECRET])
    valid_fields = {"client_id": client_id, "client_secret": make_client_secret(KEYRING, client_id)}
    wrong_credentials = {"client_id": client_id, "client_secret": guess}
    newest = make_client_secret(rotated_keyring, client_id)
    assert replace_rotated_secret(rotated_keyring, valid_fields) == valid_fields | {
        "client_secret": newest
    }
    assert replace_rotated_secret(rotated_keyring, wrong_credentials) == wrong_credentials
    assert replace_rotated_secret(rotated_keyring, {}) == {}
