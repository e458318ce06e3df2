"""Serves one function over HTTP, and ends with the process that started it.

Usage: python -P infra/local/serve_function.py SOCKET path/to/main.py

SOCKET is the file descriptor of a socket that the parent has bound. So the parent knows the port
before this process starts, and no other process can take the port. This file is a standalone
script, which any Python environment with the functions framework can run.

The framework's own server closes connections after two idle seconds, and this time cannot be
configured. So the framework's app runs under uvicorn, on which the framework depends anyway.
"""

from __future__ import annotations

import hmac
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE_SECONDS: Final = 75
"""An idle connection stays open for this long. If the time were short, a busy client might not
notice that the server has closed the connection, and its next request would fail."""
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


def end_with_parent() -> None:
    """Kill this process group when standard input ends.

    The parent has the other end of the pipe, which closes when the parent dies, even by SIGKILL.
    The group includes the child processes of this process.
    """

    def kill_group_at_end_of_input() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=kill_group_at_end_of_input, daemon=True).start()


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Make a server for an app. It ignores forwarding headers, which any program could forge."""
    config = uvicorn.Config(
        app,
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
