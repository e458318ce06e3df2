"""Sign-ins that end early: revoked people, revoked keys, banned addresses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.gateway.auth.callers import Credential
from shared.accounts.access_key import new_key
from shared.accounts.grant import Proof
from shared.accounts.repositories.revocation import revoke_key, revoke_user
from shared.core.caller import FULL_ACCESS
from shared.core.errors import Unauthorized
from tests.support.authorization_server import (
    NOON,
    PERSON,
    parse_error,
    parse_tokens,
)

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull

    from tests.support.authorization_server import AuthorizationServer

pytestmark = pytest.mark.anyio

INVALID_GRANT = (400, "invalid_grant")


async def test_a_revoked_person_gets_no_more_tokens(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    code = await server.issue_code(client.client_id)
    token = (await server.sign_in(client)).refresh_token
    await server.store.accounts.revoke(PERSON.user_id, server.clock.now)
    assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
    assert parse_error(await server.refresh(client, token)) == INVALID_GRANT
    server.clock.advance(seconds=1)
    await server.sign_in(client)


async def test_a_banned_google_account_gets_no_more_tokens(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    token = (await server.sign_in(client)).refresh_token
    other = await server.sign_in(client, replace(PERSON, email="bob@example.com", user_id="bob"))
    server.banned.add(PERSON.email)
    assert parse_error(await server.refresh(client, token)) == INVALID_GRANT
    parse_tokens(await server.refresh(client, other.refresh_token))


async def test_a_sign_in_by_key_lasts_as_long_as_the_key(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    _, key = new_key(server.access.keyring, "ada", "laptop", FULL_ACCESS, created_at=NOON)
    await server.store.keys.add(key)
    proof = Proof(user_id="ada", kind="key", key_id=key.key_id)
    token = (await server.sign_in(client, proof)).refresh_token
    token = parse_tokens(await server.refresh(client, token)).refresh_token
    code = await server.issue_code(client.client_id, proof)
    await server.store.keys.revoke(key.key_id, NOON)
    assert parse_error(await server.refresh(client, token)) == INVALID_GRANT
    assert parse_error(await server.exchange(client, code)) == INVALID_GRANT


async def test_revoking_a_key_ends_its_sign_ins_at_once(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    _, key = new_key(server.access.keyring, "ada", "laptop", FULL_ACCESS, created_at=NOON)
    await server.store.keys.add(key)
    tokens = await server.sign_in(client, Proof(user_id="ada", kind="key", key_id=key.key_id))
    google_tokens = await server.sign_in(client)
    _, sign_ins = await revoke_key(server.store, key.key_id)
    assert sign_ins == 1
    callers = server.access.callers
    with pytest.raises(Unauthorized):
        await callers.identify(Credential(tokens.access_token), "")
    assert await callers.identify(Credential(google_tokens.access_token), "")


async def test_no_token_outlives_the_key_that_it_comes_from(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    expires_at = NOON + timedelta(minutes=10)
    _, key = new_key(
        server.access.keyring, "ada", "laptop", FULL_ACCESS, created_at=NOON, expires_at=expires_at
    )
    await server.store.keys.add(key)
    proof = Proof(user_id="ada", kind="key", key_id=key.key_id, expires_at=expires_at)
    tokens = await server.sign_in(client, proof)
    assert tokens.expires_in == 600
    server.clock.advance(minutes=10)
    with pytest.raises(Unauthorized):
        await server.access.callers.identify(Credential(tokens.access_token), "")


async def test_revocation_does_not_depend_on_the_local_clock(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    future = NOON + timedelta(days=300)  # the time of a local clock that is wrong
    _, key = new_key(server.access.keyring, "ada", "laptop", FULL_ACCESS, created_at=future)
    await server.store.keys.add(key)
    proof = Proof(user_id="ada", kind="key", key_id=key.key_id)
    by_key = await server.sign_in(client, proof)
    by_google = await server.sign_in(client)
    assert await revoke_user(server.store, "ada") == (1, 1)
    assert await revoke_user(server.store, PERSON.user_id) == (0, 1)
    for tokens in (by_key, by_google):
        assert parse_error(await server.refresh(client, tokens.refresh_token)) == INVALID_GRANT
        with pytest.raises(Unauthorized):
            await server.access.callers.identify(Credential(tokens.access_token), "")


async def test_a_code_of_an_unknown_or_foreign_key_is_invalid(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    _, key = new_key(server.access.keyring, "ada", "laptop", FULL_ACCESS, created_at=NOON)
    await server.store.keys.add(key)
    unknown = Proof(user_id="ada", kind="key", key_id="0123456789ab")
    foreign = Proof(user_id="eve", kind="key", key_id=key.key_id)
    for proof in (unknown, foreign):
        code = await server.issue_code(client.client_id, proof)
        assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
