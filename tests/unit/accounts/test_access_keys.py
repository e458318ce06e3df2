"""An access key is a text that a user copies; the server stores its id and hash only."""

from datetime import UTC, datetime

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
KEY_TEXT, KEY = new_key(KEYRING, "anna@example.com", "laptop", FULL_ACCESS, created_at=NOW)


def test_a_keys_id_is_parsed_from_its_text() -> None:
    assert parse_key_id(KEYRING, KEY_TEXT) == KEY.key_id
    assert matches_key(KEYRING, KEY_TEXT, KEY)
    other_text, other_key = new_key(KEYRING, KEY.user_id, KEY.name, FULL_ACCESS, created_at=NOW)
    assert not matches_key(KEYRING, other_text, KEY)
    assert KEY.key_id != other_key.key_id


def test_stored_key_does_not_contain_its_text() -> None:
    assert KEY_TEXT.removeprefix(f"{KEY_PREFIX}{KEY.key_id}_") not in repr(KEY)


def test_a_repeated_request_makes_the_same_key() -> None:
    def make_key_text(keyring: Keyring, request_id: str) -> str:
        text, _ = new_key(
            keyring, "anna", "laptop", FULL_ACCESS, created_at=NOW, request_id=request_id
        )
        return text

    text = make_key_text(KEYRING, "r1")
    assert make_key_text(KEYRING, "r1") == text
    text_for_other_request = make_key_text(KEYRING, "r2")
    text_for_other_secret = make_key_text(Keyring([SecretStr("t" * 32)]), "r1")
    assert len({text, text_for_other_request, text_for_other_secret}) == 3
    assert parse_key_id(KEYRING, text)


@given(st.integers(0, len(KEY_TEXT) - 1), st.characters())
def test_a_key_with_a_changed_character_is_not_valid(index: int, character: str) -> None:
    changed_text = KEY_TEXT[:index] + character + KEY_TEXT[index + 1 :]
    assert (parse_key_id(KEYRING, changed_text) is not None) == (changed_text == KEY_TEXT)


@given(st.text() | st.from_regex(r"carrel_[0-9a-f]{12}_[A-Za-z0-9_-]{51}", fullmatch=True))
def test_arbitrary_text_is_not_a_key(text: str) -> None:
    assert parse_key_id(KEYRING, text) is None


def test_a_key_stays_valid_when_the_secret_is_rotated() -> None:
    rotated_keyring = Keyring([SecretStr("t" * 32), SecretStr("s" * 32)])
    assert parse_key_id(rotated_keyring, KEY_TEXT) == KEY.key_id
    assert matches_key(rotated_keyring, KEY_TEXT, KEY)
    assert parse_key_id(Keyring([SecretStr("t" * 32)]), KEY_TEXT) is None


@pytest.mark.parametrize("user", ["anna", "anna@example.com", "a.b-c_d+e@x.org", "0"])
def test_a_name_or_an_email_address_is_a_valid_user_id(user: str) -> None:
    assert require_user_id(user) == user


@pytest.mark.parametrize("user", ["", "Anna", "a/b", "__anna__", ".", "a b", "a" * 129, "ä", "a\n"])
def test_an_invalid_user_id_is_refused(user: str) -> None:
    with pytest.raises(InvalidInput, match="e-mail address or a name"):
        require_user_id(user)
