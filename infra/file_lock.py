"""File locks between processes. The kernel releases a lock when its process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from shared.core.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def hold_lock(path: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on a file until the block ends or this process dies.

    Child processes do not inherit the lock, because Python closes the file in them.

    Args:
        path: The file, which is created if it is missing, or a folder. Never delete it, because a
            lock on a deleted file has no effect.
        mode: `LOCK_EX` or `LOCK_SH`, with `LOCK_NB` in order not to wait.

    Raises:
        BlockingIOError: The mode includes `LOCK_NB`, and another process holds the lock.
    """
    flags = os.O_RDONLY if path.is_dir() else os.O_WRONLY | os.O_CREAT
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock_or_refuse(path: Path, reason: str) -> Iterator[None]:
    """Hold a lock as `hold_lock` does, but do not wait for it.

    Raises:
        Conflict: Another process holds the lock. The message is `reason`.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Conflict(reason) from error
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
