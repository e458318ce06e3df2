"""Base64 for addresses, without padding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.base64url import from_base64url, to_base64url


def test_it_has_no_character_that_an_address_would_escape() -> None:
    assert "-_8" == to_base64url(b"\xfb\xff")


@given(st.binary())
def test_everything_comes_back_as_it_was(plain: bytes) -> None:
    assert plain == from_base64url(to_base64url(plain))


@pytest.mark.parametrize("text", ["a", "a b", "a\nb=", "é", "a=b", "AAAAA"])
def test_a_text_that_it_did_not_make_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
        from_base64url(text)
