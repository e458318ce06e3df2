"""Saves the emulator's data, which are in memory, to disk: every few minutes, and at the end."""

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
"""The databases that are saved: knowledge and users' data, and credentials."""
SAVE_SECONDS: Final = 300.0
"""The least time between two saves."""
REST: Final = 20
"""The least time between two saves, as a multiple of how long the last one took."""
RETRY_SECONDS: Final = 5.0
"""The time after which a save that failed is tried again."""


def load(host: str, data: Path, project: str = PROJECT) -> None:
    """Put what was saved in `data` into the emulator's databases.

    Raises:
        EmulatorError: It cannot be read.
    """
    for database in DATABASES:
        import_data(host, data / database, project, database)


def save(host: str, data: Path, project: str = PROJECT) -> None:
    """Replace what is saved in `data`, database by database.

    Raises:
        EmulatorError: See `export_data`.
    """
    for database in DATABASES:
        export_data(host, data / database, project, database)


@contextmanager
def saving(try_to_save: Callable[[], bool], pause: float = SAVE_SECONDS) -> Iterator[None]:
    """Save again and again until the block ends, for the first time after a pause in seconds."""
    over = threading.Event()
    thread = threading.Thread(target=_save_until, args=(over, try_to_save, pause))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _save_until(over: threading.Event, try_to_save: Callable[[], bool], pause: float) -> None:
    while not over.wait(pause):
        start = time.monotonic()
        saved = try_to_save()
        pause = max(SAVE_SECONDS, REST * (time.monotonic() - start)) if saved else RETRY_SECONDS
