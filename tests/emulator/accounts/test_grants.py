"""Grants and registrations in Firestore, and the cost of their operations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

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
from shared.firestore.database import Connection, WriteConflict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.meter import Meter
    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio

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


@pytest.fixture
async def store(settings: Settings, meter: Meter) -> AsyncIterator[AccessStore]:
    connection = Connection(settings.google_cloud_project, settings.access_database)
    yield AccessStore(connection, meter)
    await connection.aclose()


def read_costs(meter: Meter) -> tuple[int, int, int]:
    """Return the numbers of documents read, documents written and round trips."""
    return meter.documents_read, meter.documents_written, meter.round_trips


async def test_a_grant_is_read_as_it_was_stored(store: AccessStore) -> None:
    used = replace(GRANT, generation=3, rotated_at=NOON, ended_at=NOON)
    await store.grants.add(used)
    assert await store.grants.get(GRANT.grant_id) == used
    assert await store.grants.get("none") is None
    with pytest.raises(WriteConflict):
        await store.grants.add(GRANT)


async def test_a_change_costs_a_read_and_a_write(store: AccessStore, meter: Meter) -> None:
    await store.grants.add(GRANT)
    before = read_costs(meter)
    after = await store.grants.change(GRANT.grant_id, lambda g: g.exchange_code(NOON))
    assert await store.grants.get(GRANT.grant_id) == after
    assert before == (0, 1, 1)
    assert read_costs(meter) == (2, 2, 4)


async def test_a_change_without_effect_writes_nothing(store: AccessStore, meter: Meter) -> None:
    await store.grants.add(GRANT)
    assert await store.grants.change(GRANT.grant_id, lambda grant: grant) == GRANT
    assert await store.grants.change("none", lambda grant: grant) is None
    assert read_costs(meter) == (2, 1, 3)


async def test_a_grant_ends_together_with_its_access_tokens(
    store: AccessStore, meter: Meter
) -> None:
    await store.grants.add(GRANT)
    await store.accounts.credit(GRANT.user_id, 5, NOON)
    before = read_costs(meter)
    await store.grants.change(GRANT.grant_id, lambda grant: grant.end(NOON))
    assert read_costs(meter) == (before[0] + 2, before[1] + 2, before[2] + 3)
    account = await store.accounts.get(GRANT.user_id)
    [until] = account.ended_grants.values()
    assert (
        timedelta()
        <= await store.accounts.get_server_time() + MAX_TOKEN_REMAINDER - until
        < timedelta(minutes=1)
    )
    assert account.balance == 5
    assert not account.accepts(NOON, GRANT.grant_id)


async def test_concurrent_changes_are_all_applied(store: AccessStore) -> None:
    await store.grants.add(GRANT)
    await asyncio.gather(
        *(store.grants.change(GRANT.grant_id, _increment_generation) for _ in range(5))
    )
    grant = await store.grants.get(GRANT.grant_id)
    assert (grant.generation if grant else None) == 5


def _increment_generation(grant: Grant) -> Grant:
    return replace(grant, generation=grant.generation + 1)


async def test_a_registration_is_read_as_it_was_stored(store: AccessStore, meter: Meter) -> None:
    await store.clients.add(CLIENT)
    assert await store.clients.get(CLIENT.client_id) == CLIENT
    assert await store.clients.get("none") is None
    assert read_costs(meter) == (2, 1, 3)


async def test_only_an_existing_registration_is_extended(store: AccessStore) -> None:
    later = NOON + timedelta(days=90)
    await store.clients.add(CLIENT)
    await store.clients.extend(CLIENT.client_id, later)
    await store.clients.extend("none", later)
    assert await store.clients.get(CLIENT.client_id) == replace(CLIENT, expires_at=later)
    assert await store.clients.get("none") is None
