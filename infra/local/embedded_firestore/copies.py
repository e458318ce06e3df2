"""Copies of database files, which other processes write at the same time."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import apsw

from infra.local.embedded_firestore.errors import DatabaseFileError
from infra.local.embedded_firestore.storage import BUSY_MILLISECONDS, describe_failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def copy_files(paths: Sequence[Path], folder: Path) -> None:
    """Copy database files, all as they are at one moment, while other processes write to them.

    Args:
        paths: The files.
        folder: The folder for the copies, which have the names of the files and need no log.

    Raises:
        DatabaseFileError: A file cannot be read, or a copy be written. Some copies may be there.
    """
    with ExitStack() as stack:

        def connect(path: Path) -> apsw.Connection:
            connection = stack.enter_context(closing(apsw.Connection(str(path))))
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            return connection

        try:
            path = folder
            writers, readers = [], []
            for path in paths:
                writers.append(connect(path))
                writers[-1].execute("BEGIN IMMEDIATE")
            for path in paths:  # while nobody writes to any of them
                readers.append(connect(path))
                readers[-1].execute("BEGIN; SELECT count(*) FROM sqlite_schema")
            for writer in writers:
                writer.execute("ROLLBACK")
            for source, reader in zip(paths, readers, strict=True):
                path = folder / source.name
                copy = connect(path)
                copy.pragma("synchronous", "OFF")  # for it is of no use until it is complete
                with copy.backup("main", reader, "main") as backup:
                    backup.step()
        except apsw.Error as error:
            raise DatabaseFileError(describe_failure(path, error)) from error
