"""A token bucket, which limits the rate of an event, shared by all instances of the gateway.

Each event spends a token, and the bucket refills at a constant rate. To avoid a database write for
each event, an instance leases a block of tokens from the bucket and spends them locally.

A bucket is stored as the time at which it will be full again, as in the virtual scheduling of the
generic cell rate algorithm (ITU-T I.371, annex A). Each leased token moves that time by an
interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

BLOCKS_PER_BUCKET: Final = 6
"""About this many leases empty a full bucket. More leases would cost more writes. With fewer, one
instance could have most of the tokens while another has none."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""The earliest possible time, which means "never"."""


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
        """How long the bucket takes to regain a token.

        The interval is rounded up to whole microseconds, so that the rate is never exceeded.
        """
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
        more_at: When the next token can be leased: at the time of the lease if the bucket still has
            tokens, otherwise when it regains one.
    """

    tokens: int
    more_at: datetime


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The bucket that all instances share.

    With the capacity N, at most N + N * T / period tokens are leased in any time T. The reason is
    that each token moves `full_at` by an interval, and `full_at` is at most N intervals from now.

    Attributes:
        full_at: When the bucket is full again. If this time has passed, the bucket is full.
    """

    rate: Rate
    full_at: datetime = _LONG_AGO

    def count_tokens(self, now: datetime) -> int:
        """Count the whole tokens in the bucket."""
        # Rounded up, because a token that is only partly regained is still missing.
        missing = -((now - self.full_at) // self.rate.interval)
        return max(0, self.rate.capacity - max(0, missing))

    def lease(self, now: datetime) -> tuple[TokenLease, TokenBucket]:
        """Lease a block of tokens, or all that are left. Return the lease and the new bucket."""
        tokens = min(self.rate.block_size, self.count_tokens(now))
        full_at = max(self.full_at, now) + tokens * self.rate.interval
        # The bucket has one token when all others are still missing.
        more_at = max(now, full_at - (self.rate.capacity - 1) * self.rate.interval)
        return TokenLease(tokens, more_at), TokenBucket(self.rate, full_at)


@dataclass(slots=True)
class LocalTokens:
    """The tokens that one instance has left, and when it may lease more.

    Attributes:
        tokens: The number of unspent tokens of the last lease, at most a block.
        empty_until: Until when the shared bucket is known to be empty, so that a lease would be
            useless.
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
        """Take over the tokens of a lease, which replace those left of the previous lease."""
        self.tokens = lease.tokens
        self.used_at = now
        if not lease.tokens:
            self.empty_until = lease.more_at
