"""The texts of access keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.accounts.access_key import KEY_PREFIX, matches_key, new_key, parse_key_id
from shared.accounts.keyring import Keyring
from shared.core.caller import FULL_ACCESS, require_user_id
from shared.core.errors import InvalidInput

KEYRING = Keyring([SecretStr("s" * 32)])
NOW = datetime(2026, 11, 22, tzinfo=UTC)
TEXT, KEY = new_key(KEYRING, "anna@example.com", "laptop", FULL_ACCESS, created_at=NOW)


def test_key_id_is_parsed_from_its_text() -> None:
    assert parse_key_id(KEYRING, TEXT) == KEY.key_id
    assert matches_key(KEYRING, TEXT, KEY)


def test_stored_key_does_not_contain_its_text() -> None:
    secret = TEXT.removeprefix(f"{KEY_PREFIX}{KEY.key_id}_")
    assert secret not in repr(KEY)


def test_a_repeated_request_makes_the_same_key() -> None:
    texts = [
        new_key(keyring, "anna", "laptop", FULL_ACCESS, created_at=NOW, request_id=request_id)[0]
        for keyring, request_id in (
            (KEYRING, "r1"),
            (KEYRING, "r1"),
            (KEYRING, "r2"),
            (Keyring([SecretStr("t" * 32)]), "r1"),
        )
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert parse_key_id(KEYRING, texts[0])


def test_two_keys_differ() -> None:
    second_text, second_key = new_key(
        KEYRING, "anna@example.com", "laptop", FULL_ACCESS, created_at=NOW
    )
    assert second_text != TEXT
    assert not matches_key(KEYRING, second_text, KEY)
    assert KEY.key_id != second_key.key_id


@given(st.integers(0, len(TEXT) - 1), st.characters())
def test_a_key_with_a_changed_character_is_not_valid(index: int, character: str) -> None:
    changed_text = TEXT[:index] + character + TEXT[index + 1 :]
    assert (parse_key_id(KEYRING, changed_text) is not None) == (changed_text == TEXT)


@given(st.text() | st.from_regex(r"carrel_[0-9a-f]{12}_[A-Za-z0-9_-]{51}", fullmatch=True))
def test_arbitrary_text_is_not_a_key(text: str) -> None:
    assert parse_key_id(KEYRING, text) is None


def test_a_key_survives_the_rotation_of_the_secret() -> None:
    rotated_keyring = Keyring([SecretStr("t" * 32), SecretStr("s" * 32)])
    assert parse_key_id(rotated_keyring, TEXT) == KEY.key_id
    assert matches_key(rotated_keyring, TEXT, KEY)
    assert parse_key_id(Keyring([SecretStr("t" * 32)]), TEXT) is None


def test_expired_key_is_rejected() -> None:
    _, key = new_key(
        KEYRING, "anna", "laptop", FULL_ACCESS, created_at=NOW, expires_at=NOW + timedelta(days=1)
    )
    assert key.is_valid(NOW + timedelta(hours=23))
    assert not key.is_valid(NOW + timedelta(days=1))


@pytest.mark.parametrize("user", ["anna", "anna@example.com", "a.b-c_d+e@x.org", "0"])
def test_a_name_or_an_address_is_a_user(user: str) -> None:
    assert require_user_id(user) == user


@pytest.mark.parametrize("user", ["", "Anna", "a/b", "__anna__", ".", "a b", "a" * 129, "ä", "a\n"])
def test_invalid_document_id_is_no_user(user: str) -> None:
    with pytest.raises(InvalidInput, match="e-mail address or a name"):
        require_user_id(user)
