"""How often callers may call, through one instance and through many."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
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
from shared.firestore.database import Connection
from shared.runtime.tool import Effect
from tests.support.clock import NOON, SettableClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
ANNA = Visitor(Caller.of("anna@example.com"), "user:anna@example.com")
BEN = Visitor(Caller.of("ben"), "user:ben")
STRANGER = Visitor(Caller(), "address:2001:db8::/64")
NEIGHBOUR = Visitor(Caller(), "address:2001:db8:0:1::/64")
LAPTOP = Visitor(Caller.of("local"), None)


class Buckets:
    """What `Limits` does in Firestore, in memory, one lease after another."""

    def __init__(self) -> None:
        self.buckets: dict[str, TokenBucket] = {}
        self.leases = 0

    async def lease(self, limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        await asyncio.sleep(0)
        self.leases += 1
        bucket = self.buckets.get(limit_id, TokenBucket(rate))
        leased, self.buckets[limit_id] = bucket.lease(now)
        await asyncio.sleep(0)
        return leased


@pytest.fixture
def clock() -> SettableClock:
    """The time."""
    return SettableClock(NOON)


@pytest.fixture
async def instance(
    settings: Settings, clock: SettableClock
) -> AsyncIterator[Callable[[], CallLimits]]:
    """Makes gateways over one database."""
    connection = Connection(settings.google_cloud_project, settings.access_database)
    yield lambda: CallLimits(settings, connection, clock)
    await connection.aclose()


async def passed(limits: CallLimits, visitor: Visitor, effect: Effect, calls: int) -> int:
    """How many of so many calls at once are let through."""
    answers = await asyncio.gather(
        *(limits.take(visitor, effect) for _ in range(calls)), return_exceptions=True
    )
    assert all(answer is None or isinstance(answer, RateLimited) for answer in answers)
    return answers.count(None)


async def test_each_class_of_calls_has_its_limit(instance: Callable[[], CallLimits]) -> None:
    limits = instance()
    cases = [(ANNA, Effect.READ), (ANNA, Effect.WRITE), (ANNA, Effect.DESTROY), (BEN, Effect.READ)]
    assert [await passed(limits, *case, 70) for case in cases] == [60, 20, 0, 60]


async def test_who_did_not_sign_in_has_one_limit_for_all_by_address(
    instance: Callable[[], CallLimits],
) -> None:
    limits = instance()
    assert await passed(limits, STRANGER, Effect.READ, 9) == 9
    assert await passed(limits, STRANGER, Effect.WRITE, 9) == 1
    assert await passed(limits, NEIGHBOUR, Effect.READ, 1) == 1


async def test_on_a_laptop_nobody_counts(instance: Callable[[], CallLimits]) -> None:
    assert await passed(instance(), LAPTOP, Effect.WRITE, 500) == 500


@pytest.mark.parametrize(
    ("visitor", "effect", "kind", "message", "wait"),
    [
        (ANNA, Effect.READ, "read", "60 calls to tools that read per minute. Try again in 1 s.", 1),
        (
            ANNA,
            Effect.WRITE,
            "write",
            "20 calls to tools that write per minute. Try again in 3 s.",
            3,
        ),
        (STRANGER, Effect.READ, "anonymous", "10 calls without signing in per minute.", 6),
    ],
)
async def test_a_refusal_says_what_is_limited_and_how_long_to_wait(  # noqa: PLR0913, PLR0917
    instance: Callable[[], CallLimits],
    visitor: Visitor,
    effect: Effect,
    kind: str,
    message: str,
    wait: int,
) -> None:
    limits = instance()
    await passed(limits, visitor, effect, 60)
    with pytest.raises(RateLimited, match=f"Rate limit reached: {message}") as caught:
        await limits.take(visitor, effect)
    assert caught.value.details == {"limit": kind}
    assert caught.value.retry_after == wait


async def test_who_waits_as_long_as_told_is_let_through(
    instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    limits = instance()
    await passed(limits, ANNA, Effect.WRITE, 20)
    clock.now += timedelta(seconds=2)
    assert await passed(limits, ANNA, Effect.WRITE, 1) == 0
    clock.now += timedelta(seconds=1)
    assert await passed(limits, ANNA, Effect.WRITE, 2) == 1


async def test_logins_and_registrations_are_counted_by_address(
    instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    limits = instance()

    async def let_in(kind: str, address: str) -> int:
        attempts = (limits.take_for_address(kind, address) for _ in range(30))
        answers = await asyncio.gather(*attempts, return_exceptions=True)
        return answers.count(None)

    assert [await let_in(kind, "192.0.2.1") for kind in (LOGINS, REGISTRATIONS)] == [10, 20]
    assert await let_in(LOGINS, "2001:db8::/64") == 10
    with pytest.raises(RateLimited, match="10 sign-in attempts per 10 minutes from one address"):
        await limits.take_for_address(LOGINS, "192.0.2.1")
    clock.now += timedelta(minutes=10)
    assert [await let_in(kind, "192.0.2.1") for kind in (LOGINS, REGISTRATIONS)] == [10, 3]


async def test_many_instances_together_keep_the_limit(
    instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    """All at once, then a minute later again: N + N * T and a block per instance."""
    instances = [instance() for _ in range(5)]
    rounds = []
    for _ in range(3):
        counts = await asyncio.gather(
            *(passed(instance, ANNA, Effect.READ, 40) for instance in instances)
        )
        rounds.append(sum(counts))
        clock.now += MINUTE
    assert rounds == [60, 60, 60]


async def test_an_instance_spends_its_lease_of_an_empty_bucket(
    instance: Callable[[], CallLimits], clock: SettableClock
) -> None:
    """This is the block per instance of the guarantee."""
    one, other = instance(), instance()
    assert await passed(one, ANNA, Effect.READ, 1) == 1
    clock.now += MINUTE
    assert await passed(other, ANNA, Effect.READ, 70) == 60
    assert await passed(one, ANNA, Effect.READ, 70) == 9


async def test_calls_at_once_share_a_lease(clock: SettableClock) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock)
    waits = await asyncio.gather(*(buckets.take("a", Rate(60, MINUTE)) for _ in range(10)))
    assert waits == [None] * 10
    assert store.leases == 1


async def test_a_flood_costs_the_database_nothing(clock: SettableClock) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock)
    for _ in range(2_000):
        await buckets.take("a", Rate(60, MINUTE))
    assert store.leases == 7
    clock.now += timedelta(milliseconds=999)
    await buckets.take("a", Rate(60, MINUTE))
    assert store.leases == 7


async def test_a_lease_that_lies_idle_is_given_up(clock: SettableClock) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock)
    for pause in (IDLE_TIMEOUT, IDLE_TIMEOUT, IDLE_TIMEOUT + timedelta(seconds=1)):
        await buckets.take("a", Rate(60, MINUTE))
        clock.now += pause
    assert store.leases == 1
    await buckets.take("a", Rate(60, MINUTE))
    assert store.leases == 2


async def test_a_lease_that_fails_leaves_the_bucket_usable(clock: SettableClock) -> None:
    store = Buckets()
    failures = [InvalidInput("the database is down")]

    async def lease(limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        if failures:
            raise failures.pop()
        return await store.lease(limit_id, rate, now)

    buckets = LeasedBuckets(lease, clock)
    with pytest.raises(InvalidInput):
        await buckets.take("a", Rate(60, MINUTE))
    assert await buckets.take("a", Rate(60, MINUTE)) is None


async def test_an_instance_remembers_a_bounded_number_of_buckets(clock: SettableClock) -> None:
    store = Buckets()
    buckets = LeasedBuckets(store.lease, clock, max_buckets=3)
    for name in "abcdabcd":
        await buckets.take(name, Rate(60, MINUTE))
    assert len(buckets) == 3
    assert store.leases == 8
    await buckets.take("d", Rate(60, MINUTE))
    assert store.leases == 8


STEPS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 3), st.floats(0, 900)), st.lists(st.integers(0, 3), max_size=9)
    ),
    max_size=40,
)


@hypothesis_settings(deadline=None)
@given(capacity=st.integers(1, 40), steps=STEPS)
async def test_no_interleaving_of_instances_breaks_the_guarantee(
    capacity: int, steps: list[tuple[float, list[int]]]
) -> None:
    """In any T minutes: N + N * T, and a block per instance."""
    clock, store, rate = SettableClock(NOON), Buckets(), Rate(capacity, MINUTE)
    instances = [LeasedBuckets(store.lease, clock) for _ in range(4)]
    let_through: list[datetime] = []
    for pause, calls in steps:
        clock.now += timedelta(seconds=pause)
        waits = await asyncio.gather(*(instances[index].take("a", rate) for index in calls))
        assert all(wait is None or wait > timedelta(0) for wait in waits)
        let_through += [clock.now] * waits.count(None)
    for first, start in enumerate(let_through):
        for count, end in enumerate(let_through[first:], start=1):
            assert count <= capacity * (1 + (end - start) / MINUTE) + 4 * rate.block_size
