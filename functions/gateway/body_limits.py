"""Bodies of requests: no larger than allowed, and not waited for if they drip in."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from functions.gateway.http_errors import refusal
from functions.gateway.json_bodies import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS: Final = 5.0
"""How long any body may take: whoever sends it keeps a place on an instance for as long."""
SLOWEST: Final = 1024 * 1024
"""Bytes a second that a line has; who may send more gets time for it."""
MOST_HELD: Final = 256 * 1024 * 1024
"""Bytes of bodies that an instance holds at once."""
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
        problem_in: Callable[[bytes], str | None] | None = None,
    ) -> None:
        """Guard this app.

        Args:
            app: Whom to guard.
            most: How many bytes a request may have.
            advice: What to do instead, for whoever sent more.
            seconds: How long it may take, beside the time for so many bytes.
            problem_in: Says what is wrong with a body; None: any body is passed on.
        """
        self._app = app
        self._most = most
        self._advice = advice
        self._seconds = seconds
        self._problem_in = problem_in
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or say what is wrong with that."""
        most, sizes = self._most(scope), Counter[str]()
        try:
            answer = await self._answer(scope, receive, most, sizes)
            await answer(scope, receive, send)
        finally:
            self._held -= sizes.total()

    async def _answer(
        self, scope: Scope, receive: Receive, most: int, sizes: Counter[str]
    ) -> ASGIApp:
        """What answers a request: the app, given its body, or a refusal."""
        try:
            async with asyncio.timeout(self._seconds + most / SLOWEST):
                pieces = await self._read(receive, most, Headers(scope=scope), sizes)
        except TimeoutError:
            return refusal(
                408, "This request took too long to arrive. Send it again, or send less."
            )
        except _FullError:
            message = "Too many long requests are under way. Send it again in a few seconds."
            return refusal(503, message, {"retry-after": "5"})
        if pieces is None:
            message = f"This request has more than the {most:,} bytes that are taken here."
            return refusal(413, f"{message} {self._advice(scope)}")
        if problem := await self._problem(pieces):
            return refusal(400, problem)
        return partial(_replayed, self._app, pieces)

    async def _problem(self, pieces: Iterable[bytearray]) -> str | None:
        """What is wrong with a body. A large one is checked in a thread: others need not wait."""
        if not self._problem_in:
            return None
        body = b"".join(pieces)
        if len(body) > LARGE:
            return await asyncio.to_thread(self._problem_in, body)
        return self._problem_in(body)

    async def _read(
        self, receive: Receive, most: int, headers: Headers, sizes: Counter[str]
    ) -> deque[bytearray] | None:
        """The whole body, or as much as came before the client left; None if it is too large."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            return None
        pieces = deque([bytearray()])
        more = True
        while more:
            message = await receive()
            part = message.get("body", b"")
            more = message.get("more_body", False)
            sizes["read"] += len(part)
            self._held += len(part)
            if sizes.total() > most:
                return None
            if sizes.total() > LARGE and self._held > MOST_HELD:
                raise _FullError
            if len(pieces[-1]) >= _PIECE:
                pieces.append(bytearray())
            pieces[-1] += part
        return pieces


class _FullError(Exception):
    """This instance holds as much as it can."""


async def _replayed(
    app: ASGIApp, pieces: deque[bytearray], scope: Scope, receive: Receive, send: Send
) -> None:
    async def replay() -> Message:
        if not pieces:
            return await receive()
        body = bytes(pieces.popleft())
        return {"type": "http.request", "body": body, "more_body": bool(pieces)}

    await app(scope, replay, send)
