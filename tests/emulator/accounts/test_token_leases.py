"""Gateways lease blocks of tokens from the token buckets of rate limits.

A bucket of 20 calls a minute leases three tokens at a time, and gets one back every three seconds.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.limits import Limits
from shared.accounts.token_bucket import Rate, TokenLease
from shared.core.meter import Meter
from shared.firestore.connection import Connection

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
TWENTY_PER_MINUTE = Rate(20, timedelta(minutes=1))


@pytest.fixture
def limits(access: Connection, meter: Meter) -> Limits:
    """The buckets, with a meter of reads and writes."""
    return AccessStore(access, meter).limits


async def test_a_lease_costs_a_read_and_a_write(limits: Limits, meter: Meter) -> None:
    assert await limits.lease("read-1", TWENTY_PER_MINUTE, NOON) == TokenLease(3, NOON)
    assert meter.documents_read == 1
    assert meter.documents_written == 1
    assert meter.round_trips == 2


async def test_leases_empty_the_bucket(limits: Limits) -> None:
    leases = [await limits.lease("read-1", TWENTY_PER_MINUTE, NOON) for _ in range(8)]
    assert [lease.tokens for lease in leases] == [3, 3, 3, 3, 3, 3, 2, 0]
    assert leases[-1].more_at == NOON + timedelta(seconds=3)


async def test_an_empty_bucket_costs_no_write(limits: Limits, meter: Meter) -> None:
    for _ in range(7):
        await limits.lease("read-1", TWENTY_PER_MINUTE, NOON)
    written_before = meter.documents_written
    await limits.lease("read-1", TWENTY_PER_MINUTE, NOON)
    assert meter.documents_written == written_before


async def test_different_callers_have_different_buckets(limits: Limits) -> None:
    for _ in range(8):
        await limits.lease("read-1", TWENTY_PER_MINUTE, NOON)
    assert await limits.lease("read-2", TWENTY_PER_MINUTE, NOON) == TokenLease(3, NOON)


async def test_concurrent_leases_take_no_token_twice(access: Connection) -> None:
    instances = [AccessStore(access).limits for _ in range(10)]
    leases = await asyncio.gather(
        *(instance.lease("read-1", TWENTY_PER_MINUTE, NOON) for instance in instances)
    )
    assert sum(lease.tokens for lease in leases) == 20  # all that the bucket contains


async def test_a_document_expires_when_its_bucket_is_full(
    limits: Limits, access: Connection
) -> None:
    await limits.lease("read-1", TWENTY_PER_MINUTE, NOON)
    stored = await access.client.document("limits/read-1").get()
    assert stored.to_dict() == {"expires_at": NOON + timedelta(seconds=3 * 3)}
