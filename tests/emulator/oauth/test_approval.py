"""Approvals of authorization requests, and the seal that protects a request.

An approval needs a proof of who signed in, and grants no scopes that this person does not have. The
browser carries a request from page to page, so the server seals it with a signature.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from functions.gateway.oauth.authorization import AuthorizationRequest, seal, unseal
from shared.accounts.grant import Proof
from shared.accounts.keyring import Keyring
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.errors import Forbidden, InvalidInput, Unauthorized
from tests.support.authorization_server import (
    CODE_VERIFIER,
    GOOGLE_PROOF,
    ISSUER,
    NOON,
    REDIRECT_URI,
    AuthorizationServer,
    compute_challenge,
    make_authorization_parameters,
    make_corrupted_tokens,
    parse_query,
)
from tests.support.clock import SettableClock

SECRET = SecretStr("k" * 32)
KEYRING = Keyring([SECRET])
REQUEST = AuthorizationRequest(
    client_id="c",
    client_name="Program",
    redirect_uri=REDIRECT_URI,
    redirect_uri_given=True,
    scopes=FULL_ACCESS,
    state="a state",
    code_challenge=compute_challenge(CODE_VERIFIER),
)
ENCODABLE_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
"""Texts without surrogates, which UTF-8 cannot encode."""


@pytest.mark.parametrize("proof", [None, "ada", True, {"user_id": "ada", "kind": "key"}])
async def test_an_approval_without_a_proof_is_unauthorized(
    server: AuthorizationServer, proof: Any
) -> None:
    with pytest.raises(Unauthorized):
        await server.approvals.approve(REQUEST, proof, FULL_ACCESS)
    assert await server.read_documents("oauth_grants") == []


@pytest.mark.parametrize(
    "proof",
    [
        {"user_id": "ada", "kind": "key"},
        {"user_id": "ada", "kind": "key", "email": "ada@example.com"},
        {"user_id": "ada", "kind": "google"},
        {"user_id": "ada", "kind": "google", "key_id": "k", "email": ""},
        {"user_id": "ada", "kind": "google", "key_id": "k", "email": "ada@example.com"},
        {"user_id": "", "kind": "google", "email": "ada@example.com"},
        {"user_id": "ada", "kind": "password", "key_id": "k"},
    ],
)
def test_an_incomplete_proof_is_rejected(proof: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a proof needs a user"):
        Proof(**proof)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_endpoint_issues_a_code_without_approval(
    server: AuthorizationServer, method: str
) -> None:
    client = await server.register()
    forged_fields = {
        "approve": "1",
        "user_id": "ada",
        "decision": "allow",
        "code": "c",
        "prompt": "none",
    }
    fields = make_authorization_parameters(client.client_id) | forged_fields
    for path in ("/authorize", "/token", "/register", "/revoke"):
        arguments: dict[str, Any] = {"params": fields} if method == "GET" else {"data": fields}
        answer = await server.http.request(method, path, **arguments)
        assert "code" not in parse_query(answer.headers.get("location", ""))
    assert await server.read_documents("oauth_grants") == []


async def test_an_approval_sends_code_state_and_issuer(server: AuthorizationServer) -> None:
    location = await server.approvals.approve(REQUEST, GOOGLE_PROOF, FULL_ACCESS)
    assert location.startswith(f"{REDIRECT_URI}?")
    assert set(parse_query(location)) == {"code", "state", "iss"}
    assert parse_query(location)["state"] == "a state"
    assert parse_query(location)["iss"] == ISSUER


async def test_the_query_of_a_redirect_uri_is_preserved(server: AuthorizationServer) -> None:
    request = replace(REQUEST, redirect_uri=f"{REDIRECT_URI}?a=&b=%20", state=None)
    location = await server.approvals.approve(request, GOOGLE_PROOF, FULL_ACCESS)
    assert location.startswith(f"{REDIRECT_URI}?a=&b=%20&code=")
    assert "state" not in parse_query(location)


async def test_a_denial_sends_no_code(server: AuthorizationServer) -> None:
    location = server.approvals.deny(REQUEST)
    assert parse_query(location) == {
        "error": "access_denied",
        "error_description": "The person denied access.",
        "state": "a state",
        "iss": ISSUER,
    }


async def test_an_approval_grants_only_scopes_of_the_person(server: AuthorizationServer) -> None:
    await server.approvals.approve(REQUEST, GOOGLE_PROOF, frozenset({Scope.READ}))
    [grant] = await server.read_documents("oauth_grants")
    assert grant["scopes"] == ["carrel:read"]


async def test_an_approval_without_common_scopes_is_forbidden(server: AuthorizationServer) -> None:
    request = replace(REQUEST, scopes=frozenset({Scope.WRITE}))
    with pytest.raises(Forbidden):
        await server.approvals.approve(request, GOOGLE_PROOF, frozenset({Scope.READ}))
    assert await server.read_documents("oauth_grants") == []


async def test_a_proven_key_is_not_read_again(server: AuthorizationServer) -> None:
    """The key of this proof is not stored, so reading it would fail."""
    proof = Proof(user_id="ada", kind="key", key_id="0123456789ab")
    await server.approvals.approve(REQUEST, proof, FULL_ACCESS)
    [grant] = await server.read_documents("oauth_grants")
    assert grant["proof"]["key_id"] == "0123456789ab"


def test_a_sealed_request_can_be_opened_for_ten_minutes() -> None:
    clock = SettableClock(NOON)
    sealed = seal(KEYRING, REQUEST, clock)
    clock.advance(minutes=10)
    assert unseal(KEYRING, sealed, clock) == REQUEST
    clock.advance(seconds=1)
    with pytest.raises(InvalidInput, match="has expired"):
        unseal(KEYRING, sealed, clock)


def test_a_changed_sealed_request_is_rejected() -> None:
    clock = SettableClock(NOON)
    sealed = seal(KEYRING, REQUEST, clock)
    forged = seal(Keyring([SecretStr("x" * 32)]), REQUEST, clock)
    for text in (*make_corrupted_tokens(sealed), forged):
        with pytest.raises(InvalidInput):
            unseal(KEYRING, text, clock)


@given(st.text())
def test_arbitrary_text_is_not_a_sealed_request(text: str) -> None:
    with pytest.raises(InvalidInput):
        unseal(KEYRING, text, SettableClock(NOON))


@given(
    st.builds(
        AuthorizationRequest,
        client_id=ENCODABLE_TEXT,
        client_name=st.none() | ENCODABLE_TEXT,
        redirect_uri=ENCODABLE_TEXT,
        redirect_uri_given=st.booleans(),
        scopes=st.frozensets(st.sampled_from(Scope)),
        state=st.none() | ENCODABLE_TEXT,
        code_challenge=ENCODABLE_TEXT,
    )
)
def test_any_request_survives_sealing(request: AuthorizationRequest) -> None:
    clock = SettableClock(NOON)
    assert unseal(KEYRING, seal(KEYRING, request, clock), clock) == request


def test_a_request_sealed_before_a_rotation_is_valid() -> None:
    sealed = seal(KEYRING, REQUEST, SettableClock(NOON))
    rotated = Keyring([SecretStr("n" * 32), SECRET])
    assert unseal(rotated, sealed, lambda: NOON + timedelta(minutes=1)) == REQUEST
