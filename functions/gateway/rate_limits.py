"""Rate limits: an approximate one per network address, and exact ones per user.

`AddressRateLimit` counts all requests by address, before anything else happens. Each instance
counts in its own memory, so that a flood of requests causes neither reads nor writes.

`CallLimits` limits calls exactly, across all instances, and most calls cost no write. Each caller
has a token bucket in Firestore for each class of tools, with room for N tokens. It gains N tokens a
minute. Instances lease tokens in blocks of N / 6, at least one, and spend them in memory.

In any T minutes, all instances together allow at most N + N * T calls, plus the tokens that they
had at the start, which is at most one block per running instance. A caller may be rejected early by
as many tokens as other instances have leased. Idle leases are dropped, and the bucket refills. The
instances' clocks must agree, because a clock that is a second ahead gains the tokens of one second.
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

from functions.gateway.auth.client_address import get_client_address
from functions.gateway.http_errors import make_error_response
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.token_bucket import LocalTokens, Rate
from shared.core.errors import RateLimited
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.auth.visitor import Visitor
    from shared.accounts.token_bucket import TokenLease
    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.firestore.connection import Connection

    AddressLimit = Callable[[str], Awaitable[None]]
    """A function that counts an attempt from a network address.

    It raises RateLimited if there were too many attempts."""
    LeaseTokens = Callable[[str, Rate, datetime], Awaitable[TokenLease]]

LOGINS: Final = "login"
"""The kind of the limit on sign-in attempts."""
REGISTRATIONS: Final = "registration"
"""The kind of the limit on registrations of OAuth clients."""
MAX_ADDRESSES: Final = 10_000
"""The maximum number of addresses that an instance tracks."""
MAX_CONCURRENT_REQUESTS: Final = 40
"""The maximum number of concurrent requests from one address: half of an instance's capacity."""
MAX_BUCKETS: Final = 4_000
"""The maximum number of buckets that an instance tracks: more than it can use at the same time."""
IDLE_TIMEOUT: Final = timedelta(minutes=10)
"""After this time without a call, an instance drops the tokens that it leased."""
_MINUTE_SECONDS: Final = 60.0
_CORS_HEADERS: Final = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "retry-after",
}
"""Without these headers, a program in a web page would see only a network error."""


class AddressRateLimit:
    """Middleware that limits each address's requests per minute, and its concurrent requests."""

    def __init__(
        self,
        app: ASGIApp,
        per_minute: int,
        proxies: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._interval = _MINUTE_SECONDS / per_minute
        self._proxies = proxies
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._concurrent: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 429 with the time to wait."""
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self._app(scope, receive, send)
            return
        address = get_client_address(scope, self._proxies)
        wait = self._take(address)
        if wait <= 0 and self._concurrent[address] >= MAX_CONCURRENT_REQUESTS:
            wait = 1.0
        if wait > 0:
            error = RateLimited(
                "Too many requests from your network address. Wait a moment.", retry_after=wait
            )
            await make_error_response(error, _CORS_HEADERS)(scope, receive, send)
            return
        self._concurrent[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._concurrent[address] -= 1
            self._concurrent += Counter()  # drops the addresses whose count is 0

    def _take(self, address: str) -> float:
        """Count a request, and return the seconds to wait: 0 or less if it is allowed.

        This is the generic cell rate algorithm: an address has a bucket for a minute's requests,
        and `full_at` is when the bucket will be full again. A rejected request takes nothing.
        """
        now = self._clock()
        full_at = max(self._full_at.pop(address, now), now) + self._interval
        wait = full_at - now - _MINUTE_SECONDS
        self._full_at[address] = full_at if wait <= 0 else full_at - self._interval
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return wait


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate, with its description for people.

    Attributes:
        kind: The class of calls, which distinguishes the buckets of one caller.
    """

    kind: str
    rate: Rate
    description: str


class CallLimits:
    """The exact rate limits of calls, sign-ins and registrations."""

    def __init__(self, settings: Settings, database: Connection, clock: Clock) -> None:
        """Enforce the limits of `settings`, with buckets in the database `access`."""
        reads, writes = settings.reads_per_minute, settings.writes_per_minute
        anonymous = settings.anonymous_per_minute
        self._reads = _limit_per_minute("read", reads, "calls to tools that read")
        self._writes = _limit_per_minute("write", writes, "calls to tools that write")
        self._anonymous = _limit_per_minute("anonymous", anonymous, "calls without signing in")
        sign_ins, registrations = settings.sign_ins_per_ten_minutes, settings.registrations_per_hour
        self._by_address = {
            LOGINS: RateLimit(
                LOGINS,
                Rate(sign_ins, timedelta(minutes=10)),
                f"{sign_ins} sign-in attempts per 10 minutes from one address",
            ),
            REGISTRATIONS: RateLimit(
                REGISTRATIONS,
                Rate(registrations, timedelta(hours=1)),
                f"{registrations} registrations per hour from one address",
            ),
        }
        self._buckets = LeasedBuckets(_make_lease_function(database), clock)

    async def take(self, visitor: Visitor, effect: Effect) -> None:
        """Count a tool call.

        Raises:
            RateLimited: The limit is reached; `retry_after` is the time until the next token.
            Unavailable: The database does not answer.
        """
        if visitor.rate_limit_key is None:
            return
        signed_in = self._reads if effect is Effect.READ else self._writes
        limit = self._anonymous if visitor.caller.user_id is None else signed_in
        await self._take(limit, visitor.rate_limit_key)

    async def take_for_address(self, kind: str, address: str) -> None:
        """Count a sign-in attempt or a registration by its network address.

        Args:
            kind: LOGINS or REGISTRATIONS.

        Raises:
            RateLimited: The limit is reached; `retry_after` is the time until the next token.
            Unavailable: The database does not answer.
        """
        await self._take(self._by_address[kind], f"address:{address}")

    async def _take(self, limit: RateLimit, rate_limit_key: str) -> None:
        wait = await self._buckets.take(_hash_key(limit.kind, rate_limit_key), limit.rate)
        if wait:
            seconds = max(1, math.ceil(wait.total_seconds()))
            raise RateLimited(
                f"Rate limit reached: {limit.description}. Try again in {seconds} s.",
                details={"limit": limit.kind},
                retry_after=seconds,
            )


class LeasedBuckets:
    """An instance's leased tokens of all buckets that it has used recently."""

    def __init__(self, lease: LeaseTokens, clock: Clock, max_buckets: int = MAX_BUCKETS) -> None:
        self._lease = lease
        self._clock = clock
        self._max_buckets = max_buckets
        self._tokens: OrderedDict[str, _LockedTokens] = OrderedDict()

    def __len__(self) -> int:
        """Return how many buckets are tracked."""
        return len(self._tokens)

    async def take(self, limit_id: str, rate: Rate) -> timedelta | None:
        """Take a token. Return None, or the time to wait if there is no token.

        Concurrent calls wait for the same lease. While the bucket is empty, no lease is requested.
        """
        locked = self._find_or_add_tokens(limit_id)
        async with locked.lock:
            tokens = locked.tokens
            now = self._clock()
            if tokens.spend(now, IDLE_TIMEOUT):
                return None
            if now >= tokens.empty_until:
                tokens.add(await self._lease(limit_id, rate, now), now)
                if tokens.spend(now, IDLE_TIMEOUT):
                    return None
            return tokens.empty_until - now

    def _find_or_add_tokens(self, limit_id: str) -> _LockedTokens:
        tokens = self._tokens.setdefault(limit_id, _LockedTokens())
        self._tokens.move_to_end(limit_id)
        if len(self._tokens) > self._max_buckets:
            self._tokens.popitem(last=False)
        return tokens


@dataclass(frozen=True, slots=True)
class _LockedTokens:
    tokens: LocalTokens = field(default_factory=LocalTokens)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def _limit_per_minute(kind: str, capacity: int, calls: str) -> RateLimit:
    return RateLimit(kind, Rate(capacity, timedelta(minutes=1)), f"{capacity} {calls} per minute")


def _make_lease_function(database: Connection) -> LeaseTokens:
    async def lease(limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        return await AccessStore(database).limits.lease(limit_id, rate, now)

    return lease


def _hash_key(kind: str, rate_limit_key: str) -> str:
    digest = hashlib.sha256(rate_limit_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}-{digest[:32]}"
