"""The credential of a request is read from its headers, in all forms that clients send."""

from __future__ import annotations

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


def test_a_request_without_credential_headers_has_none() -> None:
    assert read_from_headers(("accept", "*/*")) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_bearer_scheme_is_read_in_any_case(scheme: str) -> None:
    assert read_from_headers(("authorization", f"{scheme} abc.def")) == Credential("abc.def")


@pytest.mark.parametrize("header", [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)])
def test_a_key_is_read_from_either_header(header: tuple[str, str]) -> None:
    credential = read_from_headers(header)
    assert credential == Credential(KEY)
    assert credential.is_key


@pytest.mark.parametrize("task", ["notes", "a@b", "Project-7"])
def test_the_part_before_a_key_names_a_task(task: str) -> None:
    credential = read_from_headers(("authorization", f"Bearer {task}@{KEY}"))
    assert credential == Credential(KEY, task)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(("authorization", ""), id="empty header"),
        pytest.param(("authorization", "Bearer"), id="scheme alone"),
        pytest.param(("authorization", "Bearer "), id="no token"),
        pytest.param(("authorization", KEY), id="no scheme"),
        pytest.param(("authorization", "Basic YTpi"), id="another scheme"),
        pytest.param(("authorization", "Bearer two words"), id="space in the token"),
        pytest.param(("authorization", f"Bearer @{KEY}"), id="empty task"),
        pytest.param(("authorization", "Bearer t\xf6ken"), id="letter outside ASCII"),
        pytest.param(("authorization", "Bearer \x00"), id="control character"),
        pytest.param(("authorization", "Bearer " + "x" * 5000), id="too long"),
        pytest.param(("x-api-key", ""), id="empty key"),
        pytest.param(("x-api-key", "no key"), id="malformed key"),
        pytest.param(("x-api-key", "abc.def.ghi"), id="token instead of a key"),
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
