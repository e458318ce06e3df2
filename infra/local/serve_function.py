"""Serves one function as the cloud does, and ends with the process that started it.

Usage: python -P infra/local/serve_function.py SOCKET path/to/main.py

SOCKET is the number of an open file: a socket that is bound already. Who starts us knows our port
by that before we live, and nobody else can take it. We are run as a file, by the Python of any
environment that holds the framework: nothing else of the checkout is there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

_FIRST: Final = 3
"""The first file that systemd opens for a service."""


def end_with_parent() -> None:
    """The parent holds the other end of our standard input: when it dies, even by SIGKILL, we go.

    The framework's server forks a worker: both are in the process group that the parent made.
    """

    def wait() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _listen_on(descriptor: int) -> None:
    """Hand the framework's server its socket, as systemd does: sd_listen_fds(3)."""
    os.dup2(descriptor, _FIRST)
    os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}


def _record_queries() -> None:
    """For the test suite, which compares all queries with the indexes that there are."""
    checkout = str(Path(__file__).parents[2])
    sys.path.insert(0, checkout)
    from infra.deploy.query_recorder import record_to_directory

    sys.path.remove(checkout)
    record_to_directory()


if __name__ == "__main__":
    from functions_framework._cli import _cli

    _, _descriptor, _source = sys.argv
    _listen_on(int(_descriptor))
    end_with_parent()
    if os.environ.get("CARREL_RECORD_QUERIES"):
        _record_queries()
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # or the server believes what anybody here forwards
    _cli(["--target", "handle", "--source", _source])
