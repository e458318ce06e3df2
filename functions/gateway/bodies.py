"""Bodies of requests: no larger than allowed, and not waited for if they drip in."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from functions.gateway.refusals import refusal
from functions.gateway.well_formed import may_hold_halves, well_formed

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS: Final = 5.0
"""How long any body may take: whoever sends it keeps a place on an instance for as long."""
SLOWEST: Final = 1024 * 1024
"""Bytes a second that a line has; who may send more gets time for it."""
_PIECE: Final = 64 * 1024
"""Bytes that are kept together: each piece costs some, too."""


class Bounded:
    """Reads the whole body before its app hears of the request.

    The SDK has a middleware for the size alone, and waits for ever. It copies the body twice; so it
    is handed over in pieces, which are gone as soon as they are read.
    """

    def __init__(
        self,
        app: ASGIApp,
        most: Callable[[Scope], int],
        advice: Callable[[Scope], str] = lambda _: "Send less.",
        seconds: float = SECONDS,
    ) -> None:
        """Guard this app.

        Args:
            app: Whom to guard.
            most: How many bytes a request may have.
            advice: What to do instead, for whoever sent more.
            seconds: How long it may take, beside the time for so many bytes.
        """
        self._app = app
        self._most = most
        self._advice = advice
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or say what is wrong with that."""
        most = self._most(scope)
        try:
            async with asyncio.timeout(self._seconds + most / SLOWEST):
                pieces = await _read(receive, most, Headers(scope=scope))
        except TimeoutError:
            late = refusal(
                408, "This request took too long to arrive. Send it again, or send less."
            )
            await late(scope, receive, send)
            return
        if pieces is None:
            message = f"This request has more than the {most:,} bytes that are taken here."
            large = refusal(413, f"{message} {self._advice(scope)}")
            await large(scope, receive, send)
            return

        if may_hold_halves(pieces):
            pieces = deque([bytearray(well_formed(b"".join(pieces)))])

        async def replay() -> Message:
            if not pieces:
                return await receive()
            body = bytes(pieces.popleft())
            return {"type": "http.request", "body": body, "more_body": bool(pieces)}

        await self._app(scope, replay, send)


async def _read(receive: Receive, most: int, headers: Headers) -> deque[bytearray] | None:
    """The whole body, or as much as came before the client left; None if it is too large."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        return None
    pieces = deque([bytearray()])
    size, more = 0, True
    while more:
        message = await receive()
        part = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        if size > most:
            return None
        if len(pieces[-1]) >= _PIECE:
            pieces.append(bytearray())
        pieces[-1] += part
    return pieces
