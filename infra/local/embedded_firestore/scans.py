"""The reading of a query's documents from the ranges that the planner has chosen."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from infra.local.embedded_firestore.definitions import Kind
from infra.local.embedded_firestore.documents import get_value
from infra.local.embedded_firestore.planner import get_order_fields
from infra.local.embedded_firestore.protos import DocumentProto
from infra.local.embedded_firestore.queries import NAME
from infra.local.embedded_firestore.ranges import END, is_reverse
from infra.local.embedded_firestore.values import (
    decode_name,
    decode_path,
    encode,
    encode_path,
    invert,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import apsw

    from infra.local.embedded_firestore.definitions import Index
    from infra.local.embedded_firestore.planner import Scan
    from infra.local.embedded_firestore.queries import Filter, Query
    from infra.local.embedded_firestore.ranges import Range
    from infra.local.embedded_firestore.storage import Store


class IndexNotBuilt(Exception):
    """A query needs an index that is not built yet."""

    def __init__(self, index: Index) -> None:
        """Keep the index."""
        super().__init__(index)
        self.index = index


@dataclass(frozen=True, slots=True)
class Row:
    """A stored document.

    Attributes:
        name: Its name in its collection, or its whole key in the answer to a group's query.
        path: Its path.
        body: Its fields.
        created: When it was created, in microseconds.
        updated: When it was last changed, in microseconds.
    """

    name: bytes
    path: str
    created: int
    updated: int
    body: bytes


def read_document(store: Store, connection: apsw.Connection, path: str) -> Row | None:
    """Read the document at a path."""
    parent, _, document_id = path.rpartition("/")
    collection = store.find_collection(connection, parent)
    name = encode_path(document_id)
    row = connection.execute(
        "SELECT created, updated, body FROM documents WHERE collection = ? AND name = ?",
        (collection, name),
    ).get
    return Row(name, path, *row) if row else None


def read(
    store: Store, connection: apsw.Connection, query: Query, scans: Sequence[Scan]
) -> Iterator[Row]:
    """Yield the documents of a query in its order.

    Raises:
        IndexNotBuilt: An index has to be built first.
    """
    stop = None if query.limit is None else query.offset + query.limit
    is_merged = len(scans) > 1
    streams = [
        islice(_read_scan(store, connection, query, scan, with_place=is_merged), stop)
        for scan in scans
    ]
    if is_merged:
        merged = heapq.merge(*streams, key=lambda pair: pair[0], reverse=is_reverse(query))
        rows = _unique(row for _, row in merged)
    else:
        rows = (row for stream in streams for _, row in stream)
    return islice(rows, query.offset, stop)


def read_names(
    store: Store, connection: apsw.Connection, query: Query, scans: Sequence[Scan]
) -> set[bytes]:
    """Return the names of a query's documents, without reading them if possible.

    Raises:
        IndexNotBuilt: An index has to be built first.
    """
    names: set[bytes] = set()
    for scan in scans:
        if scan.residual or query.group:
            rows = _read_scan(store, connection, query, scan, with_place=False)
            names.update(row.name for _, row in rows)
        else:
            entries = (
                _read_entries(store, connection, query, entry_range) for entry_range in scan.ranges
            )
            names.update(name for _, name in set.intersection(*entries))
    return names


def count(
    store: Store,
    connection: apsw.Connection,
    query: Query,
    scans: Sequence[Scan],
    up_to: int | None,
) -> int:
    """Count the documents of a query, from the index alone where it can be.

    Raises:
        IndexNotBuilt: An index has to be built first.
    """
    limits = [limit for limit in (query.limit, up_to) if limit is not None]
    is_one_range = len(scans) == 1 and len(scans[0].ranges) == 1 and not scans[0].residual
    if not is_one_range or (query.group and query.parent):
        return min([sum(1 for _ in read(store, connection, query, scans)), *limits])
    source, arguments = _select(store, connection, query, scans[0].ranges[0])
    statement = f"SELECT count(*) FROM (SELECT 1 {source} LIMIT ? OFFSET ?)"  # noqa: S608
    limit = min(limits) if limits else -1
    return int(connection.execute(statement, (*arguments, limit, query.offset)).get)


def _unique(rows: Iterable[Row]) -> Iterator[Row]:
    last = None
    for row in rows:
        if row.path != last:
            yield row
        last = row.path


def _read_scan(
    store: Store, connection: apsw.Connection, query: Query, scan: Scan, *, with_place: bool
) -> Iterator[tuple[bytes, Row]]:
    """Yield documents, with their place in the order if other scans are merged."""
    base, *others = scan.ranges
    required = [_read_entries(store, connection, query, entry_range) for entry_range in others]
    size = len(base.prefix)
    for value, row in _read_range(store, connection, query, base):
        if not all((value[size:], row.name) in entries for entries in required):
            continue
        if query.group and query.parent and not row.path.startswith(query.parent + "/"):
            continue
        if scan.residual:
            fields = DocumentProto.FromString(row.body).fields
            if not all(_matches(condition, row, fields) for condition in scan.residual):
                continue
        place = b""
        if with_place:
            order = value[size:] if scan.is_ordered_by_suffix else _make_order(query, row)
            place = order + row.name
        yield place, row


def _make_order(query: Query, row: Row) -> bytes:
    """Return the values of a document's order, without its name."""
    fields = DocumentProto.FromString(row.body).fields
    parts = []
    for path, kind in get_order_fields(query):
        value = encode(get_value(fields, path))
        parts.append(invert(value) if kind is Kind.DESCENDING else value)
    return b"".join(parts)


def _matches(condition: Filter, row: Row, fields: Any) -> bool:
    if condition.path == NAME:
        return condition.matches_encoded(encode_path(row.path))
    value = get_value(fields, condition.path)
    return value is not None and condition.matches_encoded(encode(value))


def _read_entries(
    store: Store, connection: apsw.Connection, query: Query, entry_range: Range
) -> set[tuple[bytes, bytes]]:
    """Return what follows the prefix of a range's values, and the names."""
    source, arguments = _select(store, connection, query, entry_range)
    value = "x''" if entry_range.index is None else "value"
    rows = connection.execute(f"SELECT {value}, name {source}", arguments)
    size = len(entry_range.prefix)
    return {(value[size:], name) for value, name in rows}


def _select(
    store: Store, connection: apsw.Connection, query: Query, entry_range: Range
) -> tuple[str, list[Any]]:
    """Return the FROM and WHERE of a range, and their arguments."""
    scope = 0 if query.group else store.find_collection(connection, query.path)
    if entry_range.index is None:
        (_, low), (value, name) = entry_range.lower, entry_range.upper
        high = END if value else name
        return "FROM documents WHERE collection = ? AND name >= ? AND name < ?", [scope, low, high]
    stored = store.find_index(connection, entry_range.index)
    if stored is None:
        raise IndexNotBuilt(entry_range.index)
    condition = "ix = ? AND scope = ? AND (value, name) >= (?, ?) AND (value, name) < (?, ?)"
    return f"FROM entries WHERE {condition}", [
        stored.id,
        scope,
        *entry_range.lower,
        *entry_range.upper,
    ]


def _read_range(
    store: Store, connection: apsw.Connection, query: Query, entry_range: Range
) -> Iterator[tuple[bytes, Row]]:
    """Yield the values and documents of a range in the order of the query."""
    source, arguments = _select(store, connection, query, entry_range)
    direction = "DESC" if is_reverse(query) else "ASC"
    if query.group:
        order = f"ORDER BY value {direction}, name {direction}"
        statement = f"SELECT value, name {source} {order}"
        for value, key in connection.execute(statement, arguments):
            row = read_document(store, connection, decode_path(key))
            if row:
                yield value, Row(key, row.path, row.created, row.updated, row.body)
        return
    if entry_range.index is None:
        statement = f"SELECT x'', name, created, updated, body {source} ORDER BY name {direction}"
    else:
        statement = (
            "SELECT value, e.name, created, updated, body"  # noqa: S608
            f" FROM (SELECT scope, value, name {source}) AS e"
            " CROSS JOIN documents ON documents.collection = e.scope AND documents.name = e.name"
            f" ORDER BY value {direction}, e.name {direction}"
        )
    for value, name, *rest in connection.execute(statement, arguments):
        yield value, Row(name, f"{query.path}/{decode_name(name)}", *rest)
