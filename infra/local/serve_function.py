"""Serves one function over HTTP, and ends with the process that started it.

Usage: python -P infra/local/serve_function.py SOCKET path/to/main.py

SOCKET is the file descriptor of a socket that the parent has bound. So the parent knows the port
before this process starts, and no other process can take the port. This file is a standalone
script, which any Python environment with the functions framework can run.

The framework's own server closes connections after two idle seconds, and this time cannot be
configured. So the framework's app runs under uvicorn, on which the framework depends anyway. In the
cloud, Cloud Run's front end passes a request on only when its headers are complete; here, uvicorn
gets a deadline for them.
"""

from __future__ import annotations

import hmac
import os
import signal
import socket
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE_SECONDS: Final = 75
"""An idle connection stays open for this long. If the time were short, a busy client might not
notice that the server has closed the connection, and its next request would fail."""
HEADER_SECONDS: Final = 10.0
"""A connection is closed if the headers of a request take longer than this to arrive."""
REQUIRED_SECRET: Final = "CARREL_REQUIRED_SECRET"  # noqa: S105 - the variable's name
"""The environment variable with the bearer token that each request must carry, if it is set."""


class RequireSecret:
    """Middleware that rejects requests without a secret as their bearer token."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        """Protect an app with a secret."""
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the app, or answer 403."""
        if scope["type"] != "lifespan" and not self._has_secret(scope):
            response = PlainTextResponse("Only the gateway of this run may call.", 403)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _has_secret(self, scope: Scope) -> bool:
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(values) == 1 and hmac.compare_digest(values[0], self._expected)


class HeaderDeadline(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # chosen at run time
    """Uvicorn's protocol, which closes a connection if a request's headers arrive too slowly.

    The time begins when a connection is made, and again with the first byte of each later request.
    """

    cycle: Any
    transport: asyncio.Transport

    def __init__(self, *args: Any, header_seconds: float, **options: Any) -> None:
        """Set the deadline, in seconds; the rest is uvicorn's."""
        super().__init__(*args, **options)
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begin_waiting()

    def data_received(self, data: bytes) -> None:
        """End the wait if these bytes complete the headers of a request."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._begin_waiting()
        else:
            self._end_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._end_waiting()
        super().connection_lost(exc)

    def _begin_waiting(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._header_seconds, self.transport.close)

    def _end_waiting(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None


def end_with_parent() -> None:
    """Kill this process group when standard input ends.

    The parent has the other end of the pipe, which closes when the parent dies, even by SIGKILL.
    The group includes the child processes of this process.
    """

    def kill_group_at_end_of_input() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=kill_group_at_end_of_input, daemon=True).start()


def make_server(app: ASGIApp, header_seconds: float = HEADER_SECONDS) -> uvicorn.Server:
    """Make a server for an app. It ignores forwarding headers, which any program could forge."""
    config = uvicorn.Config(
        app,
        http=partial(HeaderDeadline, header_seconds=header_seconds),  # type: ignore[arg-type]
        log_level="error",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    return uvicorn.Server(config)


if __name__ == "__main__":
    import functions_framework

    _, _socket, _path = sys.argv
    end_with_parent()
    # After a graceful shutdown uvicorn raises the signal again, for the handler installed here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    _secret = os.environ.pop(REQUIRED_SECRET, None)
    _app = functions_framework.create_app("handle", _path)
    make_server(RequireSecret(_app, _secret) if _secret else _app).run(
        [socket.socket(fileno=int(_socket))]
    )
