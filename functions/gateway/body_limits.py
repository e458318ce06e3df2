r"""Limits on request bodies: their size, the time they take to arrive, and what JSON may hold.

A long text is one value. Millions of values in the same bytes take a thousand times as long to
parse and to check, and a hundred times the memory; so a large body may hold only so many.

JavaScript's `text.slice(0, n)` may cut an emoji in two, and `JSON.stringify` then writes
`"\ud83d"`. No UTF-8 text holds that, so it can be neither stored nor passed on.

Each check takes time in proportion to the length of the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from functions.gateway.http_errors import json_rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS: Final = 5.0
"""How long any body may take: whoever sends it keeps a place on an instance for as long."""
SLOWEST_LINE: Final = 1024 * 1024
"""Bytes a second that the slowest line has: who may send more gets time for it."""
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""Bytes of bodies that an instance holds at once."""
LARGE_BODY: Final = 256 * 1024
"""Bytes. A smaller body is parsed in milliseconds, whatever it holds."""
MAX_VALUES: Final = 50_000
"""Values in a larger body: it is to hold a long text, not many things."""
_PIECE: Final = 64 * 1024
"""Bytes that are kept together: each piece costs some, too."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyLimit:
    """Reads the whole body before its app hears of the request.

    The SDK has a middleware for the size alone, and waits for ever. It copies the body twice; so it
    is handed over in pieces, which are gone as soon as they are read.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: Callable[[Scope], int],
        advice: Callable[[Scope], str] = lambda _: "Send less.",
        seconds: float = BODY_SECONDS,
        problem_in: Callable[[bytes], str | None] | None = None,
    ) -> None:
        """Guard this app.

        Args:
            app: Whom to guard.
            max_bytes: How many bytes a request may have.
            advice: What to do instead, for whoever sent more.
            seconds: How long it may take, beside the time for so many bytes.
            problem_in: Says what is wrong with a body; None: any body is passed on.
        """
        self._app = app
        self._max_bytes = max_bytes
        self._advice = advice
        self._seconds = seconds
        self._problem_in = problem_in
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or say what is wrong with that."""
        max_bytes, sizes = self._max_bytes(scope), Counter[str]()
        try:
            answer = await self._answer(scope, receive, max_bytes, sizes)
            await answer(scope, receive, send)
        finally:
            self._held -= sizes.total()

    async def _answer(
        self, scope: Scope, receive: Receive, max_bytes: int, sizes: Counter[str]
    ) -> ASGIApp:
        """What answers a request: the app, given its body, or an error."""
        try:
            async with asyncio.timeout(self._seconds + max_bytes / SLOWEST_LINE):
                pieces = await self._read(receive, max_bytes, Headers(scope=scope), sizes)
        except TimeoutError:
            return json_rpc_error(
                408, "This request took too long to arrive. Send it again, or send less."
            )
        except _FullError:
            message = "Too many long requests are under way. Send it again in a few seconds."
            return json_rpc_error(503, message, {"retry-after": "5"})
        if pieces is None:
            message = f"This request has more than the {max_bytes:,} bytes that are taken here."
            return json_rpc_error(413, f"{message} {self._advice(scope)}")
        if problem := await self._problem(pieces):
            return json_rpc_error(400, problem)
        return partial(_replayed, self._app, pieces)

    async def _problem(self, pieces: Iterable[bytearray]) -> str | None:
        """What is wrong with a body. A large one is checked in a thread: others need not wait."""
        if not self._problem_in:
            return None
        body = b"".join(pieces)
        if len(body) > LARGE_BODY:
            return await asyncio.to_thread(self._problem_in, body)
        return self._problem_in(body)

    async def _read(
        self, receive: Receive, max_bytes: int, headers: Headers, sizes: Counter[str]
    ) -> deque[bytearray] | None:
        """The whole body, or as much as came before the client left; None if it is too large."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > max_bytes:
            return None
        pieces = deque([bytearray()])
        more = True
        while more:
            message = await receive()
            part = message.get("body", b"")
            more = message.get("more_body", False)
            sizes["read"] += len(part)
            self._held += len(part)
            if sizes.total() > max_bytes:
                return None
            if sizes.total() > LARGE_BODY and self._held > MAX_HELD_BYTES:
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


def json_problem(body: bytes) -> str | None:
    """Say why a body is refused. One that is not JSON is left to its parser."""
    if len(body) > LARGE_BODY and count_values(body) > MAX_VALUES:
        return f"This request has more than {MAX_VALUES:,} values. Send fewer at once."
    if has_half_surrogate_pair(body):
        return (
            "A text in this request holds half of a surrogate pair: it was cut in the middle of an"
            " emoji or another character. Cut it between two characters, and send it again."
        )
    return None


def count_values(body: bytes) -> int:
    """Count lists, objects and values, roughly."""
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    strings = unescaped.count(b'"') // 2
    if strings > 2 * MAX_VALUES:  # half of them may be names in objects
        return strings
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    return sum(map(outside_strings.count, (b"[", b"{", b",")))


def has_half_surrogate_pair(body: bytes) -> bool:
    """Tell whether a text or a name holds one: such JSON can be read, but not written as UTF-8."""
    if not _SURROGATE.search(body):
        return False
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
