"""A token bucket admits a user's calls at a limited rate, also when several instances share it.

An instance leases a block of tokens from the shared bucket, and spends them locally. That several
instances keep the limit is tested in `tests/emulator/gateway/test_rate_limits.py`.
"""

from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.accounts.token_bucket import LocalTokens, Rate, TokenBucket, TokenLease

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE = timedelta(minutes=10)
SIXTY_A_MINUTE = Rate(60, MINUTE)

RATES = st.builds(Rate, st.integers(1, 100), st.sampled_from([MINUTE, timedelta(hours=1)]))
PAUSES = st.lists(st.just(0.0) | st.floats(0, 2), max_size=200)
"""The pauses between calls, in seconds."""


def make_empty_bucket(rate: Rate) -> TokenBucket:
    """Return a bucket from which all tokens were leased at noon."""
    bucket = TokenBucket(rate)
    while bucket.count_tokens(NOON):
        _, bucket = bucket.lease(NOON)
    return bucket


@pytest.mark.parametrize(("capacity", "block_size"), [(60, 10), (20, 3), (10, 1), (5, 1), (1, 1)])
def test_a_lease_is_a_sixth_of_the_bucket_and_at_least_one(capacity: int, block_size: int) -> None:
    lease, bucket = TokenBucket(Rate(capacity, MINUTE)).lease(NOON)
    assert lease.tokens == block_size
    assert bucket.count_tokens(NOON) == capacity - block_size


def test_a_token_comes_back_after_its_interval() -> None:
    assert TokenBucket(SIXTY_A_MINUTE).count_tokens(NOON) == 60
    bucket = make_empty_bucket(SIXTY_A_MINUTE)
    one_second_later = NOON + timedelta(seconds=1)
    assert bucket.lease(NOON) == (TokenLease(0, one_second_later), bucket)
    for wait, tokens in (
        (timedelta(seconds=1, microseconds=-1), 0),
        (timedelta(seconds=1), 1),
        (MINUTE, 60),
        (2 * MINUTE, 60),
    ):
        assert bucket.count_tokens(NOON + wait) == tokens
    lease, _ = bucket.lease(NOON + timedelta(seconds=2))
    assert lease.tokens == 2  # a remainder smaller than a block


def test_a_clock_that_runs_late_adds_no_tokens() -> None:
    _, bucket = TokenBucket(SIXTY_A_MINUTE).lease(NOON)
    five_seconds_ago = NOON - timedelta(seconds=5)
    # A lease took 10 of the 60 tokens; five were not there yet, seen from five seconds ago.
    assert bucket.count_tokens(five_seconds_ago) == 60 - 10 - 5
    _, bucket = bucket.lease(five_seconds_ago)
    assert bucket.count_tokens(NOON) == 60 - 10 - 10


def test_idle_lease_expires() -> None:
    local_tokens = LocalTokens()
    local_tokens.add(TokenLease(10, NOON), NOON)
    assert local_tokens.spend(NOON + IDLE, IDLE)
    assert not local_tokens.spend(NOON + 2 * IDLE + timedelta(microseconds=1), IDLE)


@given(RATES)
def test_a_bucket_is_never_full_sooner_than_its_period(rate: Rate) -> None:
    assert rate.capacity * rate.interval >= rate.period
    before_end_of_period = NOON + rate.period - timedelta(microseconds=1)
    assert make_empty_bucket(rate).count_tokens(before_end_of_period) < rate.capacity


@given(RATES, PAUSES)
def test_lone_instance_gets_all_tokens_of_the_bucket(rate: Rate, pauses: list[float]) -> None:
    """Leasing in blocks loses a lone caller no tokens, except those of an idle lease."""
    local_tokens = LocalTokens()
    leased_bucket = TokenBucket(rate)
    reference_bucket = TokenBucket(Rate(rate.capacity, rate.period))
    moments = accumulate(timedelta(seconds=pause) for pause in pauses)
    for time_since_noon in moments:
        now = NOON + time_since_noon
        is_admitted = local_tokens.spend(now, IDLE)
        if not is_admitted:
            lease, leased_bucket = leased_bucket.lease(now)
            local_tokens.add(lease, now)
            is_admitted = local_tokens.spend(now, IDLE)
        reference_admits = reference_bucket.count_tokens(now) > 0
        assert is_admitted or not reference_admits
        if reference_admits:
            reference_bucket = TokenBucket(rate, max(reference_bucket.full_at, now) + rate.interval)
