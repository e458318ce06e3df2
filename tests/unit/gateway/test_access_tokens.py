"""Only access tokens that this server issued are valid."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from functions.gateway.auth.access_tokens import AccessTokens
from shared.accounts.keyring import Keyring
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.errors import Unauthorized
from tests.support.clock import SettableClock

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ISSUER, RESOURCE = "https://carrel.example", "https://carrel.example/mcp"
KEYRING = Keyring([SecretStr("s" * 32)])
TOKEN_FIELDS: dict[str, Any] = {
    "user_id": "anna",
    "client_id": "c-1",
    "scopes": frozenset({Scope.READ}),
    "grant_id": "g-1",
}


def make_tokens(
    keyring: Keyring = KEYRING, now: datetime = NOW, issuer: str = ISSUER, resource: str = RESOURCE
) -> AccessTokens:
    """Make what issues and verifies tokens, at a moment and for an issuer and a resource."""
    return AccessTokens(keyring, issuer, resource, SettableClock(now))


TOKEN = make_tokens().issue(**TOKEN_FIELDS)
HEADER = jwt.get_unverified_header(TOKEN)
CLAIMS = jwt.decode(TOKEN, options={"verify_signature": False})


def sign(claims: dict[str, Any], **header: Any) -> str:
    """Return a token with a valid signature and arbitrary claims."""
    key = KEYRING.derive_key("access token", KEYRING.newest_id)
    return jwt.encode(claims, key, algorithm="HS256", headers={**HEADER, **header})


@pytest.mark.parametrize("scopes", [frozenset({Scope.READ}), FULL_ACCESS])
def test_a_token_has_its_claims_for_an_hour(scopes: frozenset[Scope]) -> None:
    token = make_tokens().issue(**{**TOKEN_FIELDS, "scopes": scopes})
    access_token = make_tokens(now=NOW + timedelta(minutes=59)).verify(token)
    assert (access_token.user_id, access_token.client_id) == ("anna", "c-1")
    assert (access_token.grant_id, access_token.issued_at) == ("g-1", NOW)
    assert access_token.scopes == scopes
    with pytest.raises(Unauthorized, match="expired"):
        make_tokens(now=NOW + timedelta(hours=1)).verify(token)


@pytest.mark.parametrize(
    "other_tokens",
    [
        make_tokens(issuer="https://evil.example"),
        make_tokens(resource="https://carrel.example/other"),
        make_tokens(Keyring([SecretStr("u" * 32)])),
    ],
    ids=["issuer", "resource", "secret"],
)
def test_a_token_of_another_issuer_or_resource_is_not_valid(other_tokens: AccessTokens) -> None:
    with pytest.raises(Unauthorized, match="is not valid"):
        make_tokens().verify(other_tokens.issue(**TOKEN_FIELDS))
    rotated = make_tokens(Keyring([SecretStr("t" * 32), SecretStr("s" * 32)]))
    assert rotated.verify(TOKEN)


@pytest.mark.parametrize("algorithm", ["none", "NONE"])
def test_an_unsigned_token_is_not_valid(algorithm: str) -> None:
    header = {**HEADER, "alg": algorithm}
    parts = [json.dumps(part).encode() for part in (header, CLAIMS)]
    unsigned = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    for token in (f"{unsigned}.", unsigned, f"{unsigned}.x"):
        with pytest.raises(Unauthorized, match=r"is not valid|not a key"):
            make_tokens().verify(token)


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_with_the_right_key_is_not_valid(algorithm: str) -> None:
    key = KEYRING.derive_key("access token", KEYRING.newest_id) * 2
    token = jwt.encode(CLAIMS, key, algorithm=algorithm, headers={"kid": KEYRING.newest_id})
    with pytest.raises(Unauthorized, match="is not valid"):
        make_tokens().verify(token)


@pytest.mark.parametrize("name", sorted(CLAIMS.keys() - {"client_name", "jti"}))
def test_a_token_that_lacks_a_claim_is_not_valid(name: str) -> None:
    with pytest.raises(Unauthorized, match="is not valid"):
        make_tokens().verify(sign({key: value for key, value in CLAIMS.items() if key != name}))


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": "carrel:everything"},
        {"scope": 5},
        {"aud": ["https://elsewhere.example/mcp"]},
        {"iat": "yesterday"},
        {"exp": None},
    ],
)
def test_a_token_with_an_odd_claim_is_not_valid(claims: dict[str, Any]) -> None:
    with pytest.raises(Unauthorized):
        make_tokens().verify(sign({**CLAIMS, **claims}))


def test_a_token_of_another_kind_is_not_valid() -> None:
    for kind in ("JWT", "consent+jwt", None):
        with pytest.raises(Unauthorized, match="is not valid"):
            make_tokens().verify(sign(CLAIMS, typ=kind))


@given(st.text())
def test_arbitrary_text_is_not_a_token(text: str) -> None:
    with pytest.raises(Unauthorized):
        make_tokens().verify(text)


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from("abcXYZ019-_."))
def test_a_token_with_a_changed_character_is_not_valid(index: int, character: str) -> None:
    changed_token = TOKEN[:index] + character + TOKEN[index + 1 :]
    # The last character of base64 may contain unused bits.
    if changed_token == TOKEN or index == len(TOKEN) - 1:
        return
    with pytest.raises(Unauthorized):
        make_tokens().verify(changed_token)
