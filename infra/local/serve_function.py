"""Serves one function as the cloud does, and ends with the process that started it.

Usage: python -m infra.local.serve_function --source functions/tools/get_chunk/main.py --port 8101
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from functions_framework._cli import _cli

from infra.deploy.query_recorder import record_to_directory


def _end_with_parent() -> None:
    """The parent holds the other end of our standard input: when it dies, even by SIGKILL, we go.

    The framework's server forks a worker: both are in the process group that the parent made.
    """
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    record_to_directory()
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # or the server believes what anybody here forwards
    _cli(["--target", "handle", "--host", "127.0.0.1", *sys.argv[1:]])
