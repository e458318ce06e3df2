"""A token bucket that many instances share, each of them leasing a block of tokens at a time.

A bucket is kept as one moment, the one at which it is full again: the virtual scheduling of the
generic cell rate algorithm (ITU-T I.371, annex A), where a token costs an interval of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

BLOCKS: Final = 6
"""How many leases empty a full bucket."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something may happen.

    Attributes:
        capacity: How many times at once, after a rest.
        period: How long an empty bucket takes to be full.
    """

    capacity: int
    period: timedelta

    @property
    def interval(self) -> timedelta:
        """How long a token takes to come back: whole microseconds, rather more than less."""
        return -(-self.period // self.capacity)

    @property
    def block(self) -> int:
        """How many tokens an instance leases."""
        return max(1, self.capacity // BLOCKS)


@dataclass(frozen=True, slots=True)
class Leased:
    """What an instance got.

    Attributes:
        tokens: How many; none from an empty bucket.
        more_at: When the bucket holds a token again, or the moment of the lease if it still does.
    """

    tokens: int
    more_at: datetime


@dataclass(frozen=True, slots=True)
class Bucket:
    """What all instances share.

    Leases of any span T are at most N + N * T / period tokens, N being the capacity: each one moves
    `full_at` by an interval, and no further than N intervals from now.

    Attributes:
        rate: What it holds and how fast it fills.
        full_at: When it is full again; a moment that has passed says that it is.
    """

    rate: Rate
    full_at: datetime = _LONG_AGO

    def tokens(self, now: datetime) -> int:
        """How many it holds."""
        missing = -((now - self.full_at) // self.rate.interval)
        return max(0, self.rate.capacity - max(0, missing))

    def lease(self, now: datetime) -> tuple[Leased, Bucket]:
        """Take a block, or what there is; return it and the bucket that is left."""
        taken = min(self.rate.block, self.tokens(now))
        full_at = max(self.full_at, now) + taken * self.rate.interval
        more_at = max(now, full_at - (self.rate.capacity - 1) * self.rate.interval)
        return Leased(taken, more_at), Bucket(self.rate, full_at)


@dataclass(slots=True)
class Share:
    """What one instance has of a bucket: tokens, or the knowledge that it is empty.

    Attributes:
        tokens: What is left of its lease, never more than a block.
        used_at: When it last took one.
        empty_until: When asking for a lease makes sense again.
    """

    tokens: int = 0
    used_at: datetime = _LONG_AGO
    empty_until: datetime = _LONG_AGO

    def spend(self, now: datetime, idle: timedelta) -> bool:
        """Take a token if there is one; what lay idle for so long is given up."""
        if now - self.used_at > idle:
            self.tokens = 0
        if not self.tokens:
            return False
        self.tokens -= 1
        self.used_at = now
        return True

    def add(self, leased: Leased, now: datetime) -> None:
        """Take in a lease."""
        self.tokens = leased.tokens
        self.used_at = now
        if not leased.tokens:
            self.empty_until = leased.more_at
