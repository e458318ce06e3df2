r"""Limits on request bodies: their size, their arrival time, and their JSON values.

A long text is one value. Millions of values in the same number of bytes take a thousand times as
long to parse and validate, and a hundred times the memory, so a large body may have only few.

JavaScript's `text.slice(0, n)` may cut an emoji in two, and `JSON.stringify` then writes
`"\ud83d"`. That is not valid in UTF-8, so it can be neither stored nor passed on.

Each check takes time proportional to the length of the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from functions.gateway.http_errors import make_json_rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    MakeError = Callable[[int, str, dict[str, str]], Response]

BODY_TIMEOUT_SECONDS: Final = 5.0
"""How long a body of any size may take to arrive, because it occupies a slot of the instance."""
MIN_BYTES_PER_SECOND: Final = 1024 * 1024
"""The slowest accepted upload. A body may also take the time that one of `max_bytes` needs at this
speed."""
MAX_BUFFERED_BYTES: Final = 256 * 1024 * 1024
"""The maximum total size of the bodies that an instance buffers at the same time."""
LARGE_BODY_BYTES: Final = 256 * 1024
"""A body above this size counts as large. A smaller one is parsed in milliseconds."""
MAX_VALUES: Final = 50_000
"""The maximum number of JSON values in a large body, which is meant for a long text."""
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyLimit:
    """Middleware that reads the whole body before it calls its app.

    The app receives the body in one part, and this middleware frees it as soon as it is received.
    """

    def __init__(  # noqa: PLR0913 - each is an independent part
        self,
        app: ASGIApp,
        max_bytes: Callable[[Scope], int],
        advice: Callable[[Scope], str] = lambda _: "Send less.",
        *,
        timeout: float = BODY_TIMEOUT_SECONDS,
        find_problem: Callable[[bytes | bytearray], str | None] | None = None,
        make_error: MakeError = make_json_rpc_error,
    ) -> None:
        """Store the app and the limits.

        Args:
            timeout: Seconds that a body may take, in addition to the time for `max_bytes`.
            find_problem: Returns a body's problem, or None. Without it, any body is accepted.
            make_error: Makes the error response from its status, message and headers.
        """
        self._app = app
        self._max_bytes = max_bytes
        self._advice = advice
        self._timeout = timeout
        self._find_problem = find_problem
        self._make_error = make_error
        self._buffered_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or answer with its problem."""
        max_bytes = self._max_bytes(scope)
        sizes = Counter[str]()
        try:
            app = await self._choose_app(scope, receive, max_bytes, sizes)
            await app(scope, receive, send)
        finally:
            self._buffered_bytes -= sizes.total()

    async def _choose_app(
        self, scope: Scope, receive: Receive, max_bytes: int, sizes: Counter[str]
    ) -> ASGIApp:
        """Return the app to call next: the protected one with the body, or an error response."""
        try:
            async with asyncio.timeout(self._timeout + max_bytes / MIN_BYTES_PER_SECOND):
                body = await self._read(receive, max_bytes, Headers(scope=scope), sizes)
        except TimeoutError:
            message = "This request took too long to arrive. Send it again, or send less."
            return self._make_error(408, message, {})
        except _BufferFullError:
            message = "Too many large requests are being processed. Try again in a few seconds."
            return self._make_error(503, message, {"retry-after": "5"})
        if body is None:
            message = f"This request is larger than {max_bytes:,} bytes."
            return self._make_error(413, f"{message} {self._advice(scope)}", {})
        if problem := await self._check_body(body):
            return self._make_error(400, problem, {})
        return partial(_replay, self._app, [body])

    async def _check_body(self, body: bytearray) -> str | None:
        """Return the problem of a body, if any. Large bodies are checked in a thread."""
        if not self._find_problem:
            return None
        if len(body) > LARGE_BODY_BYTES:
            return await asyncio.to_thread(self._find_problem, body)
        return self._find_problem(body)

    async def _read(
        self, receive: Receive, max_bytes: int, headers: Headers, sizes: Counter[str]
    ) -> bytearray | None:
        """Return the body, or None if it is too large. It is cut short if the client disconnects.

        Args:
            sizes: Counts the bytes that were read, which the caller removes from the buffer.

        Raises:
            _BufferFullError: Other requests fill the buffer of this instance.
        """
        content_length = headers.get("content-length", "")
        if content_length.isdecimal() and int(content_length) > max_bytes:
            return None
        body = bytearray()
        has_more = True
        while has_more:
            message = await receive()
            part = message.get("body", b"")
            has_more = message.get("more_body", False)
            sizes["read"] += len(part)
            self._buffered_bytes += len(part)
            if sizes.total() > max_bytes:
                return None
            if sizes.total() > LARGE_BODY_BYTES and self._buffered_bytes > MAX_BUFFERED_BYTES:
                raise _BufferFullError
            body += part
        return body


class _BufferFullError(Exception):
    """The buffer of this instance is full."""


async def _replay(
    app: ASGIApp, bodies: list[bytearray], scope: Scope, receive: Receive, send: Send
) -> None:
    async def replay_body() -> Message:
        if not bodies:
            return await receive()
        return {"type": "http.request", "body": bytes(bodies.pop()), "more_body": False}

    await app(scope, replay_body, send)


def find_json_problem(body: bytes | bytearray) -> str | None:
    """Return the reason to reject a body, if any. Invalid JSON is left to the parser."""
    if len(body) > LARGE_BODY_BYTES and count_values(body) > MAX_VALUES:
        return f"This request has more than {MAX_VALUES:,} JSON values. Send fewer in one request."
    if has_half_surrogate_pair(body):
        return (
            "A text in this request contains half of a surrogate pair: it was cut in the middle of"
            " an emoji or another character. Cut it between characters and send it again."
        )
    return None


def count_values(body: bytes | bytearray) -> int:
    """Return approximately how many JSON values a body has, counting lists and objects."""
    body_without_escapes = body.replace(rb"\\", b"").replace(rb"\"", b"")
    strings = body_without_escapes.count(b'"') // 2
    if strings > 2 * MAX_VALUES:  # up to half of them may be names in objects
        return strings
    outside_strings = b"".join(body_without_escapes.split(b'"')[::2])
    return sum(map(outside_strings.count, (b"[", b"{", b",")))


def has_half_surrogate_pair(body: bytes | bytearray) -> bool:
    """Return whether any string has half a surrogate pair, which cannot be encoded as UTF-8."""
    if not _SURROGATE_ESCAPE.search(body):
        return False
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
