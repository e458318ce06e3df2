"""Serves one function over HTTP, and ends with the process that started it.

Usage: python -P infra/local/serve_function.py SOCKET path/to/main.py

SOCKET is the file descriptor of a socket that the parent has bound, so that the parent knows the
port before this process starts, and no other process can take it. This file is run as a standalone
script, by any Python environment that has the functions framework.

The framework's own server closes connections after two seconds of idleness, and this cannot be
configured. Its app therefore runs under uvicorn, which is one of its dependencies.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp

KEEP_ALIVE_SECONDS: Final = 75
"""Seconds that an idle connection stays open. It is long because a busy client may not notice that
the server has closed a connection, and then its next request fails."""


def end_with_parent() -> None:
    """Kill this process group when standard input ends.

    The parent holds the other end of the pipe, which closes when the parent dies, even from
    SIGKILL. Processes that this one started are in the same group.
    """

    def kill_group_at_end_of_input() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=kill_group_at_end_of_input, daemon=True).start()


def server(app: ASGIApp) -> uvicorn.Server:
    """Make the server of an app. It ignores forwarding headers, which any program could forge."""
    config = uvicorn.Config(
        app,
        log_level="error",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    return uvicorn.Server(config)


def _record_queries() -> None:
    """Record queries for the test suite, which checks that each has an index."""
    checkout = str(Path(__file__).parents[2])
    sys.path.insert(0, checkout)
    from infra.build.query_recorder import record_to_directory

    sys.path.remove(checkout)
    record_to_directory()


if __name__ == "__main__":
    import functions_framework

    _, _socket, _path = sys.argv
    end_with_parent()
    # After a graceful shutdown uvicorn raises the signal again, for the handler installed here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    if os.environ.get("CARREL_RECORD_QUERIES"):
        _record_queries()
    _app = functions_framework.create_app("handle", _path)  # type: ignore[no-untyped-call]
    server(_app).run([socket.socket(fileno=int(_socket))])
