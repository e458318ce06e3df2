"""A sign-in ends early when its user, its key or its e-mail address loses access.

A person proves who they are with a key or with a Google account, and the proof is stored.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from mcp.shared.auth import OAuthClientInformationFull

from functions.gateway.auth.callers import Credential
from shared.accounts.access_key import new_key
from shared.accounts.grant import Proof
from shared.accounts.repositories.revocation import revoke_key, revoke_user
from shared.core.caller import FULL_ACCESS
from shared.core.errors import Unauthorized
from tests.support.authorization_server import (
    GOOGLE_PROOF,
    NOON,
    AuthorizationServer,
    parse_error,
    parse_tokens,
)

INVALID_GRANT = (400, "invalid_grant")


async def store_key(
    server: AuthorizationServer, *, created_at: datetime = NOON, expires_at: datetime | None = None
) -> tuple[str, Proof]:
    """Store a key of the user `ada`; return its id, and the proof of a person who uses it."""
    _, key = new_key(
        server.access.keyring,
        "ada",
        "laptop",
        FULL_ACCESS,
        created_at=created_at,
        expires_at=expires_at,
    )
    await server.store.keys.add(key)
    proof = Proof(user_id="ada", kind="key", key_id=key.key_id, expires_at=expires_at)
    return key.key_id, proof


async def test_a_revoked_person_gets_no_more_tokens(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    code = await server.issue_code(client.client_id)
    token = (await server.sign_in(client)).refresh_token
    await server.store.accounts.revoke(GOOGLE_PROOF.user_id, server.clock.now)
    assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
    assert parse_error(await server.refresh(client, token)) == INVALID_GRANT
    server.clock.advance(seconds=1)
    await server.sign_in(client)


async def test_a_banned_google_account_gets_no_more_tokens(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    token = (await server.sign_in(client)).refresh_token
    other_tokens = await server.sign_in(
        client, replace(GOOGLE_PROOF, email="bob@example.com", user_id="bob")
    )
    server.banned.add(GOOGLE_PROOF.email)
    assert parse_error(await server.refresh(client, token)) == INVALID_GRANT
    parse_tokens(await server.refresh(client, other_tokens.refresh_token))


async def test_revoking_a_key_ends_its_sign_ins_at_once(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    key_id, proof = await store_key(server)
    tokens = parse_tokens(
        await server.refresh(client, (await server.sign_in(client, proof)).refresh_token)
    )
    code = await server.issue_code(client.client_id, proof)
    google_tokens = await server.sign_in(client)
    _, sign_ins = await revoke_key(server.store, key_id)
    assert sign_ins == 2
    callers = server.access.callers
    with pytest.raises(Unauthorized):
        await callers.identify(Credential(tokens.access_token), "")
    assert parse_error(await server.refresh(client, tokens.refresh_token)) == INVALID_GRANT
    assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
    assert await callers.identify(Credential(google_tokens.access_token), "")


async def test_no_token_outlives_the_key_that_it_comes_from(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    expires_at = NOON + timedelta(minutes=10)
    _, proof = await store_key(server, expires_at=expires_at)
    tokens = await server.sign_in(client, proof)
    assert tokens.expires_in == 600
    server.clock.advance(minutes=10)
    with pytest.raises(Unauthorized):
        await server.access.callers.identify(Credential(tokens.access_token), "")


async def test_revocation_does_not_depend_on_the_local_clock(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    future = NOON + timedelta(days=300)  # the time of a local clock that is wrong
    _, proof = await store_key(server, created_at=future)
    key_tokens = await server.sign_in(client, proof)
    google_tokens = await server.sign_in(client)

    assert await revoke_user(server.store, "ada") == (1, 1)  # a key and its sign-in
    assert await revoke_user(server.store, GOOGLE_PROOF.user_id) == (0, 1)

    for tokens in (key_tokens, google_tokens):
        assert parse_error(await server.refresh(client, tokens.refresh_token)) == INVALID_GRANT
        with pytest.raises(Unauthorized):
            await server.access.callers.identify(Credential(tokens.access_token), "")


async def test_a_code_of_an_unknown_or_another_users_key_is_invalid(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    _, proof = await store_key(server)
    for wrong in (replace(proof, key_id="0123456789ab"), replace(proof, user_id="eve")):
        code = await server.issue_code(client.client_id, wrong)
        assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
