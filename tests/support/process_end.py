"""Waits for the end of processes that are not children of this one."""

import os
import select
import sys
from contextlib import suppress
from typing import Final

END_TIMEOUT_SECONDS: Final = 60.0
"""The time after which a process that has not ended is considered to hang."""


def wait_for_end(*pids: int) -> None:
    """Wait until all processes have ended.

    Raises:
        TimeoutError: A process has not ended.
    """
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended
            if not _wait(pid):
                raise TimeoutError(f"Process {pid} has not ended.")


def _wait(pid: int) -> bool:
    """Return whether a process ends in time. Linux and macOS have different ways to wait."""
    if sys.platform == "linux":
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], END_TIMEOUT_SECONDS)[0])
        finally:
            os.close(descriptor)
    queue = select.kqueue()
    exits = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
    try:
        return bool(queue.control([exits], 1, END_TIMEOUT_SECONDS))
    finally:
        queue.close()
