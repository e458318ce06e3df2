"""Database files as files: their format, their lock, damage, and why one cannot be used."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing, suppress
from shutil import disk_usage
from typing import TYPE_CHECKING, Final

import apsw
import grpc

from infra.local.embedded_firestore.errors import DatabaseFileError, FirestoreError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
"""The version of the tables, which `PRAGMA user_version` holds."""
APPLICATION: Final = 0x46697265
"""The value of `PRAGMA application_id`, by which a file is known as one of these."""
_MIN_FREE_BYTES: Final = 1_000_000
"""With less free space than this, a disk counts as full."""


def check_file(path: Path) -> None:
    """Check that a file can be opened, and look for damage in all of it, without changing it.

    Raises:
        DatabaseFileError: It is damaged, of a later version, or of another program.
    """
    if not path.stat().st_size:
        return  # it was created, and nothing was written
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            require_format(path, connection)
            result = connection.execute("PRAGMA quick_check(1)").get
    except apsw.Error as error:
        raise DatabaseFileError(describe_failure(path, error)) from error
    if result != "ok":
        raise DatabaseFileError(describe_failure(path, apsw.CorruptError(result)))


def require_format(path: Path, connection: apsw.Connection) -> None:
    """Check that a file is one of these, in a format that this version reads.

    Raises:
        DatabaseFileError: It is not.
    """
    if connection.pragma("application_id") != APPLICATION:
        raise DatabaseFileError(f"{path} is a file of another program.")
    version = connection.pragma("user_version")
    if version > FORMAT:
        raise DatabaseFileError(
            f"{path} was written by a later version, in format {version}; this version reads format"
            f" {FORMAT}. Update, and start again."
        )


def describe_failure(path: Path, error: Exception) -> str:
    """Say what is wrong with a file, and what to do, for people."""
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return f"{path} is damaged: {error}. Restore a copy, or move it away."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | PermissionError():
            return f"{path} cannot be written: {error}. Check its permissions and its folder's."
        case apsw.FullError() | apsw.IOError() if _is_full(path, error):
            return f"The disk of {path} is full. Free some space, and try again."
        case apsw.BusyError():
            return f"{path} is in use by a long operation of another process. Try again."
    return f"{path} cannot be used: {error}."


def _is_full(path: Path, error: Exception) -> bool:
    """Return whether a disk is full, on which SQLite cannot even create its shared memory."""
    return isinstance(error, apsw.FullError) or disk_usage(path.parent).free < _MIN_FREE_BYTES


def make_file_error(path: Path, error: apsw.Error) -> FirestoreError:
    """Return the error of a call that failed because of the file.

    What cannot pass by itself has a code that Google's client does not try again for minutes, as it
    does for INTERNAL, RESOURCE_EXHAUSTED and UNAVAILABLE.
    """
    match error:
        case apsw.BusyError():
            code = grpc.StatusCode.ABORTED
        case apsw.ReadOnlyError() | apsw.CantOpenError():
            code = grpc.StatusCode.PERMISSION_DENIED
        case apsw.CorruptError() | apsw.NotADBError():
            code = grpc.StatusCode.DATA_LOSS
        case _:
            code = grpc.StatusCode.UNKNOWN
    return FirestoreError(code, describe_failure(path, error))


def identify(path: Path) -> int | None:
    """Return what tells a file from another of its name, or None if it is missing."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def lock_file(path: Path) -> tuple[int, bool]:
    """Note in a lock that this process uses a file, and keep others from opening it if none does.

    Returns:
        The descriptor of the lock, and whether no other process uses the file.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite's own mode is 0644
    lock_path = path.with_name(f"{path.name}.lock")
    while True:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        is_alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_alone = False  # another process uses it, or is opening it
            fcntl.flock(lock, fcntl.LOCK_SH)
        if os.fstat(lock).st_ino == identify(lock_path):
            return lock, is_alone
        os.close(lock)  # while this process waited, the folder was replaced


def has_log(path: Path) -> bool:
    """Return whether SQLite's log was left behind, as after an unclean end."""
    wal = path.with_name(f"{path.name}-wal")
    return wal.exists() and wal.stat().st_size > 0
