"""A token bucket that many instances share, leasing blocks of tokens.

A bucket is stored as the time at which it will be full again, as in the virtual scheduling of the
generic cell rate algorithm (ITU-T I.371, annex A). Each token costs an interval of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

BLOCKS_PER_BUCKET: Final = 6
"""About this many leases empty a full bucket."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rate:
    """The maximum rate of an event.

    Attributes:
        capacity: The maximum number of events in a burst.
        period: The time that an empty bucket takes to fill.
    """

    capacity: int
    period: timedelta

    @property
    def interval(self) -> timedelta:
        """How long the bucket takes to regain a token, rounded up to whole microseconds."""
        return -(-self.period // self.capacity)

    @property
    def block_size(self) -> int:
        """The number of tokens that an instance leases at a time."""
        return max(1, self.capacity // BLOCKS_PER_BUCKET)


@dataclass(frozen=True, slots=True)
class TokenLease:
    """The tokens that an instance leased.

    Attributes:
        tokens: The number of tokens, 0 from an empty bucket.
        more_at: When the bucket has a token again, or the time of the lease if tokens are left.
    """

    tokens: int
    more_at: datetime


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The bucket that all instances share.

    In any time T, at most N + N * T / period tokens are leased, where N is the capacity, because a
    token moves `full_at` by an interval, and to at most N intervals from now.

    Attributes:
        rate: The capacity and the filling time.
        full_at: When the bucket is full again. If this time has passed, the bucket is full.
    """

    rate: Rate
    full_at: datetime = _LONG_AGO

    def count_tokens(self, now: datetime) -> int:
        """Count the tokens in the bucket."""
        missing = -((now - self.full_at) // self.rate.interval)
        return max(0, self.rate.capacity - max(0, missing))

    def lease(self, now: datetime) -> tuple[TokenLease, TokenBucket]:
        """Lease a block of tokens, or all that are left. Return the lease and the new bucket."""
        tokens = min(self.rate.block_size, self.count_tokens(now))
        full_at = max(self.full_at, now) + tokens * self.rate.interval
        more_at = max(now, full_at - (self.rate.capacity - 1) * self.rate.interval)
        return TokenLease(tokens, more_at), TokenBucket(self.rate, full_at)


@dataclass(slots=True)
class LocalTokens:
    """One instance's tokens, or its knowledge that the bucket is empty.

    Attributes:
        tokens: The number of tokens left of the lease, at most a block.
        used_at: When the instance last spent or leased a token.
        empty_until: From when another lease may yield tokens.
    """

    tokens: int = 0
    used_at: datetime = _LONG_AGO
    empty_until: datetime = _LONG_AGO

    def spend(self, now: datetime, idle: timedelta) -> bool:
        """Spend a token if there is one, after dropping tokens unused for longer than `idle`."""
        if now - self.used_at > idle:
            self.tokens = 0
        if not self.tokens:
            return False
        self.tokens -= 1
        self.used_at = now
        return True

    def add(self, lease: TokenLease, now: datetime) -> None:
        """Add the tokens of a lease."""
        self.tokens = lease.tokens
        self.used_at = now
        if not lease.tokens:
            self.empty_until = lease.more_at
