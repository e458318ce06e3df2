"""Copies of database files, which other processes write at the same time."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import apsw

from infra.local.embedded_firestore.errors import DatabaseFileError
from infra.local.embedded_firestore.files import describe_failure
from infra.local.embedded_firestore.storage import BUSY_MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ATTEMPTS = 10_000
"""A commit takes much longer than an attempt, so that the next one mostly succeeds."""


def copy_files(paths: Sequence[Path], folder: Path) -> None:
    """Copy database files, all as they are at one moment, while other processes write to them.

    Args:
        paths: The files.
        folder: The folder for the copies, which have the names of the files and need no log.

    Raises:
        DatabaseFileError: A file cannot be read, or a copy be written. Some copies may be there.
    """
    with ExitStack() as stack:

        def connect(path: Path, flags: int = apsw.SQLITE_OPEN_READONLY) -> apsw.Connection:
            connection = stack.enter_context(closing(apsw.Connection(str(path), flags)))
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            return connection

        path = folder
        try:
            readers, watchers = [], []
            for path in paths:
                readers.append(connect(path))
                watchers.append(connect(path))
            _begin_at_one_moment(readers, watchers)
            for source, reader in zip(paths, readers, strict=True):
                path = folder / source.name
                copy = connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
                copy.pragma("synchronous", "OFF")  # for it is of no use until it is complete
                with copy.backup("main", reader, "main") as backup:
                    backup.step()
        except apsw.Error as error:
            raise DatabaseFileError(describe_failure(path, error)) from error


def _begin_at_one_moment(
    readers: Sequence[apsw.Connection], watchers: Sequence[apsw.Connection]
) -> None:
    """Begin to read several files, and again if one of them changed before the last was begun.

    A reader sees its file as it was when it began. So nobody has to wait.
    """

    def read_versions() -> list[int]:
        return [watcher.pragma("data_version") for watcher in watchers]

    for _ in range(_ATTEMPTS):
        before = read_versions()
        for reader in readers:
            reader.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
        if before == read_versions():
            return
        for reader in readers:
            reader.execute("COMMIT")
    raise apsw.BusyError("Other processes write without a pause.")
