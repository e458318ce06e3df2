"""File locks between processes. The kernel releases a lock when its process ends."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def hold_lock(path: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on a file until the block ends or this process dies.

    Child processes do not inherit the lock, because Python closes the file in them.

    Args:
        path: The file, which is created if it is missing. Never delete it, because a lock on a
            deleted file has no effect.
        mode: `LOCK_EX` or `LOCK_SH`, with `LOCK_NB` in order not to wait.

    Raises:
        BlockingIOError: The mode includes `LOCK_NB`, and another process holds the lock.
    """
    with path.open("ab") as file:
        fcntl.flock(file, mode)
        yield


def is_free(path: Path, mode: int = fcntl.LOCK_EX) -> bool:
    """Return whether the lock could be taken now. A lock in a missing folder is free.

    Another process may take it right afterwards.
    """
    try:
        with hold_lock(path, mode | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False
    except (FileNotFoundError, NotADirectoryError):
        return True
