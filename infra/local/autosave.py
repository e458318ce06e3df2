"""Saves the emulator's data, which is in memory, to disk: every few minutes, and at the end."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from infra.local.emulator import PROJECT, export_data, import_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DATABASES: Final = ("(default)", "access")
"""The saved databases: knowledge with users' data, and credentials."""
MIN_PAUSE_SECONDS: Final = 300.0
"""The minimum time between two saves."""
PAUSE_FACTOR: Final = 20
"""The minimum time between two saves, as a multiple of the duration of the last one."""
RETRY_SECONDS: Final = 5.0
"""A failed save is retried after this time."""


def load_databases(host: str, data: Path, project: str = PROJECT) -> None:
    """Load the saved databases from `data` into the emulator.

    Raises:
        EmulatorError: The databases cannot be read.
    """
    for database in DATABASES:
        import_data(host, data / database, project, database)


def save_databases(host: str, data: Path, project: str = PROJECT) -> None:
    """Save all databases to `data`, one by one.

    Raises:
        EmulatorError: See `export_data`.
    """
    for database in DATABASES:
        export_data(host, data / database, project, database)


@contextmanager
def autosave(try_to_save: Callable[[], bool], pause: float = MIN_PAUSE_SECONDS) -> Iterator[None]:
    """Save repeatedly until the block ends, for the first time after `pause` seconds."""
    stop = threading.Event()
    thread = threading.Thread(target=_save_repeatedly, args=(stop, try_to_save, pause))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _save_repeatedly(stop: threading.Event, try_to_save: Callable[[], bool], pause: float) -> None:
    while not stop.wait(pause):
        start = time.monotonic()
        if try_to_save():
            pause = max(MIN_PAUSE_SECONDS, PAUSE_FACTOR * (time.monotonic() - start))
        else:
            pause = RETRY_SECONDS
