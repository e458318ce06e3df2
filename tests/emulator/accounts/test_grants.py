"""Grants and registrations are read as they were stored, and each operation has a known cost.

A grant is the authorization that a person gives to a program. A program registers as a client.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.accounts.grant import (
    CODE_LIFETIME,
    MAX_TOKEN_REMAINDER,
    UNUSED_LIFETIME,
    Grant,
    OAuthClient,
    Proof,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.meter import Meter
from shared.firestore.database import WriteConflict

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
GRANT = Grant(
    grant_id="0123456789abcdef" * 2,
    user_id="ada@example.com",
    client_id="https://claude.example/client.json",
    scopes=FULL_ACCESS,
    code_challenge="x" * 43,
    redirect_uri="https://program.example/back",
    redirect_uri_given=True,
    proof=Proof(user_id="ada@example.com", kind="google", email="ada@example.com"),
    created_at=NOON,
    expires_at=NOON + CODE_LIFETIME,
)
CLIENT = OAuthClient(
    client_id="c.d",
    name=None,
    redirect_uris=("https://program.example/back", "http://localhost/"),
    has_secret=True,
    created_at=NOON,
    expires_at=NOON + UNUSED_LIFETIME,
)


def read_cost(meter: Meter) -> tuple[int, int, int]:
    return meter.documents_read, meter.documents_written, meter.round_trips


async def test_a_grant_is_read_as_it_was_stored(store: AccessStore, meter: Meter) -> None:
    grant = replace(GRANT, generation=3, rotated_at=NOON, ended_at=NOON)
    await store.grants.add(grant)
    assert await store.grants.get(GRANT.grant_id) == grant
    assert await store.grants.get("none") is None
    assert read_cost(meter) == (2, 1, 3)
    with pytest.raises(WriteConflict):
        await store.grants.add(GRANT)


async def test_a_change_costs_a_read_and_a_write(store: AccessStore, meter: Meter) -> None:
    """One that changes nothing costs the read."""
    await store.grants.add(GRANT)
    assert await store.grants.change(GRANT.grant_id, lambda grant: grant) == GRANT
    assert await store.grants.change("none", lambda grant: grant) is None
    assert read_cost(meter) == (2, 1, 1 + 2)
    changed = await store.grants.change(GRANT.grant_id, lambda grant: grant.exchange_code(NOON))
    assert read_cost(meter) == (3, 2, 3 + 2)
    assert await store.grants.get(GRANT.grant_id) == changed


async def test_a_grant_ends_together_with_its_access_tokens(
    store: AccessStore, meter: Meter
) -> None:
    await store.grants.add(GRANT)
    await store.accounts.credit(GRANT.user_id, 5, NOON)
    before = read_cost(meter)
    await store.grants.change(GRANT.grant_id, lambda grant: grant.end(NOON))
    # It reads the grant and the server's time, and writes the grant and the account.
    assert [now - then for now, then in zip(read_cost(meter), before, strict=True)] == [2, 2, 3]

    account = await store.accounts.get(GRANT.user_id)
    [listed_until] = account.ended_grants.values()
    age = await store.accounts.get_server_time() + MAX_TOKEN_REMAINDER - listed_until
    assert timedelta() <= age < timedelta(minutes=1)
    assert account.balance == 5
    assert not account.accepts(NOON, GRANT.grant_id)


async def test_concurrent_changes_are_all_applied(store: AccessStore) -> None:
    await store.grants.add(GRANT)

    def increment_generation(grant: Grant) -> Grant:
        return replace(grant, generation=grant.generation + 1)

    await asyncio.gather(
        *(store.grants.change(GRANT.grant_id, increment_generation) for _ in range(5))
    )
    grant = await store.grants.get(GRANT.grant_id)
    assert grant
    assert grant.generation == 5


async def test_a_registration_is_read_as_it_was_stored(store: AccessStore, meter: Meter) -> None:
    """An unknown one is not made by extending it."""
    await store.clients.add(CLIENT)
    assert await store.clients.get(CLIENT.client_id) == CLIENT
    assert await store.clients.get("none") is None
    assert read_cost(meter) == (2, 1, 3)
    later = NOON + timedelta(days=90)
    for client_id in (CLIENT.client_id, "none"):
        await store.clients.extend(client_id, later)
    assert await store.clients.get(CLIENT.client_id) == replace(CLIENT, expires_at=later)
    assert await store.clients.get("none") is None
