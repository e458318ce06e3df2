"""How the gateway is: every part that calls depend on says so of itself."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.calls.dispatch import Dispatcher

GOOD_SECONDS: Final = 30.0
"""How long all parts, once seen to be well, are taken to be so: a look wakes every function."""
BAD_SECONDS: Final = 1.0
"""How long they are taken not to be, once one was seen to be ill."""


class Health:
    """What `/health` answers. Anybody may ask and a look costs calls: news is kept for a while."""

    def __init__(
        self, dispatcher: Dispatcher, *, good: float = GOOD_SECONDS, bad: float = BAD_SECONDS
    ) -> None:
        """Look through this dispatcher, and keep good and bad news for so many seconds."""
        self._dispatcher = dispatcher
        self._kept = {True: good, False: bad}
        self._fresh_until = -math.inf
        self._parts: dict[str, str] = {}
        self._one_look = asyncio.Lock()

    async def answer(self, _request: Request) -> JSONResponse:
        """200 if all parts are well, else 503, and what each says of itself."""
        async with self._one_look:
            if time.monotonic() > self._fresh_until:
                self._parts = await self._dispatcher.health()
                self._fresh_until = time.monotonic() + self._kept[self._is_well()]
            well = self._is_well()
        body = {"status": "ok" if well else "degraded", "parts": self._parts}
        return JSONResponse(body, status_code=200 if well else 503)

    def _is_well(self) -> bool:
        return all(state == "ok" for state in self._parts.values())
