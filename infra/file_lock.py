"""File locks between processes. The kernel releases them when their holder ends."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on a file until the block ends or this process dies.

    Child processes do not hold it: Python closes its files in them.

    Args:
        path: The file, which is created if it is missing. Never delete it: a lock on a deleted
            file has no effect.
        how: `LOCK_EX` or `LOCK_SH`, with `LOCK_NB` in order not to wait.

    Raises:
        BlockingIOError: With `LOCK_NB`, if another process holds it.
    """
    with path.open("ab") as file:
        fcntl.flock(file, how)
        yield


def is_free(path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Return whether no process has the lock. It is free if the folder does not exist."""
    try:
        with locked(path, how | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False
    except (FileNotFoundError, NotADirectoryError):
        return True
