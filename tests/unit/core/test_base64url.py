"""Bytes are encoded as base64 for URLs, without padding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.base64url import from_base64url, to_base64url


def test_no_character_needs_escaping_in_a_url() -> None:
    assert to_base64url(b"\xfb\xff") == "-_8"


@given(st.binary())
def test_decoding_returns_the_encoded_bytes(content: bytes) -> None:
    assert from_base64url(to_base64url(content)) == content


@pytest.mark.parametrize("text", ["a", "a b", "a\nb=", "é", "a=b", "AAAAA"])
def test_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ
        from_base64url(text)
