"""Only a deployment that has the secret can make and verify signatures with its keyring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.accounts.keyring import Keyring
from shared.core.errors import InvalidInput
from shared.core.settings import Settings

OLD_SECRET, NEW_SECRET = SecretStr("old-" * 8), SecretStr("new-" * 8)
KEYRING = Keyring([OLD_SECRET])


@given(st.text(), st.text())
def test_a_signature_verifies(purpose: str, message: str) -> None:
    assert KEYRING.verify(purpose, message, KEYRING.sign(purpose, message))


@given(st.text(), st.text(), st.text())
def test_signature_is_valid_only_for_its_message(
    purpose: str, signed_message: str, checked_message: str
) -> None:
    signature = KEYRING.sign(purpose, signed_message)
    is_same_message = signed_message == checked_message
    assert KEYRING.verify(purpose, checked_message, signature) == is_same_message


def test_signature_is_valid_only_for_its_purpose() -> None:
    assert not KEYRING.verify("b", "message", KEYRING.sign("a", "message"))


@given(st.text())
def test_arbitrary_text_is_not_a_signature(text: str) -> None:
    assert not KEYRING.verify("purpose", "message", text)


def test_a_signature_of_another_deployment_is_not_valid() -> None:
    assert not KEYRING.verify("a", "message", Keyring([NEW_SECRET]).sign("a", "message"))


def test_a_signature_stays_valid_when_the_secret_is_rotated() -> None:
    rotated_keyring = Keyring([NEW_SECRET, OLD_SECRET])
    assert rotated_keyring.verify("a", "message", KEYRING.sign("a", "message"))
    assert Keyring([NEW_SECRET]).sign("a", "message") == rotated_keyring.sign("a", "message")


def test_a_truncated_signature_verifies_only_with_its_length() -> None:
    start = KEYRING.sign("a", "message")[:8]
    assert KEYRING.verify("a", "message", start, length=8)
    assert not KEYRING.verify("a", "message", start)
    assert not KEYRING.verify("a", "message", "", length=8)
    assert not KEYRING.verify("a", "message", start[:7], length=8)


def test_a_dropped_secret_gives_no_key() -> None:
    with pytest.raises(KeyError):
        Keyring([NEW_SECRET]).derive_key("a", KEYRING.newest_id)


def test_missing_secret_is_an_error_with_advice() -> None:
    with pytest.raises(InvalidInput, match="openssl rand"):
        Keyring([])


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 32"):
        Settings(access_secrets=[SecretStr("short")])


def test_a_secret_is_not_printed_with_the_settings() -> None:
    assert "old-" not in repr(Settings(access_secrets=[OLD_SECRET]))
