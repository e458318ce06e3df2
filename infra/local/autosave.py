"""Saves the emulator's data, which the emulator keeps only in memory, every few minutes."""

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
"""The databases that are saved: the knowledge base with users' data, and the credentials."""
MIN_PAUSE_SECONDS: Final = 300.0
"""The pause after a save is at least this long."""
PAUSE_FACTOR: Final = 20
"""The pause after a save is at least this multiple of the save's duration, so that a large database
is not saved most of the time."""
RETRY_SECONDS: Final = 5.0
"""A failed save is retried after this pause."""


def load_databases(host: str, data: Path, project: str = PROJECT) -> None:
    """Load the saved databases from `data` into the emulator.

    Raises:
        EmulatorError: The emulator cannot load a database.
    """
    for database in DATABASES:
        import_data(host, data / database, project, database)


def save_databases(host: str, data: Path, project: str = PROJECT) -> None:
    """Save all databases to `data`, one by one.

    Raises:
        EmulatorError: A database could not be written. The message contains only the reason.
    """
    for database in DATABASES:
        export_data(host, data / database, project, database)


@contextmanager
def autosave(try_to_save: Callable[[], bool], pause: float = MIN_PAUSE_SECONDS) -> Iterator[None]:
    """Call `try_to_save` repeatedly until the block ends.

    Args:
        try_to_save: Saves the data, and returns whether that succeeded.
        pause: The seconds until the first save.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_save_repeatedly, args=(stop, try_to_save, pause))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _save_repeatedly(stop: threading.Event, try_to_save: Callable[[], bool], pause: float) -> None:
    """Save after each pause until `stop` is set. The first pause is given."""
    while not stop.wait(pause):
        start = time.monotonic()
        if try_to_save():
            pause = max(MIN_PAUSE_SECONDS, PAUSE_FACTOR * (time.monotonic() - start))
        else:
            pause = RETRY_SECONDS
