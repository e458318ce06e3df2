"""Bodies of requests: no larger than allowed, and not waited for if they drip in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS: Final = 5.0
"""How long a body may take: whoever sends it keeps a place on an instance for as long."""


class Bounded:
    """Reads the whole body before its app hears of the request.

    The SDK has a middleware for the size alone, and waits for ever.
    """

    def __init__(
        self, app: ASGIApp, most: Callable[[Scope], int], seconds: float = SECONDS
    ) -> None:
        """Guard this app; `most` says how many bytes a request may have."""
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or say what is wrong with that."""
        try:
            async with asyncio.timeout(self._seconds):
                body = await _read(receive, self._most(scope), Headers(scope=scope))
        except TimeoutError:
            late = PlainTextResponse("This request took too long to arrive.", status_code=408)
            await late(scope, receive, send)
            return
        if body is None:
            large = PlainTextResponse("Request body too large", status_code=413)
            await large(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)


async def _read(receive: Receive, most: int, headers: Headers) -> bytes | None:
    """The whole body, or as much as came before the client left; None if it is too large."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        return None
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            return None
    return bytes(body)
