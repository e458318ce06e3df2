"""The credential of a request is read from its headers, in all forms that clients send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from functions.gateway.auth.callers import Credential, read_credential
from shared.core.errors import Unauthorized

KEY = "carrel_0123456789ab_" + "k" * 51


def read_from_headers(*headers: tuple[str, str]) -> Credential | None:
    """Return the credential in a request with these headers."""
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    return read_credential(Headers(raw=raw))


@pytest.mark.parametrize(
    ("header", "credential"),
    [
        (("accept", "*/*"), None),
        (("authorization", "BEARER abc.def"), Credential("abc.def")),
        (("authorization", f"bearer {KEY}"), Credential(KEY)),
        (("x-api-key", KEY), Credential(KEY)),
        (("authorization", f"Bearer notes@{KEY}"), Credential(KEY, "notes")),
        (("authorization", f"Bearer a@b@{KEY}"), Credential(KEY, "a@b")),
    ],
)
def test_a_credential_is_read_from_either_header(
    header: tuple[str, str], credential: Credential | None
) -> None:
    """The part before a key names a task."""
    assert read_from_headers(header) == credential
    assert credential is None or credential.is_key == (credential.text == KEY)


@pytest.mark.parametrize(
    "header",
    [
        ("authorization", ""),
        ("authorization", "Bearer"),
        ("authorization", "Bearer "),
        ("authorization", KEY),
        ("authorization", "Basic YTpi"),
        ("authorization", "Bearer two words"),
        ("authorization", f"Bearer @{KEY}"),
        ("authorization", "Bearer t\xf6ken"),
        ("authorization", "Bearer \x00"),
        ("authorization", "Bearer " + "x" * 5000),
        ("x-api-key", ""),
        ("x-api-key", "no key"),
        ("x-api-key", "abc.def.ghi"),
    ],
)
def test_invalid_credential_is_rejected_with_advice(header: tuple[str, str]) -> None:
    with pytest.raises(Unauthorized, match="X-API-Key"):
        read_from_headers(header)


def test_two_credentials_are_rejected() -> None:
    both_headers = [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)]
    authorization, api_key = both_headers
    for headers in (both_headers, [authorization] * 2, [api_key] * 2):
        with pytest.raises(Unauthorized, match="more than one"):
            read_from_headers(*headers)


@given(st.text(st.characters(max_codepoint=255)))
def test_any_header_is_a_credential_or_rejected(value: str) -> None:
    try:
        credential = read_from_headers(("authorization", value))
    except Unauthorized:
        return
    assert credential
    assert credential.text.isascii()
