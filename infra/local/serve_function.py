"""Serves one function over HTTP, and ends with the process that started it.

Usage: python -P infra/local/serve_function.py SOCKET path/to/main.py

SOCKET is the number of an open file: a socket that is bound already. Who starts us knows our port
by that before we live, and nobody else can take it. We are run as a file, by the Python of any
environment that holds the framework: nothing else of the checkout is there. The framework's own
server closes connections that are idle for two seconds, and has no setting for it. So uvicorn, one
of its dependencies, serves the app that it makes.
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
"""Seconds that an idle connection stays open. A busy client does not notice that the server has
closed one, and its next request fails."""


def end_with_parent() -> None:
    """The parent holds the other end of our standard input: when it dies, even by SIGKILL, we go.

    So does what we started: it is in the process group that the parent made.
    """

    def wait() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def server(app: ASGIApp) -> uvicorn.Server:
    """Make the server of an app. It ignores forwarding headers: any program here can send them."""
    config = uvicorn.Config(
        app,
        log_level="error",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    return uvicorn.Server(config)


def _record_queries() -> None:
    """For the test suite, which compares all queries with the indexes that there are."""
    checkout = str(Path(__file__).parents[2])
    sys.path.insert(0, checkout)
    from infra.deploy.query_recorder import record_to_directory

    sys.path.remove(checkout)
    record_to_directory()


if __name__ == "__main__":
    import functions_framework

    _, _descriptor, _source = sys.argv
    end_with_parent()
    # After a graceful shutdown uvicorn raises the signal again, for the handler that stood before.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    if os.environ.get("CARREL_RECORD_QUERIES"):
        _record_queries()
    _app = functions_framework.create_app("handle", _source)  # type: ignore[no-untyped-call]
    server(_app).run([socket.socket(fileno=int(_descriptor))])
