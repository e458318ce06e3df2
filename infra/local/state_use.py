"""Who uses the state folder: any number of processes at once, or one restore.

A process holds a lock on the folder from its start to its end, shared with others. A restore holds
it alone, from before it looks at the folder until the base is in place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from infra.file_lock import hold_lock
from shared.core.errors import Conflict, Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNPACKING: Final = ".restoring"
"""The folder in the state folder into which a restore unpacks."""
_locks: Final[dict[Path, int]] = {}
"""The state folder, once this process uses it, and the descriptor of its lock."""


def use_state(state: Path) -> None:
    """Keep restores away until this process ends, and finish one that was killed.

    Does nothing if this process already uses the folder, if it does not exist yet, or if its drive
    has no locks.

    Raises:
        Conflict: A restore is running.
    """
    if state in _locks or not state.exists():
        return
    lock = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            return  # a drive without locks, on which no database is opened
        reason = f"A backup is being restored to {state}. Try again when that has ended."
        raise Conflict(reason) from error
    _locks[state] = lock
    # No restore runs now, so what there is of one was left by a process that was killed.
    shutil.rmtree(state / UNPACKING, ignore_errors=True)
    if _list_restored(state):
        with hold_lock(state / ".finishing"):  # others that start now wait
            for restored in _list_restored(state):
                put_in_place(restored)


@contextmanager
def replace_state(state: Path) -> Iterator[None]:
    """Keep all other processes away from the state folder until the block ends.

    Afterwards, this process no longer holds its lock.

    Raises:
        Conflict: Another process uses it.
        Unusable: It is on a drive without locks.
    """
    use_state(state)
    if state not in _locks:
        raise Unusable(
            f"The drive of {state} has no locks. Set CARREL_STATE to a folder on a disk of this"
            " machine."
        )
    lock = _locks.pop(state)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise Conflict(
            f"Carrel runs on the data in {state}. Stop it, quit the clients that started it, and"
            " restore again."
        ) from error
    try:
        yield
    finally:
        os.close(lock)


def _list_restored(state: Path) -> list[Path]:
    """Return the bases that were unpacked and are not in place yet."""
    return sorted(state.glob("restored-*"))


def put_in_place(restored: Path) -> Path | None:
    """Move a restored base into place.

    Args:
        restored: A folder `restored-TIME` in the state folder, with a whole base. If this process
            is killed, the next one that uses the state folder goes on where it stopped.

    Returns:
        The folder that holds the previous base, or None if there was none.
    """
    state = restored.parent
    former = state / restored.name.replace("restored", "replaced")
    for name in ("databases", "secret"):
        if (restored / name).exists():
            if (state / name).exists():
                former.mkdir(mode=0o700, exist_ok=True)
                aside = former / name
                while aside.exists():  # a restore in the same second put another base aside
                    aside = aside.with_name(f"{aside.name}-later")
                (state / name).rename(aside)
            (restored / name).rename(state / name)
    restored.rmdir()
    return former if former.exists() else None
