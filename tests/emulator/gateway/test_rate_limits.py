"""The gateway limits the rate of calls, also if several instances of it serve one caller.

Each limit is a token bucket in the database. A call takes a token, and tokens come back with time.
An instance leases a block of tokens, so most calls do not read the database.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.gateway.auth.visitor import Visitor
from functions.gateway.rate_limits import (
    IDLE_TIMEOUT,
    LOGINS,
    REGISTRATIONS,
    CallLimits,
    LeasedBuckets,
)
from shared.accounts.token_bucket import Rate, TokenBucket, TokenLease
from shared.core.caller import Caller
from shared.core.errors import InvalidInput, RateLimited
from shared.core.settings import ACCESS_DATABASE, Settings
from shared.firestore.connection import Connection
from shared.runtime.tool import Effect
from tests.support.clock import NOON, SettableClock

MINUTE = timedelta(minutes=1)
ANNA = Visitor(Caller.of("anna@example.com"), "user:anna@example.com")
BEN = Visitor(Caller.of("ben"), "user:ben")
STRANGER = Visitor(Caller(), "address:2001:db8::/64")
NEIGHBOUR = Visitor(Caller(), "address:2001:db8:0:1::/64")
LAPTOP = Visitor(Caller.of("local"), None)


class Buckets:
    """A store of token buckets in memory, which counts the leases."""

    def __init__(self) -> None:
        """Start without buckets."""
        self.buckets: dict[str, TokenBucket] = {}
        self.leases = 0

    async def lease(self, limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        """Lease a block of tokens; let other tasks run before and after, as a database does."""
        await asyncio.sleep(0)
        self.leases += 1
        bucket = self.buckets.get(limit_id, TokenBucket(rate))
        leased, self.buckets[limit_id] = bucket.lease(now)
        await asyncio.sleep(0)
        return leased


@pytest.fixture
async def make_instance(
    settings: Settings, clock: SettableClock
) -> AsyncIterator[Callable[[], CallLimits]]:
    """A function that makes instances with one database."""
    connection = Connection(settings.google_cloud_project, ACCESS_DATABASE)
    yield lambda: CallLimits(settings, connection, clock)
    await connection.aclose()


async def count_accepted(limits: CallLimits, visitor: Visitor, effect: Effect, calls: int) -> int:
    """Make concurrent calls and return the number of accepted ones."""
    answers = await asyncio.gather(
        *(limits.take(visitor, effect) for _ in range(calls)), return_exceptions=True
    )
    assert all(answer is None or isinstance(answer, RateLimited) for answer in answers)
    return answers.count(None)


@pytest.mark.requirement("002-L5")
async def test_each_class_of_calls_has_its_limit(make_instance: Callable[[], CallLimits]) -> None:
    limits = make_instance()
    for visitor, effect, calls, accepted in (
        (ANNA, Effect.READ, 70, 60),
        (ANNA, Effect.WRITE, 70, 20),
        (ANNA, Effect.DESTROY, 70, 0),  # shares the limit of writes
        (BEN, Effect.READ, 70, 60),
        (STRANGER, Effect.READ, 9, 9),
        (STRANGER, Effect.WRITE, 9, 1),  # without an account, there is one limit by address
        (NEIGHBOUR, Effect.READ, 1, 1),
        (LAPTOP, Effect.WRITE, 500, 500),
    ):
        assert await count_accepted(limits, visitor, effect, calls) == accepted


@pytest.mark.parametrize(
    ("visitor", "effect", "description", "wait"),
    [
        (ANNA, Effect.READ, "read: 60 calls to tools that read per minute.", 1),
        (ANNA, Effect.WRITE, "write: 20 calls to tools that write per minute.", 3),
        (STRANGER, Effect.READ, "anonymous: 10 calls without signing in per minute.", 6),
    ],
)
async def test_a_rejection_names_the_limit_and_the_delay(  # noqa: PLR0913, PLR0917
    make_instance: Callable[[], CallLimits],
    visitor: Visitor,
    effect: Effect,
    description: str,
    wait: int,
    clock: SettableClock,
) -> None:
    limits = make_instance()
    await count_accepted(limits, visitor, effect, 60)
    limit, _, text = description.partition(": ")
    with pytest.raises(RateLimited, match=f"reached: {text} Try again in {wait} s") as caught:
        await limits.take(visitor, effect)
    assert caught.value.details == {"limit": limit}
    assert caught.value.retry_after == wait
    clock.now += timedelta(seconds=wait - 0.001)
    assert await count_accepted(limits, visitor, effect, 1) == 0
    clock.now += timedelta(seconds=0.001)
    assert await count_accepted(limits, visitor, effect, 2) == 1


async def test_logins_and_registrations_are_limited_by_address(
    make_instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    limits = make_instance()

    async def count_accepted_attempts(kind: str, address: str) -> int:
        attempts = (limits.take_for_address(kind, address) for _ in range(30))
        answers = await asyncio.gather(*attempts, return_exceptions=True)
        return answers.count(None)

    assert await count_accepted_attempts(LOGINS, "192.0.2.1") == 10
    assert await count_accepted_attempts(REGISTRATIONS, "192.0.2.1") == 20
    assert await count_accepted_attempts(LOGINS, "2001:db8::/64") == 10
    with pytest.raises(RateLimited, match="10 sign-in attempts per 10 minutes from one address"):
        await limits.take_for_address(LOGINS, "192.0.2.1")

    clock.now += timedelta(minutes=10)
    assert await count_accepted_attempts(LOGINS, "192.0.2.1") == 10
    assert await count_accepted_attempts(REGISTRATIONS, "192.0.2.1") == 3  # 20 come back per hour


async def test_many_instances_together_keep_the_limit(
    make_instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    """A limit of N calls a minute allows N + N * T calls in T minutes, and a block per instance."""
    instances = [make_instance() for _ in range(5)]
    rounds = []
    for _ in range(3):
        counts = await asyncio.gather(
            *(count_accepted(instance, ANNA, Effect.READ, 40) for instance in instances)
        )
        rounds.append(sum(counts))
        clock.now += MINUTE
    assert rounds == [60, 60, 60]


async def test_an_instance_spends_its_lease_of_an_empty_bucket(
    make_instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    """The limit may be exceeded by one block per instance."""
    first_instance, second_instance = make_instance(), make_instance()
    assert await count_accepted(first_instance, ANNA, Effect.READ, 1) == 1
    clock.now += MINUTE
    assert await count_accepted(second_instance, ANNA, Effect.READ, 70) == 60
    assert await count_accepted(first_instance, ANNA, Effect.READ, 70) == 9


async def test_a_flood_of_calls_needs_few_leases(clock: SettableClock) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock)
    waits = await asyncio.gather(*(buckets.take("a", Rate(60, MINUTE)) for _ in range(10)))
    assert waits == [None] * 10
    assert store.leases == 1  # concurrent calls share it
    for _ in range(2_000):
        await buckets.take("a", Rate(60, MINUTE))
    assert store.leases == 7  # six full blocks, and one that got no token
    clock.now += timedelta(milliseconds=999)
    await buckets.take("a", Rate(60, MINUTE))
    assert store.leases == 7
    for pause, leases in ((timedelta(0), 7), (timedelta(milliseconds=1), 8)):
        clock.now += pause
        await buckets.take("a", Rate(60, MINUTE))
        assert store.leases == leases


async def test_an_instance_forgets_idle_leases_and_the_oldest_buckets(
    clock: SettableClock,
) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock, max_buckets=3)
    for pause in (IDLE_TIMEOUT, IDLE_TIMEOUT, IDLE_TIMEOUT + timedelta(seconds=1)):
        await buckets.take("a", Rate(60, MINUTE))
        clock.now += pause
    assert store.leases == 1
    for name, leases in zip("abcdabcdd", [2, 3, 4, 5, 6, 7, 8, 9, 9], strict=True):
        await buckets.take(name, Rate(60, MINUTE))
        assert store.leases == leases
    assert len(buckets) == 3


async def test_a_lease_that_fails_leaves_the_bucket_usable(clock: SettableClock) -> None:
    store = Buckets()
    failures = [InvalidInput("the database is down")]

    async def fail_once(limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        if failures:
            raise failures.pop()
        return await store.lease(limit_id, rate, now)

    buckets = LeasedBuckets(fail_once, clock)
    with pytest.raises(InvalidInput):
        await buckets.take("a", Rate(60, MINUTE))
    assert await buckets.take("a", Rate(60, MINUTE)) is None


PAUSES = st.one_of(st.floats(0, 3), st.floats(0, 900))
INSTANCES = st.integers(0, 3)
STEPS = st.lists(st.tuples(PAUSES, st.lists(INSTANCES, max_size=9)), max_size=40)
"""Pauses in seconds, each with the instances that get concurrent calls afterwards."""


@given(capacity=st.integers(1, 40), steps=STEPS)
async def test_no_interleaving_of_instances_breaks_the_guarantee(
    capacity: int, steps: list[tuple[float, list[int]]]
) -> None:
    """A limit of N calls a minute allows N + N * T calls in T minutes, and a block per instance."""
    clock = SettableClock(NOON)
    store = Buckets()
    rate = Rate(capacity, MINUTE)
    instances = [LeasedBuckets(store.lease, clock) for _ in range(4)]
    accepted_at: list[datetime] = []
    for pause, called_instances in steps:
        clock.now += timedelta(seconds=pause)
        waits = await asyncio.gather(
            *(instances[index].take("a", rate) for index in called_instances)
        )
        assert all(wait is None or wait > timedelta(0) for wait in waits)
        accepted_at += [clock.now] * waits.count(None)

    # Compare every span of time between two accepted calls.
    for first_index, start in enumerate(accepted_at):
        for count, end in enumerate(accepted_at[first_index:], start=1):
            limit = capacity + capacity * ((end - start) / MINUTE)
            assert count <= limit + len(instances) * rate.block_size
