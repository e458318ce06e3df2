"""Credentials of requests, in all forms that people and programs send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from functions.gateway.auth.callers import Credential, read_credential
from shared.core.errors import Unauthorized

KEY = "carrel_0123456789ab_" + "k" * 51


def credential_from(*headers: tuple[str, str]) -> Credential | None:
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    return read_credential(Headers(raw=raw))


def test_a_request_without_a_credential_has_none() -> None:
    assert credential_from(("accept", "*/*")) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_is_a_bearer_credential_in_whatever_case(scheme: str) -> None:
    assert credential_from(("authorization", f"{scheme} abc.def")) == Credential("abc.def")


@pytest.mark.parametrize("header", [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)])
def test_a_key_comes_in_either_header(header: tuple[str, str]) -> None:
    credential = credential_from(header)
    assert credential == Credential(KEY)
    assert credential.is_key


@pytest.mark.parametrize("identity", ["notes", "a@b", "Projekt-7"])
def test_the_part_before_a_key_names_a_task(identity: str) -> None:
    assert credential_from(("authorization", f"Bearer {identity}@{KEY}")) == Credential(
        KEY, identity
    )


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
        ("authorization", "Bearer tök en"),
        ("authorization", "Bearer \x00"),
        ("authorization", "Bearer " + "x" * 5000),
        ("x-api-key", ""),
        ("x-api-key", "no key"),
        ("x-api-key", "abc.def.ghi"),
    ],
)
def test_invalid_credential_is_rejected_with_advice(header: tuple[str, str]) -> None:
    with pytest.raises(Unauthorized, match="X-API-Key"):
        credential_from(header)


def test_two_credentials_are_rejected() -> None:
    both = [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)]
    for headers in (both, both[:1] * 2, both[1:] * 2):
        with pytest.raises(Unauthorized, match="more than one"):
            credential_from(*headers)


@given(st.text(st.characters(max_codepoint=255)))
def test_any_header_is_a_credential_or_rejected(value: str) -> None:
    try:
        credential = credential_from(("authorization", value))
    except Unauthorized:
        return
    assert credential
    assert credential.text.isascii()
