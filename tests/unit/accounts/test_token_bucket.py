"""Token buckets, and their limits when several instances share one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.accounts.token_bucket import LocalTokens, Rate, TokenBucket, TokenLease

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE = timedelta(minutes=10)
SIXTY = Rate(60, MINUTE)
INSTANCES = 4

RATES = st.builds(Rate, st.integers(1, 100), st.sampled_from([MINUTE, timedelta(hours=1)]))
CALLS = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0, 2), st.floats(0, 900)),
        st.integers(0, INSTANCES - 1),
    ),
    max_size=200,
)


def emptied(rate: Rate) -> TokenBucket:
    bucket = TokenBucket(rate)
    while bucket.tokens(NOON):
        _, bucket = bucket.lease(NOON)
    return bucket


def test_an_unused_bucket_is_full() -> None:
    assert TokenBucket(SIXTY).tokens(NOON) == 60


@pytest.mark.parametrize(("capacity", "block_size"), [(60, 10), (20, 3), (10, 1), (5, 1), (1, 1)])
def test_a_lease_is_a_sixth_of_the_bucket_and_at_least_one(capacity: int, block_size: int) -> None:
    leased, bucket = TokenBucket(Rate(capacity, MINUTE)).lease(NOON)
    assert leased.tokens == block_size
    assert bucket.tokens(NOON) == capacity - block_size


def test_empty_bucket_returns_the_waiting_time() -> None:
    empty = emptied(SIXTY)
    assert empty.lease(NOON) == (TokenLease(0, NOON + timedelta(seconds=1)), empty)


def test_a_token_comes_back_after_its_interval() -> None:
    empty = emptied(SIXTY)
    just_before = NOON + timedelta(seconds=1) - timedelta(microseconds=1)
    moments = [just_before, NOON + timedelta(seconds=1), NOON + MINUTE, NOON + 2 * MINUTE]
    assert [empty.tokens(now) for now in moments] == [0, 1, 60, 60]


def test_remainder_smaller_than_a_block_is_leased() -> None:
    leased, _ = emptied(SIXTY).lease(NOON + timedelta(seconds=2))
    assert leased.tokens == 2


def test_late_clock_adds_no_tokens() -> None:
    _, bucket = TokenBucket(SIXTY).lease(NOON)
    late = NOON - timedelta(seconds=5)
    assert bucket.tokens(late) == 45
    _, bucket = bucket.lease(late)
    assert bucket.tokens(NOON) == 40


def test_idle_lease_expires() -> None:
    share = LocalTokens()
    share.add(TokenLease(10, NOON), NOON)
    assert share.spend(NOON + IDLE, IDLE)
    assert not share.spend(NOON + 2 * IDLE + MINUTE, IDLE)


@given(RATES)
def test_a_bucket_is_never_full_sooner_than_its_period(rate: Rate) -> None:
    assert rate.capacity * rate.interval >= rate.period
    assert emptied(rate).tokens(NOON + rate.period - timedelta(microseconds=1)) < rate.capacity


@given(RATES, CALLS)
def test_instances_together_admit_the_guaranteed_number(
    rate: Rate, calls: list[tuple[float, int]]
) -> None:
    """In any span of T minutes: N + N * T, and a block per instance."""
    shares = [LocalTokens() for _ in range(INSTANCES)]
    bucket, passed = TokenBucket(rate), []
    moments = accumulate(timedelta(seconds=pause) for pause, _ in calls)
    for after, (_, instance) in zip(moments, calls, strict=True):
        share, now = shares[instance], NOON + after
        if not share.tokens or not share.spend(now, IDLE):
            leased, bucket = bucket.lease(now)
            share.add(leased, now)
            if not share.spend(now, IDLE):
                continue
        passed.append(now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            refilled = rate.capacity * ((passed[last] - start) / rate.period)
            most = rate.capacity + refilled + INSTANCES * rate.block_size
            assert last - first + 1 <= most


@given(RATES, CALLS)
def test_lone_instance_gets_all_tokens_of_the_bucket(
    rate: Rate, calls: list[tuple[float, int]]
) -> None:
    """Leasing in blocks costs a lone caller no call, except what lay idle and was given up."""
    share, leased_bucket, plain = (
        LocalTokens(),
        TokenBucket(rate),
        TokenBucket(Rate(rate.capacity, rate.period)),
    )
    moments = accumulate(timedelta(seconds=min(pause, 2)) for pause, _ in calls)
    for after in moments:
        now = NOON + after
        passes = share.spend(now, IDLE)
        if not passes:
            leased, leased_bucket = leased_bucket.lease(now)
            share.add(leased, now)
            passes = share.spend(now, IDLE)
        could = plain.tokens(now) > 0
        assert passes or not could
        if could:
            plain = TokenBucket(rate, max(plain.full_at, now) + rate.interval)
