"""A token bucket that many instances share: each leases a block of tokens at a time.

A bucket is stored as the moment at which it will be full again, which is the virtual scheduling of
the generic cell rate algorithm (ITU-T I.371, annex A): each token costs an interval of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

BLOCKS_PER_BUCKET: Final = 6
"""Number of leases that empty a full bucket."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rate:
    """The largest rate of an event.

    Attributes:
        capacity: The largest number of events in a burst.
        period: The time that an empty bucket takes to fill.
    """

    capacity: int
    period: timedelta

    @property
    def interval(self) -> timedelta:
        """Time in which one token returns, rounded up to whole microseconds."""
        return -(-self.period // self.capacity)

    @property
    def block_size(self) -> int:
        """Number of tokens that an instance leases at a time."""
        return max(1, self.capacity // BLOCKS_PER_BUCKET)


@dataclass(frozen=True, slots=True)
class TokenLease:
    """The tokens that an instance received.

    Attributes:
        tokens: The number of tokens, 0 from an empty bucket.
        more_at: When the bucket has a token again, or the time of the lease if it has one.
    """

    tokens: int
    more_at: datetime


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The bucket that all instances share.

    The leases of any time T are at most N + N * T / period tokens, where N is the capacity: each
    token moves `full_at` by an interval, and to at most N intervals from now.

    Attributes:
        rate: The capacity and the filling time.
        full_at: When the bucket is full again; it is full if that has passed.
    """

    rate: Rate
    full_at: datetime = _LONG_AGO

    def tokens(self, now: datetime) -> int:
        """Return how many tokens the bucket has."""
        missing = -((now - self.full_at) // self.rate.interval)
        return max(0, self.rate.capacity - max(0, missing))

    def lease(self, now: datetime) -> tuple[TokenLease, TokenBucket]:
        """Lease a block of tokens, or the rest of them. Return the lease and the new bucket."""
        tokens = min(self.rate.block_size, self.tokens(now))
        full_at = max(self.full_at, now) + tokens * self.rate.interval
        more_at = max(now, full_at - (self.rate.capacity - 1) * self.rate.interval)
        return TokenLease(tokens, more_at), TokenBucket(self.rate, full_at)


@dataclass(slots=True)
class LocalTokens:
    """One instance's part of a bucket: tokens, or the knowledge that the bucket is empty.

    Attributes:
        tokens: The rest of its lease, at most a block.
        used_at: When it last spent one.
        empty_until: When another lease may yield tokens.
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
