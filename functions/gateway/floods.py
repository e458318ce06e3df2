"""Nobody gets everything for asking often: a rough limit by address, before anything is read.

It is each instance's own and lives in memory, so that a flood costs neither reads nor writes. What
callers may do is limited exactly, and over all instances, in `limits`.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

from functions.gateway.auth.client_address import address_of
from functions.gateway.http_errors import refused
from shared.core.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

_READABLE: Final = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "retry-after",
}
"""Or a program in a web page would hear of a network error, and not how long to wait."""
MOST_KEPT: Final = 10_000
"""Addresses that are remembered."""
MOST_AT_ONCE: Final = 40
"""Requests of one address that are under way at once: half of what an instance takes by default."""
_MINUTE: Final = 60.0


class Floods:
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
        address = address_of(scope, self._proxies)
        wait = self._take(address)
        if wait <= 0 and self._under_way[address] >= MOST_AT_ONCE:
            wait = 1.0
        if wait > 0:
            error = RateLimited(
                "Too many requests from one address. Wait a moment.", retry_after=wait
            )
            await refused(error, _READABLE)(scope, receive, send)
            return
        self._under_way[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[address] -= 1
            self._under_way += Counter()  # which forgets those of whom none is left

    def _take(self, address: str) -> float:
        """Count one: 0, or how long to wait (the generic cell rate algorithm, as in `bucket`)."""
        now = self._clock()
        full_at = max(self._full_at.pop(address, now), now) + self._interval
        wait = full_at - now - _MINUTE
        self._full_at[address] = full_at if wait <= 0 else full_at - self._interval
        if len(self._full_at) > MOST_KEPT:
            self._full_at.popitem(last=False)
        return wait
