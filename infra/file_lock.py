"""Locks between processes that no crash leaves behind: the kernel drops them with their holder."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on a file until the block ends, or until this process dies in whatever way.

    Programs that this process starts don't hold it: Python closes its files in them.

    Args:
        path: The file, which is made if need be. Never delete it: a lock on a file that was
            deleted keeps nobody out.
        how: `LOCK_EX` or `LOCK_SH`, with `LOCK_NB` if waiting for others is out of the question.

    Raises:
        BlockingIOError: With `LOCK_NB`: others hold it.
    """
    with path.open("ab") as file:
        fcntl.flock(file, how)
        yield


def is_free(path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Whether the lock could be had at this moment; nobody holds one where there is no folder."""
    try:
        with locked(path, how | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False
    except (FileNotFoundError, NotADirectoryError):
        return True
