"""Approvals of authorization requests, and the seal that protects a request.

An approval needs a proof of who signed in, and grants no scopes that this person does not have. The
browser carries a request from page to page, so the server seals it with a signature.
"""

from dataclasses import replace
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


@pytest.mark.parametrize("proof", [None, "ada", {"user_id": "ada", "kind": "key"}])
async def test_an_approval_without_a_proof_is_unauthorized(
    server: AuthorizationServer, proof: Any
) -> None:
    with pytest.raises(Unauthorized):
        await server.approvals.approve(REQUEST, proof, FULL_ACCESS)
    assert await server.read_documents("oauth_grants") == []


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
    """It keeps the query of a redirect URI."""
    location = await server.approvals.approve(REQUEST, GOOGLE_PROOF, FULL_ACCESS)
    assert location.startswith(f"{REDIRECT_URI}?")
    code = parse_query(location)["code"]
    assert parse_query(location) == {"code": code, "state": "a state", "iss": ISSUER}

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
    writing = replace(REQUEST, scopes=frozenset({Scope.WRITE}))
    with pytest.raises(Forbidden):
        await server.approvals.approve(writing, GOOGLE_PROOF, frozenset({Scope.READ}))
    assert await server.read_documents("oauth_grants") == []

    # The key of this proof is not stored, so reading it again would fail.
    proof = Proof(user_id="ada", kind="key", key_id="0123456789ab")
    await server.approvals.approve(REQUEST, proof, frozenset({Scope.READ}))
    [grant] = await server.read_documents("oauth_grants")
    assert grant["scopes"] == ["carrel:read"]
    assert grant["proof"]["key_id"] == "0123456789ab"


def test_a_changed_or_late_sealed_request_is_rejected() -> None:
    clock = SettableClock(NOON)
    sealed = seal(KEYRING, REQUEST, clock)
    forged = seal(Keyring([SecretStr("x" * 32)]), REQUEST, clock)
    for text in (*make_corrupted_tokens(sealed), forged):
        with pytest.raises(InvalidInput):
            unseal(KEYRING, text, clock)

    rotated = Keyring([SecretStr("n" * 32), SECRET])
    clock.advance(minutes=10)
    assert unseal(rotated, sealed, clock) == REQUEST
    clock.advance(seconds=1)
    with pytest.raises(InvalidInput, match="has expired"):
        unseal(KEYRING, sealed, clock)


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
