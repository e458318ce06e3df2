"""Codes, refresh tokens, client ids and secrets are signed: only this server can make them."""

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
from tests.support.authorization_server import make_corrupted_tokens

OLD_SECRET, NEW_SECRET = SecretStr("o" * 32), SecretStr("n" * 32)
KEYRING = Keyring([OLD_SECRET])
GRANT_ID = "0123456789abcdef" * 2
CLIENT_NAME = "0b0e9f3c-8d5c-4a52-a2b6-0d2d1a6b3a5e"

GRANT_IDS = st.text("0123456789abcdef", min_size=32, max_size=32)
CLIENT_IDS = st.text(min_size=1)
GENERATIONS = st.integers(1, 10**9 - 1)


@given(
    st.text()
    | st.from_regex(r"[0-9a-f]{32}(\.[1-9][0-9]?)?\.[A-Za-z0-9_-]{43}", fullmatch=True)
    | st.from_regex(r"[0-9a-f-]{36}\.[A-Za-z0-9_-]{8}", fullmatch=True),
    CLIENT_IDS,
)
def test_arbitrary_text_is_not_a_credential(text: str, client: str) -> None:
    assert parse_code(KEYRING, text, client) is None
    assert parse_refresh_token(KEYRING, text, client) is None
    assert not is_issued_client_id(KEYRING, text)


@given(GRANT_IDS, CLIENT_IDS, CLIENT_IDS, GENERATIONS)
def test_credential_is_valid_for_its_client_only(
    grant: str, own_client: str, other_client: str, generation: int
) -> None:
    code = make_code(KEYRING, grant, own_client)
    token = make_refresh_token(KEYRING, grant, generation, own_client)
    is_same_client = own_client == other_client
    expected_token = (grant, generation) if is_same_client else None
    assert parse_code(KEYRING, code, other_client) == (grant if is_same_client else None)
    assert parse_refresh_token(KEYRING, token, other_client) == expected_token
    assert parse_code(KEYRING, code, own_client) == grant
    assert parse_refresh_token(KEYRING, token, own_client) == (grant, generation)
    assert parse_code(KEYRING, token, own_client) is None
    assert parse_refresh_token(KEYRING, code, own_client) is None


def test_corrupted_credential_is_rejected() -> None:
    for text in make_corrupted_tokens(make_code(KEYRING, GRANT_ID, "client")):
        assert parse_code(KEYRING, text, "client") is None
    for text in make_corrupted_tokens(make_refresh_token(KEYRING, GRANT_ID, 12, "client")):
        assert parse_refresh_token(KEYRING, text, "client") is None
    for text in make_corrupted_tokens(issue_client_id(KEYRING, CLIENT_NAME)):
        assert not is_issued_client_id(KEYRING, text)


@given(GENERATIONS, GENERATIONS)
def test_the_generation_in_a_token_cannot_be_changed(
    generation: int, forged_generation: int
) -> None:
    token = make_refresh_token(KEYRING, GRANT_ID, generation, "client")
    changed_token = token.replace(f".{generation}.", f".{forged_generation}.")
    expected = (GRANT_ID, generation) if generation == forged_generation else None
    assert parse_refresh_token(KEYRING, changed_token, "client") == expected


def test_credentials_stay_valid_until_the_old_secret_is_removed() -> None:
    code = make_code(KEYRING, GRANT_ID, "c")
    token = make_refresh_token(KEYRING, GRANT_ID, 3, "c")
    client_id = issue_client_id(KEYRING, CLIENT_NAME)

    rotated_keyring = Keyring([NEW_SECRET, OLD_SECRET])
    assert parse_code(rotated_keyring, code, "c")
    assert parse_refresh_token(rotated_keyring, token, "c")
    assert is_issued_client_id(rotated_keyring, client_id)

    new_keyring = Keyring([NEW_SECRET])
    assert parse_code(new_keyring, code, "c") is None
    assert parse_refresh_token(new_keyring, token, "c") is None
    assert not is_issued_client_id(new_keyring, client_id)


@given(st.text(), st.text())
def test_only_a_valid_secret_is_replaced_by_the_newest(client_id: str, guess: str) -> None:
    rotated_keyring = Keyring([NEW_SECRET, OLD_SECRET])
    valid_fields = {"client_id": client_id, "client_secret": make_client_secret(KEYRING, client_id)}
    wrong_credentials = {"client_id": client_id, "client_secret": guess}
    newest_secret = make_client_secret(rotated_keyring, client_id)
    expected = {"client_id": client_id, "client_secret": newest_secret}
    assert replace_rotated_secret(rotated_keyring, valid_fields) == expected
    assert replace_rotated_secret(rotated_keyring, wrong_credentials) == wrong_credentials
    assert replace_rotated_secret(rotated_keyring, {}) == {}
