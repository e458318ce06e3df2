"""Gateways lease blocks of tokens from the token buckets of rate limits.

A bucket of 20 calls a minute leases three tokens at a time, and gets one back every three seconds.
"""

import asyncio
from datetime import timedelta

import pytest

from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.limits import Limits
from shared.accounts.token_bucket import Rate, TokenLease
from shared.core.meter import Meter
from shared.firestore.connection import Connection
from tests.support.clock import NOON

TWENTY_PER_MINUTE = Rate(20, timedelta(minutes=1))


@pytest.fixture
def limits(store: AccessStore) -> Limits:
    """The buckets."""
    return store.limits


async def test_a_lease_costs_a_read_and_a_write(
    limits: Limits, meter: Meter, access: Connection
) -> None:
    """The document expires when its bucket is full again."""
    assert await limits.lease("read-1", TWENTY_PER_MINUTE, NOON) == TokenLease(3, NOON)
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (1, 1, 2)
    stored = await access.client.document("limits/read-1").get()
    assert stored.to_dict() == {"expires_at": NOON + timedelta(seconds=3 * 3)}


async def test_leases_empty_the_bucket_of_one_caller(limits: Limits, meter: Meter) -> None:
    leases = [await limits.lease("read-1", TWENTY_PER_MINUTE, NOON) for _ in range(8)]
    assert [lease.tokens for lease in leases] == [3, 3, 3, 3, 3, 3, 2, 0]
    assert leases[-1].more_at == NOON + timedelta(seconds=3)
    assert meter.documents_written == 7  # an empty bucket is not written
    assert await limits.lease("read-2", TWENTY_PER_MINUTE, NOON) == TokenLease(3, NOON)


async def test_concurrent_leases_take_no_token_twice(access: Connection) -> None:
    instances = [AccessStore(access).limits for _ in range(10)]
    leases = await asyncio.gather(
        *(instance.lease("read-1", TWENTY_PER_MINUTE, NOON) for instance in instances)
    )
    assert sum(lease.tokens for lease in leases) == 20  # all that the bucket contains
