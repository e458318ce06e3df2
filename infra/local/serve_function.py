"""Serves one function as the cloud does, and ends with the process that started it.

Usage: python -m infra.local.serve_function SOCKET functions/tools/get_chunk/main.py

SOCKET is the number of an open file: a socket that is bound already. Who starts us knows our port
by that before we live, and nobody else can take it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

from functions_framework._cli import _cli

from infra.deploy.query_recorder import record_to_directory

_FIRST: Final = 3
"""The first file that systemd opens for a service."""


def _end_with_parent() -> None:
    """The parent holds the other end of our standard input: when it dies, even by SIGKILL, we go.

    The framework's server forks a worker: both are in the process group that the parent made.
    """
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _listen_on(descriptor: int) -> None:
    """Hand the framework's server its socket, as systemd does: sd_listen_fds(3)."""
    os.dup2(descriptor, _FIRST)
    os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}


if __name__ == "__main__":
    _, _descriptor, _source = sys.argv
    _listen_on(int(_descriptor))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    record_to_directory()
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # or the server believes what anybody here forwards
    _cli(["--target", "handle", "--source", _source])
