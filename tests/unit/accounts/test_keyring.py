"""Only a deployment that has the secret can make and verify signatures with its keyring."""

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.accounts.keyring import Keyring
from shared.core.errors import InvalidInput
from shared.core.settings import Settings

OLD_SECRET, NEW_SECRET = SecretStr("old-" * 8), SecretStr("new-" * 8)
KEYRING = Keyring([OLD_SECRET])


@given(st.text(), st.text(), st.text(), st.text())
def test_a_signature_is_valid_only_for_its_purpose_and_message(
    purpose: str, other_purpose: str, message: str, other_message: str
) -> None:
    signature = KEYRING.sign(purpose, message)
    assert KEYRING.verify(purpose, message, signature)
    assert KEYRING.verify(purpose, other_message, signature) == (message == other_message)
    assert KEYRING.verify(other_purpose, message, signature) == (purpose == other_purpose)
    assert not Keyring([NEW_SECRET]).verify(purpose, message, signature)


@given(st.text())
def test_arbitrary_text_is_not_a_signature(text: str) -> None:
    assert not KEYRING.verify("purpose", "message", text)


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


def test_a_missing_dropped_or_short_secret_is_refused() -> None:
    with pytest.raises(KeyError):
        Keyring([NEW_SECRET]).derive_key("a", KEYRING.newest_id)
    with pytest.raises(InvalidInput, match="openssl rand"):
        Keyring([])
    for length in (31, 32):
        settings = {"access_secrets": [SecretStr("x" * length)]}
        with nullcontext() if length == 32 else pytest.raises(InvalidInput, match="at least 32"):
            assert "xxx" not in repr(Settings(**settings))
