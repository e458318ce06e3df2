"""Rate limits: a rough one by network address, and exact ones by user.

Nobody gets everything for asking often. Before anything is read, `AddressRateLimit` counts requests
by address. It is each instance's own and lives in memory, so that a flood costs neither reads nor
writes.

What callers may do is limited exactly by `CallLimits`. It holds when many instances run, and most
calls cost no write. Each caller has a token bucket in Firestore for each class of tools: N tokens,
N more a minute. Instances lease its tokens in blocks of N / 6, at least one, and spend them in
memory.

Guaranteed: in any T minutes all instances together let through at most N + N * T calls, and
what they held when the time began: at most one block per running instance. A caller may be refused
early by as many tokens as other instances hold; what lies idle is given up, and grows back.
The instances' clocks must agree: one that is ahead by a second gets the tokens of a second more.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.gateway.auth.client_address import client_address
from functions.gateway.http_errors import error_response
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.token_bucket import Rate, Share
from shared.core.errors import RateLimited
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.auth.visitor import Visitor
    from shared.accounts.token_bucket import Leased
    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.firestore.database import Connection

    AddressLimit = Callable[[str], Awaitable[None]]
    """Counts a try from a network address; raises RateLimited where there were too many."""
    LeaseTokens = Callable[[str, Rate, datetime], Awaitable[Leased]]

LOGINS: Final = "login"
REGISTRATIONS: Final = "registration"
MAX_ADDRESSES: Final = 10_000
"""Addresses that an instance remembers."""
MAX_CONCURRENT: Final = 40
"""Requests of one address that are under way at once: half of what an instance takes by default."""
MAX_BUCKETS: Final = 4_000
"""Buckets that an instance remembers: more than it serves at once, so it drops none in use."""
IDLE: Final = timedelta(minutes=10)
"""After this time without a call an instance gives up its lease."""
_MINUTE: Final = 60.0
_READABLE: Final = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "retry-after",
}
"""Or a program in a web page would hear of a network error, and not how long to wait."""


class AddressRateLimit:
    """Lets so many requests a minute through from each address, and not too many at once."""

    def __init__(
        self, app: ASGIApp, a_minute: int, proxies: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Guard this app, behind so many proxies of ours."""
        self._app = app
        self._interval = _MINUTE / a_minute
        self._proxies = proxies
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say when to come again."""
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self._app(scope, receive, send)
            return
        address = client_address(scope, self._proxies)
        wait = self._take(address)
        if wait <= 0 and self._under_way[address] >= MAX_CONCURRENT:
            wait = 1.0
        if wait > 0:
            error = RateLimited(
                "Too many requests from one address. Wait a moment.", retry_after=wait
            )
            await error_response(error, _READABLE)(scope, receive, send)
            return
        self._under_way[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[address] -= 1
            self._under_way += Counter()  # which forgets those of whom none is left

    def _take(self, address: str) -> float:
        """Count one: 0, or how long to wait (the generic cell rate algorithm)."""
        now = self._clock()
        full_at = max(self._full_at.pop(address, now), now) + self._interval
        wait = full_at - now - _MINUTE
        self._full_at[address] = full_at if wait <= 0 else full_at - self._interval
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return wait


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate, and how people are told of it.

    Attributes:
        kind: Tells buckets of one caller apart.
        rate: How often.
        words: What is limited, and to what.
    """

    kind: str
    rate: Rate
    words: str


class CallLimits:
    """Lets calls through, or says when to come again."""

    def __init__(self, settings: Settings, access: Connection, clock: Clock) -> None:
        """Hold the limits of `settings`, in the database `access`."""
        reads, writes = settings.reads_per_minute, settings.writes_per_minute
        anonymous = settings.anonymous_per_minute
        self._reads = _a_minute("read", reads, "calls of tools that read")
        self._writes = _a_minute("write", writes, "calls of tools that write")
        self._anonymous = _a_minute("anonymous", anonymous, "calls without signing in")
        tries, registrations = settings.sign_ins_per_ten_minutes, settings.registrations_per_hour
        self._by_address = {
            LOGINS: Limit(
                LOGINS,
                Rate(tries, timedelta(minutes=10)),
                f"{tries} attempts to sign in from one place in 10 min",
            ),
            REGISTRATIONS: Limit(
                REGISTRATIONS,
                Rate(registrations, timedelta(hours=1)),
                f"{registrations} registrations from one place an hour",
            ),
        }
        self._buckets = LeasedBuckets(_leasing(access), clock)

    async def take(self, visitor: Visitor, effect: Effect) -> None:
        """Count a call of a tool.

        Raises:
            RateLimited: There were too many; `retry_after` says when there may be another.
            Unavailable: They cannot be counted now.
        """
        if visitor.counted_as is None:
            return
        signed_in = self._reads if effect is Effect.READ else self._writes
        limit = self._anonymous if visitor.caller.user_id is None else signed_in
        await self._take(limit, visitor.counted_as)

    async def take_for(self, kind: str, address: str) -> None:
        """Count one of LOGINS or REGISTRATIONS by the address that it comes from.

        Raises:
            RateLimited: There were too many; `retry_after` says when there may be another.
            Unavailable: They cannot be counted now.
        """
        await self._take(self._by_address[kind], f"address:{address}")

    async def _take(self, limit: Limit, counted_as: str) -> None:
        wait = await self._buckets.take(_limit_id(limit.kind, counted_as), limit.rate)
        if wait:
            seconds = max(1, math.ceil(wait.total_seconds()))
            raise RateLimited(
                f"Too often: the limit is {limit.words}. Try again in {seconds} s.",
                details={"limit": limit.kind},
                retry_after=seconds,
            )


class LeasedBuckets:
    """An instance's shares of all buckets that it has used lately."""

    def __init__(self, lease: LeaseTokens, clock: Clock, max_buckets: int = MAX_BUCKETS) -> None:
        """Lease tokens this way, and remember so many buckets."""
        self._lease = lease
        self._clock = clock
        self._max_buckets = max_buckets
        self._shares: OrderedDict[str, _LockedShare] = OrderedDict()

    def __len__(self) -> int:
        """How many buckets are remembered."""
        return len(self._shares)

    async def take(self, limit_id: str, rate: Rate) -> timedelta | None:
        """Take a token: None, or how long to wait for one.

        Calls at once wait for one lease; while a bucket is known to be empty nobody asks for one.
        """
        locked = self._share_of(limit_id)
        async with locked.lock:
            share, now = locked.share, self._clock()
            if share.spend(now, IDLE):
                return None
            if now >= share.empty_until:
                share.add(await self._lease(limit_id, rate, now), now)
                if share.spend(now, IDLE):
                    return None
            return share.empty_until - now

    def _share_of(self, limit_id: str) -> _LockedShare:
        share = self._shares.setdefault(limit_id, _LockedShare())
        self._shares.move_to_end(limit_id)
        if len(self._shares) > self._max_buckets:
            self._shares.popitem(last=False)
        return share


@dataclass(frozen=True, slots=True)
class _LockedShare:
    share: Share = field(default_factory=Share)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def _a_minute(kind: str, capacity: int, words: str) -> Limit:
    return Limit(kind, Rate(capacity, timedelta(minutes=1)), f"{capacity} {words} a minute")


def _leasing(access: Connection) -> LeaseTokens:
    async def lease(limit_id: str, rate: Rate, now: datetime) -> Leased:
        return await AccessStore(access).limits.lease(limit_id, rate, now)

    return lease


def _limit_id(kind: str, counted_as: str) -> str:
    """A document's id: hashed, since an address has slashes, and a person an e-mail address."""
    digest = hashlib.sha256(counted_as.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}-{digest[:32]}"
