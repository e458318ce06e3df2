"""The SQLite file of a database: its tables, connections, clock and indexes.

A key is a document's path in bytes (`values.encode_path`), and a name the key of its last segment in
its collection. Documents are stored by collection and name, so that a collection is read in one go.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from infra.local.embedded_firestore import vectors
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.embedded_firestore.documents import get_value
from infra.local.embedded_firestore.errors import DatabaseFileError
from infra.local.embedded_firestore.values import encode, encode_path, get_vector, invert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT: Final = 1
"""The version of the tables, which `PRAGMA user_version` holds."""
LEAST_SQLITE: Final = (3, 51, 3)
"""Up to the version before, several writing processes can damage a file in WAL mode."""
BUSY_MILLISECONDS: Final = 8_000
"""A commit waits this long for those of other processes."""
_APPLICATION: Final = 0x46697265
"""`PRAGMA application_id`: this is one of our files."""
_SCHEMA: Final = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE collections (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL
);
CREATE INDEX collections_by_name ON collections (name);
CREATE TABLE documents (
    collection INTEGER NOT NULL,
    name BLOB NOT NULL,
    body BLOB NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    UNIQUE (collection, name)
);
CREATE TABLE indexes (id INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE);
CREATE TABLE entries (
    ix INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    value BLOB NOT NULL,
    name BLOB NOT NULL,
    PRIMARY KEY (ix, scope, value, name)
) WITHOUT ROWID;
INSERT INTO meta VALUES ('time', 0);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT};
{vectors.SCHEMA}
"""
"""The tables. `scope` is a collection, or 0 for all of an id; `name` is then the whole key."""


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index with its number in the file."""

    id: int
    index: Index

    @property
    def space(self) -> int:
        """The number of its vectors."""
        return self.id


class Store:
    """A database file, opened by this process.

    Attributes:
        path: The file.
        definitions: The indexes.
        reader: The connection of queries.
        writer: The connection of commits.
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
        self.path = path
        self.definitions = definitions
        self._durable = durable
        self._process = os.getpid()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.writer = self.connect()
            self._create()
            self.reader = self.connect()
        except (apsw.Error, OSError) as error:
            raise DatabaseFileError(_describe(path, error)) from error
        self.matrices = vectors.Matrices()
        self._collections: dict[str, int] = {}
        self._indexes: dict[Index, StoredIndex] = {}
        self._index_version: tuple[int, int | None] = (-1, None)

    def connect(self) -> apsw.Connection:
        """Open a connection, which belongs to one thread at a time."""
        version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
        if version < LEAST_SQLITE:
            raise DatabaseFileError(
                f"SQLite {apsw.sqlite_lib_version()} can damage a database that several processes "
                "write. Install a newer apsw."
            )
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        connection.execute("PRAGMA checkpoint_fullfsync = 1")
        if self._durable:
            connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA cache_size = -16000")
        return connection

    def close(self) -> None:
        """Close both connections."""
        if os.getpid() == self._process:
            self.reader.close()
            self.writer.close()

    def _create(self) -> None:
        version = self.writer.execute("PRAGMA user_version").get
        if version == 0:
            self.writer.execute("BEGIN IMMEDIATE")
            version = self.writer.execute("PRAGMA user_version").get
            if version == 0:
                self.writer.execute(_SCHEMA)
                version = FORMAT
            self.writer.execute("COMMIT")
        if version > FORMAT:
            raise DatabaseFileError(
                f"{self.path} was written by a newer version, in format {version}; this version "
                f"reads format {FORMAT}. Update, and start again."
            )

    # Collections

    def find_collection(self, connection: apsw.Connection, path: str) -> int | None:
        """Return the number of a collection, or None if it never had a document."""
        known = self._collections.get(path)
        if known is None:
            known = connection.execute("SELECT id FROM collections WHERE path = ?", (path,)).get
            if known is not None and not connection.in_transaction:
                self._collections[path] = known
        return known

    def add_collection(self, connection: apsw.Connection, path: str) -> int:
        """Return the number of a collection, which is added if it is new."""
        known = self.find_collection(connection, path)
        if known is not None:
            return known
        name = path.rpartition("/")[2]
        statement = "INSERT INTO collections (path, name) VALUES (?, ?) RETURNING id"
        return int(connection.execute(statement, (path, name)).get)

    # Indexes

    def load_indexes(self, connection: apsw.Connection) -> dict[Index, StoredIndex]:
        """Return the indexes that have entries, by definition."""
        version = connection.execute("SELECT count(*), max(id) FROM indexes").fetchone()
        if version != self._index_version:
            rows = connection.execute("SELECT id, definition FROM indexes")
            stored = [StoredIndex(number, Index.from_json(json.loads(text))) for number, text in rows]
            self._indexes = {each.index: each for each in stored}
            self._index_version = version
        return self._indexes

    def build_index(self, index: Index) -> StoredIndex:
        """Return an index, and write its entries if it is new."""
        known = self.load_indexes(self.writer).get(index)
        if known:
            return known
        text = json.dumps(index.to_json())
        statement = "INSERT INTO indexes (definition) VALUES (?) RETURNING id"
        stored = StoredIndex(int(self.writer.execute(statement, (text,)).get), index)
        revision = self.tick(self.writer)
        rows = self.writer.execute(
            "SELECT collections.path, collections.id, documents.name, body FROM collections"
            " JOIN documents ON documents.collection = collections.id"
            " WHERE collections.name = ?",
            (index.collection,),
        ).fetchall()
        for path, collection, name, body in rows:
            entries = make_entries(stored, path, collection, name, parse_fields(body))
            self.write_entries(set(), entries)
            self.write_vectors({}, make_vectors([stored], path, collection, name, body), revision)
        return stored

    def write_entries(self, old: set[Entry], new: set[Entry]) -> None:
        """Replace entries by others."""
        for entry in old - new:
            self.writer.execute(
                "DELETE FROM entries WHERE ix = ? AND scope = ? AND value = ? AND name = ?", entry
            )
        for entry in new - old:
            self.writer.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", entry)

    def write_vectors(
        self, old: dict[VectorKey, list[float]], new: dict[VectorKey, list[float]], revision: int
    ) -> None:
        """Replace vectors by others."""
        for space, key in old.keys() - new.keys():
            vectors.store(self.writer, space, key, revision, None)
        for (space, key), components in new.items():
            if old.get((space, key)) != components:
                vectors.store(self.writer, space, key, revision, components)

    # Time

    def tick(self, connection: apsw.Connection) -> int:
        """Return the time of a commit in microseconds, later than that of any other."""
        last = connection.execute("SELECT value FROM meta WHERE name = 'time'").get
        now = max(time.time_ns() // 1_000, last + 1)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'time'", (now,))
        return now


Entry = tuple[int, int, bytes, bytes]
VectorKey = tuple[vectors.Space, bytes]


def parse_fields(body: bytes) -> Any:
    """Return the fields of a stored document."""
    from infra.local.embedded_firestore.protos import DocumentProto

    return DocumentProto.FromString(body).fields


def make_name(document_id: str) -> bytes:
    """Return a document's name in its collection."""
    return encode_path(document_id)


def make_entries(
    stored: StoredIndex, path: str, collection: int, name: bytes, fields: Any
) -> set[Entry]:
    """Return a document's entries in an index."""
    index = stored.index
    if index.vector:
        return set()
    prefixes = [b""]
    for field_path, kind in index.fields:
        value = get_value(fields, field_path)
        if value is None:
            return set()
        match kind:
            case Kind.ASCENDING:
                parts = [encode(value)]
            case Kind.DESCENDING:
                parts = [invert(encode(value))]
            case Kind.CONTAINS:
                if value.WhichOneof("value_type") != "array_value":
                    return set()
                parts = list({encode(member) for member in value.array_value.values})
        prefixes = [prefix + part for prefix in prefixes for part in parts]
    scope, key = (0, encode_path(path)[:-1] + name) if index.group else (collection, name)
    return {(stored.id, scope, value, key) for value in prefixes}


def make_vectors(
    indexes: list[StoredIndex], path: str, collection: int, name: bytes, body: bytes
) -> dict[VectorKey, list[float]]:
    """Return a document's vectors in vector indexes."""
    found: dict[VectorKey, list[float]] = {}
    fields = None
    for stored in indexes:
        if not stored.index.vector:
            continue
        fields = parse_fields(body) if fields is None else fields
        value = get_value(fields, stored.index.vector)
        components = None if value is None else get_vector(value)
        if components is not None and len(components) == stored.index.dimension:
            is_group = stored.index.group
            scope = b"" if is_group else b"%d" % collection
            key = encode_path(path)[:-1] + name if is_group else name
            found[vectors.Space(stored.id, scope), key] = components
    return found


def _describe(path: Path, error: Exception) -> str:
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return f"{path} is damaged: it is no database. Restore a copy, or move it away."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | PermissionError():
            return f"{path} cannot be written: {error}. Check its permissions and its folder's."
        case apsw.FullError():
            return f"The disk of {path} is full. Free some space, and try again."
    return f"{path} cannot be opened: {error}."
