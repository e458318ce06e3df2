"""The SQLite file of a database: its tables, connections, clock and indexes.

The table `documents` has a row for each document. Its key is the number of the collection and the
document's id, encoded by `values` so that rows have Firestore's order. The row's body is the
serialized fields, which answers contain unchanged.

A new file has the indexes of `Definitions.eager`. Any other index is built when a query first needs
it, a few hundred documents at a time, so that commits can go on in between. From its registration
on, commits write its entries; the builder adds those of all documents and marks it as built. If the
builder is killed, the next query that needs the index builds it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
import grpc

from infra.local.embedded_firestore import vectors
from infra.local.embedded_firestore.definitions import Definitions, Index
from infra.local.embedded_firestore.entries import StoredIndex, make_entries, make_vectors
from infra.local.embedded_firestore.errors import DatabaseFileError, FirestoreError
from infra.local.embedded_firestore.files import (
    APPLICATION,
    FORMAT,
    check_file,
    describe_failure,
    has_log,
    identify,
    lock_file,
    require_format,
)
from infra.local.embedded_firestore.protos import DocumentProto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from infra.local.embedded_firestore.entries import Entry, VectorKey

MIN_SQLITE: Final = (3, 51, 3)
"""Earlier versions can corrupt a file in WAL mode that several processes write."""
BUSY_MILLISECONDS: Final = 8_000
"""A commit waits this long for those of other processes, less than its own time limit."""
BATCH: Final = 500
"""Work on all documents holds up commits for this many at a time."""

_SCHEMA: Final = (
    vectors.SCHEMA
    + f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE collections (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL
);
CREATE INDEX collections_by_name ON collections (name);
CREATE TABLE documents (
    collection INTEGER NOT NULL,
    name BLOB NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (collection, name)
);
CREATE TABLE indexes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    definition TEXT NOT NULL UNIQUE,
    is_built INTEGER NOT NULL DEFAULT FALSE
);
CREATE TABLE entries (
    ix INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    value BLOB NOT NULL,
    name BLOB NOT NULL,
    PRIMARY KEY (ix, scope, value, name)
) WITHOUT ROWID;
INSERT INTO meta VALUES ('time', 0), ('indexes', 0), ('definitions', ''), ('swept', 0);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""  # noqa: S608 - numbers
)
"""The tables. An entry's `scope` is a collection, or 0 for all of an id; its `name` is then the
document's whole path. `meta` has the time of the last commit and of the last sweep, the version of
`indexes`, and the fingerprint of the definitions."""

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Indexes:
    """The indexes of the file at a version."""

    version: int
    by_definition: dict[Index, StoredIndex]
    by_collection: dict[str, list[StoredIndex]]


Place = tuple[int, bytes]
"""The number of a collection, and the name of a document in it."""
START: Final[Place] = (0, b"")
"""The place before all documents."""


class StoredDocument(NamedTuple):
    """A document as it is stored, with its collection's path and number."""

    path: str
    collection: int
    name: bytes
    body: bytes

    @property
    def place(self) -> Place:
        """Its place among all documents."""
        return self.collection, self.name


class Store:
    """A database file, opened by this process.

    Attributes:
        path: The file.
        definitions: The indexes.
        writer: The connection for commits.
        check: The thread that looks for damage. It runs after an unclean end.
        damage: What is wrong with the file, or None as far as is known.
        matrices: The vectors in memory.
    """

    def __init__(self, path: Path, definitions: Definitions, *, durable: bool = True) -> None:
        """Open a file, and create it if it is missing.

        Args:
            path: The file.
            definitions: The indexes.
            durable: Whether a commit that was answered survives a power failure, too. It survives
                the end of the process in any case.

        Raises:
            DatabaseFileError: The file cannot be opened.
        """
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < MIN_SQLITE:
            raise DatabaseFileError(
                f"SQLite {apsw.sqlite_lib_version()} can damage a file that several processes "
                "write. Install a newer version of the package apsw."
            )
        self.path = path
        self.definitions = definitions
        self.matrices = vectors.Matrices()
        self.damage: str | None = None
        self._durable = durable
        self._collections: dict[str, int] = {}
        self._indexes = _Indexes(-1, {}, {})
        is_open = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock, is_alone = lock_file(path)
        except OSError as error:
            raise DatabaseFileError(describe_failure(path, error)) from error
        try:
            is_unclean = is_alone and has_log(path)
            self._file = identify(path)
            self.writer = self.connect()
            self._create()
            if is_alone:
                vectors.purge(self.writer)
        except (apsw.Error, OSError) as error:
            raise DatabaseFileError(describe_failure(path, error)) from error
        else:
            fcntl.flock(self._lock, fcntl.LOCK_SH)  # from now on, others may open the file
            is_open = True
        finally:
            if not is_open:
                os.close(self._lock)
        self.check = threading.Thread(target=self._look_for_damage, daemon=True)
        if is_unclean:
            self.check.start()

    def connect(self) -> apsw.Connection:
        """Open a connection, which one thread uses at a time."""
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute(
            f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'};"
            f"PRAGMA fullfsync = {int(self._durable)};"
            "PRAGMA checkpoint_fullfsync = 1;"
            "PRAGMA cache_size = -16000;"
        )
        return connection

    @cached_property
    def reader(self) -> apsw.Connection:
        """The connection for quick reads."""
        return self.connect()

    @cached_property
    def scanner(self) -> apsw.Connection:
        """The connection for queries."""
        return self.connect()

    def close(self) -> None:
        """Close the file."""
        for name in ("reader", "scanner", "writer"):
            if name in vars(self):
                vars(self)[name].close()
        os.close(self._lock)

    def require_usable(self) -> None:
        """Check that the file is neither damaged, as far as is known, nor gone.

        Raises:
            FirestoreError: Reads would return wrong data, or writes would be lost.
        """
        if self.damage:
            raise FirestoreError(grpc.StatusCode.DATA_LOSS, self.damage)
        if self._file != identify(self.path):
            raise FirestoreError(
                grpc.StatusCode.DATA_LOSS,
                f"{self.path} was deleted or replaced while it was open. Start again.",
            )

    @contextmanager
    def write(self) -> Iterator[None]:
        """Open a transaction of the writer, which is committed at the end of the block."""
        self.require_usable()
        try:
            self.writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise FirestoreError(
                grpc.StatusCode.ABORTED, "Too much contention: other processes write. Try again."
            ) from error
        try:
            yield
            self.writer.execute("COMMIT")
        except BaseException:
            if self.writer.in_transaction:
                self.writer.execute("ROLLBACK")
            raise

    def _create(self) -> None:
        version = self.writer.pragma("user_version")
        if version == 0:
            if not self._durable:
                self.writer.pragma("synchronous", "OFF")  # for there is nothing to lose yet
            self.writer.pragma("journal_mode", "WAL")
            with self.write():
                version = self.writer.pragma("user_version")
                if version == 0:
                    if self.writer.execute("SELECT count(*) FROM sqlite_schema").get:
                        raise DatabaseFileError(f"{self.path} is a file of another program.")
                    self.writer.execute(_SCHEMA)
                    self._add_eager_indexes()
                    version = FORMAT
            if not self._durable:
                self.writer.pragma("synchronous", "NORMAL")
        require_format(self.path, self.writer)
        if self.get_meta(self.writer, "definitions") != self.definitions.fingerprint:
            with self.write():
                self._drop_undefined()

    def _look_for_damage(self) -> None:
        """Look for damage after an unclean end, in a thread."""
        try:
            check_file(self.path)
        except DatabaseFileError as error:
            self.damage = str(error)
        if self.damage:
            _logger.error(self.damage)

    # Numbers and times

    def get_meta(self, connection: apsw.Connection, name: str) -> Any:
        """Return a value of the table `meta`."""
        return connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get

    def set_meta(self, name: str, value: int | str) -> None:
        """Change a value of the table `meta`."""
        self.writer.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))

    def tick(self) -> int:
        """Return the time of a commit in microseconds, later than that of any other."""
        now = max(time.time_ns() // 1_000, self.get_meta(self.writer, "time") + 1)
        self.set_meta("time", now)
        return int(now)

    # Collections

    def find_collection(self, connection: apsw.Connection, path: str) -> int | None:
        """Return the number of a collection, or None if it never had a document."""
        number = self._collections.get(path)
        if number is None:
            number = connection.execute("SELECT id FROM collections WHERE path = ?", (path,)).get
            if number is not None and connection is not self.writer:  # which may roll back
                self._collections[path] = number
        return number

    def add_collection(self, path: str) -> int:
        """Return the number of a collection, which is added if it is new."""
        number = self.find_collection(self.writer, path)
        if number is None:
            statement = "INSERT INTO collections (path, name) VALUES (?, ?) RETURNING id"
            number = self.writer.execute(statement, (path, path.rpartition("/")[2])).get
        return int(number)

    # Indexes

    def _load_indexes(self, connection: apsw.Connection) -> _Indexes:
        indexes = self._indexes
        version = self.get_meta(connection, "indexes")
        if version != indexes.version:
            rows = connection.execute("SELECT id, definition, is_built FROM indexes")
            indexes = _Indexes(version, {}, {})
            for number, text, is_built in rows:
                stored = StoredIndex(number, Index.from_json(json.loads(text)), bool(is_built))
                indexes.by_definition[stored.index] = stored
                indexes.by_collection.setdefault(stored.index.collection, []).append(stored)
            self._indexes = indexes
        return indexes

    def find_index(self, connection: apsw.Connection, index: Index) -> StoredIndex | None:
        """Return an index if it is built."""
        stored = self._load_indexes(connection).by_definition.get(index)
        return stored if stored and stored.is_built else None

    def list_indexes(self, collection: str) -> list[StoredIndex]:
        """Return the indexes that a commit to a collection of this id writes."""
        by_collection = self._load_indexes(self.writer).by_collection
        return [*by_collection.get(collection, ()), *by_collection.get("", ())]

    def register_index(self, index: Index) -> None:
        """Add an index, if it is missing, whose entries commits write from now on."""
        if index not in self._load_indexes(self.writer).by_definition:
            statement = "INSERT INTO indexes (definition) VALUES (?)"
            self.writer.execute(statement, (json.dumps(index.to_json()),))
            self._bump_index_version()

    def list_unbuilt(self, index: Index) -> list[StoredIndex]:
        """Return all unbuilt indexes of an index's collection, or none if that index is built."""
        if self.find_index(self.writer, index):
            return []
        registered = self._load_indexes(self.writer).by_collection.get(index.collection, ())
        return [stored for stored in registered if not stored.is_built]

    def _add_eager_indexes(self) -> None:
        """Add indexes to an empty file, which need not be built."""
        rows = [(json.dumps(index.to_json()),) for index in self.definitions.eager]
        statement = "INSERT INTO indexes (definition, is_built) VALUES (?, TRUE)"
        self.writer.executemany(statement, sorted(rows))

    def build_indexes(self, indexes: Sequence[StoredIndex], after: Place) -> Place | None:
        """Write the entries of the next documents.

        Args:
            indexes: What `list_unbuilt` returned before the first step.
            after: The place of the last document of the step before, or `START`.

        Returns:
            The place of the last document, or None if all are done.
        """
        # Another process may have built some, or removed their definitions.
        current = self._load_indexes(self.writer).by_definition
        unbuilt = [stored for stored in indexes if current.get(stored.index) == stored]
        if not unbuilt:
            return None
        rows = self.read_batch(unbuilt[0].index.collection, after)
        revision = self.tick() if any(stored.index.vector for stored in unbuilt) else 0
        entries: set[Entry] = set()
        for row in rows:
            where = (unbuilt, row.path, row.collection, row.name)
            fields = DocumentProto.FromString(row.body).fields
            entries |= make_entries(*where, fields)
            self.write_vectors({}, make_vectors(*where, fields), revision)
        self.write_entries(set(), entries)
        if len(rows) == BATCH:
            return rows[-1].place
        for stored in unbuilt:
            self.writer.execute("UPDATE indexes SET is_built = TRUE WHERE id = ?", (stored.id,))
            _logger.info("Built the index %s.", json.dumps(stored.index.to_json()))
        self._bump_index_version()
        return None

    def read_batch(self, collection: str, after: Place) -> list[StoredDocument]:
        """Read the next documents of all collections of an id, or of any, after a place."""
        last_number, last_name = after
        numbers = self.writer.execute(
            "SELECT id, path FROM collections WHERE id >= ? AND ? IN ('', name) ORDER BY id",
            (last_number, collection),
        )
        documents: list[StoredDocument] = []
        for number, path in numbers:
            rows = self.writer.execute(
                "SELECT name, body FROM documents WHERE collection = ? AND name > ?"
                " ORDER BY name LIMIT ?",
                (number, last_name if number == last_number else b"", BATCH - len(documents)),
            )
            documents += [StoredDocument(path, number, name, body) for name, body in rows]
            if len(documents) == BATCH:
                break
        return documents

    def _drop_undefined(self) -> None:
        """Remove indexes that are not defined any more."""
        for index, stored in self._load_indexes(self.writer).by_definition.items():
            if not self.definitions.has(index):
                self.writer.execute("DELETE FROM entries WHERE ix = ?", (stored.id,))
                self.writer.execute("DELETE FROM vectors WHERE field = ?", (stored.id,))
                self.writer.execute("DELETE FROM indexes WHERE id = ?", (stored.id,))
        self.set_meta("definitions", self.definitions.fingerprint)
        self._bump_index_version()

    def _bump_index_version(self) -> None:
        self.set_meta("indexes", self.get_meta(self.writer, "indexes") + 1)

    # Entries

    def write_entries(self, old: set[Entry], new: set[Entry]) -> None:
        """Replace a document's old entries with its new ones."""
        self.writer.executemany(
            "DELETE FROM entries WHERE ix = ? AND scope = ? AND value = ? AND name = ?", old - new
        )
        self.writer.executemany(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", sorted(new - old)
        )

    def write_vectors(
        self, old: dict[VectorKey, list[float]], new: dict[VectorKey, list[float]], revision: int
    ) -> None:
        """Replace a document's old vectors with its new ones."""
        for space, key in old.keys() - new.keys():
            vectors.store(self.writer, space, key, revision, None)
        for (space, key), components in new.items():
            if old.get((space, key)) != components:
                vectors.store(self.writer, space, key, revision, components)
