"""The choice of indexes for a query, and the reading of their ranges."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import grpc

from infra.local.embedded_firestore import values
from infra.local.embedded_firestore.definitions import Definitions, Field, Index, Kind
from infra.local.embedded_firestore.documents import get_value
from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.queries import NAME
from infra.local.embedded_firestore.storage import parse_fields
from infra.local.embedded_firestore.values import encode, encode_path, invert, next_prefix, type_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import apsw

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.queries import Cursor, Filter, Order, Query
    from infra.local.embedded_firestore.storage import Store

END: Final = b"\xff"
"""Greater than any entry: no value begins with this byte, and no inverted one does."""


class IndexNotBuilt(Exception):  # noqa: N818 - it is a request
    """A query needs an index that has no entries yet."""

    def __init__(self, index: Index) -> None:
        """Keep the index."""
        super().__init__(index)
        self.index = index


@dataclass(frozen=True, slots=True)
class Row:
    """A document that a scan has read.

    Attributes:
        key: The document's key.
        path: The document's path.
        body: Its fields.
    """

    key: bytes
    path: str
    body: bytes
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Range:
    """A range of an index's entries, or of a collection's documents if there is no index.

    Attributes:
        index: The index.
        prefix: What all values begin with.
        lower: The least value, and the least name of this value or None.
        upper: What all values are less than; with a name, the last value and what its names are
            less than.
    """

    index: Index | None
    prefix: bytes
    lower: tuple[bytes, bytes | None]
    upper: tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Scan:
    """How a conjunction's documents are read.

    Attributes:
        ranges: Ranges of different indexes, which all must contain the document.
        residual: The filters that the ranges do not apply.
        has_suffix_order: Whether the values' suffix is the whole order.
    """

    ranges: tuple[Range, ...]
    residual: tuple[Filter, ...]
    has_suffix_order: bool


def is_reverse(query: Query) -> bool:
    """Return whether indexes are read backwards."""
    return query.orders[-1].descends


def normalize_orders(query: Query) -> tuple[Field, ...]:
    """Return the fields of the order, without the name, in the direction of ascending names."""
    return tuple(
        (order.path, Kind.ASCENDING if order.descends == is_reverse(query) else Kind.DESCENDING)
        for order in query.orders
        if order.path != NAME
    )


def plan(query: Query, definitions: Definitions) -> list[Scan]:
    """Choose the indexes of a query.

    Raises:
        FirestoreError: An index is not defined.
    """
    scans = []
    for conjunction in query.conjunctions:
        scan = _plan_conjunction(query, conjunction, definitions)
        if scan:
            scans.append(scan)
    return scans


def _plan_conjunction(
    query: Query, conjunction: tuple[Filter, ...], definitions: Definitions
) -> Scan | None:
    equalities: dict[Path, bytes] = {}
    contains: list[tuple[Path, bytes]] = []
    residual: list[Filter] = []
    for each in conjunction:
        if each.path == NAME:
            residual.append(each)
        elif each.operator == "EQUAL":
            if equalities.setdefault(each.path, each.operands[0]) != each.operands[0]:
                return None
        elif each.operator == "ARRAY_CONTAINS":
            contains.append((each.path, each.operands[0]))
        else:
            residual.append(each)
    orders = normalize_orders(query)
    suffix = tuple(field for field in orders if field[0] not in equalities)
    indexes = _choose(query, equalities, contains, suffix, definitions)
    ranges = []
    for index in indexes:
        prefix = b""
        if index:
            for path, kind in index.fields[: len(index.fields) - len(suffix)]:
                if kind is Kind.CONTAINS:
                    prefix += contains[0][1]
                else:
                    value = equalities[path]
                    prefix += invert(value) if kind is Kind.DESCENDING else value
        bounds = _bound(query, prefix, suffix, equalities, residual)
        if bounds is None:
            return None
        ranges.append(Range(index, prefix, *bounds))
    covered = {suffix[0][0]} if suffix else set()
    return Scan(
        tuple(ranges),
        tuple(
            each
            for each in residual
            if each.path not in covered or each.operator in {"NOT_EQUAL", "NOT_IN"}
        ),
        has_suffix_order=suffix == orders,
    )


def _choose(
    query: Query,
    equalities: dict[Path, bytes],
    contains: Sequence[tuple[Path, bytes]],
    suffix: tuple[Field, ...],
    definitions: Definitions,
) -> list[Index | None]:
    """Return indexes that together have all filters, each followed by the order."""
    filters = {*((path, False) for path in equalities), *((path, True) for path, _ in contains)}
    if not filters and not suffix:
        return [None]

    def make(fields: Iterable[Field]) -> Index:
        return Index(query.collection, query.group, tuple(fields))

    def read_filters(index: Index) -> set[tuple[Path, bool]]:
        count = len(index.fields) - len(suffix)
        return {(path, kind is Kind.CONTAINS) for path, kind in index.fields[:count]}

    candidates = [
        index
        for index in definitions.composite
        if index.collection == query.collection
        and index.group == query.group
        and len(index.fields) >= len(suffix)
        and index.fields[len(index.fields) - len(suffix) :] == suffix
        and len(read_filters(index)) == len(index.fields) - len(suffix)
        and read_filters(index) <= filters
    ]
    if not suffix:
        singles = [
            make([(path, Kind.CONTAINS if is_array else Kind.ASCENDING)])
            for path, is_array in filters
        ]
        candidates += [index for index in singles if definitions.has(index)]
    elif len(suffix) == 1:
        single = make(suffix)
        if definitions.has(single.normalized) and suffix[0][1] is Kind.ASCENDING:
            candidates.append(single)
    chosen: list[Index | None] = []
    missing = set(filters)
    candidates.sort(key=lambda index: (-len(index.fields), json.dumps(index.to_json())))
    for index in candidates:
        if not missing and (filters or chosen):
            break
        if read_filters(index) & missing or not filters:
            chosen.append(index)
            missing -= read_filters(index)
    if not missing and chosen:
        return chosen
    fields = [
        *((path, Kind.CONTAINS) for path, _ in contains),
        *((path, Kind.ASCENDING) for path in sorted(equalities)),
        *suffix,
    ]
    index = make(fields)
    if definitions.builds_missing:
        return [index]
    raise make_missing_index_error(_suggest(index, reverse=is_reverse(query)))


def _suggest(index: Index, *, reverse: bool) -> Index:
    if not reverse:
        return index
    return replace(index, fields=tuple((path, kind.flipped) for path, kind in index.fields))


def make_missing_index_error(index: Index) -> FirestoreError:
    """Return the error of a query whose index is not defined."""
    entry = json.dumps(index.to_json())
    return FirestoreError(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"The query requires an index. Add to the file of indexes: {entry}",
    )


def _bound(
    query: Query,
    prefix: bytes,
    suffix: tuple[Field, ...],
    equalities: dict[Path, bytes],
    filters: Sequence[Filter],
) -> tuple[tuple[bytes, bytes | None], tuple[bytes, bytes | None]] | None:
    """Return the bounds of a range, or None if it is empty."""
    lowers: list[tuple[bytes, bytes | None]] = [(prefix, None)]
    uppers: list[tuple[bytes, bytes | None]] = [(next_prefix(prefix) if prefix else END, None)]
    if suffix:
        path, kind = suffix[0]
        for each in filters:
            if each.path == path:
                _bound_filter(each, prefix, kind, lowers, uppers)
    for cursor, is_start in ((query.start, True), (query.end, False)):
        if cursor and not _bound_cursor(
            query, cursor, prefix, suffix, equalities, lowers, uppers, is_start=is_start
        ):
            return None
    lower = max(lowers, key=lambda bound: (bound[0], bound[1] or b""))
    upper = min(uppers, key=lambda bound: (bound[0], b"" if bound[1] is None else bound[1]))
    return lower, upper


def _bound_filter(
    each: Filter,
    prefix: bytes,
    kind: Kind,
    lowers: list[tuple[bytes, bytes | None]],
    uppers: list[tuple[bytes, bytes | None]],
) -> None:
    def limit(operator: str, encoded: bytes) -> None:
        descends = kind is Kind.DESCENDING
        point = prefix + (invert(encoded) if descends else encoded)
        is_lower = operator.startswith(">") != descends
        is_inclusive = operator.endswith("=")
        bound = point if is_inclusive == is_lower else next_prefix(point)
        (lowers if is_lower else uppers).append((bound, None))

    if each.operator in {"NOT_EQUAL", "NOT_IN"}:
        limit(">", values.NULL)
        return
    operand = each.operands[0]
    least, beyond = type_bounds(operand)
    limit(">=", least)
    limit("<", beyond)
    symbols = {
        "LESS_THAN": "<",
        "LESS_THAN_OR_EQUAL": "<=",
        "GREATER_THAN": ">",
        "GREATER_THAN_OR_EQUAL": ">=",
    }
    limit(symbols[each.operator], operand)


def _bound_cursor(
    query: Query,
    cursor: Cursor,
    prefix: bytes,
    suffix: tuple[Field, ...],
    equalities: dict[Path, bytes],
    lowers: list[tuple[bytes, bytes | None]],
    uppers: list[tuple[bytes, bytes | None]],
    *,
    is_start: bool,
) -> bool:
    """Add a cursor's bound, and return False if it leaves nothing."""
    point = prefix
    name: bytes | None = None
    kinds = dict(suffix)
    is_lower = is_start != is_reverse(query)
    for order, value in zip(query.orders, cursor.values, strict=False):
        if order.path == NAME:
            name = value
        elif order.path in equalities:
            constant = equalities[order.path]
            if constant != value:
                is_after = (constant > value) != order.descends
                return is_after == is_start
        else:
            point += invert(value) if kinds[order.path] is Kind.DESCENDING else value
    includes = cursor.before == is_start
    if name is not None:
        if query.group:
            bound = name
        else:
            bound, includes = _to_name(query, name, includes=includes)
        if is_lower == includes:
            (lowers if is_lower else uppers).append((point, bound))
        else:
            (lowers if is_lower else uppers).append((point, bound + b"\x00"))
        return True
    bound = point if includes == is_lower else next_prefix(point) if point else END
    if not point:
        return includes
    (lowers if is_lower else uppers).append((bound, None))
    return True


def _to_name(query: Query, key: bytes, *, includes: bool) -> tuple[bytes, bool]:
    """Return the name in a query's collection that a key compares like."""
    collection = get_collection_key(query)
    if not key.startswith(collection):
        return (b"" if key < collection else END), includes
    return key[len(collection) :], includes


def get_collection_path(query: Query) -> str:
    """Return the path of a query's collection."""
    return f"{query.parent}/{query.collection}" if query.parent else query.collection


def get_collection_key(query: Query) -> bytes:
    """Return what the keys of a collection's documents begin with."""
    return encode_path(get_collection_path(query))[:-1]


# Reading


def read(
    store: Store, connection: apsw.Connection, query: Query, scans: Sequence[Scan]
) -> Iterator[Row]:
    """Yield the documents of a query in its order.

    Raises:
        IndexNotBuilt: An index has no entries yet.
    """
    reverse = is_reverse(query)
    if len(scans) == 1:
        rows: Iterator[Row] = (row for _, row in _read_scan(store, connection, query, scans[0]))
    else:
        streams = [list(_read_scan(store, connection, query, scan, keyed=True)) for scan in scans]
        merged = heapq.merge(*streams, key=lambda pair: pair[0], reverse=reverse)
        rows = _unique(row for _, row in merged)
    stop = None if query.limit is None else query.offset + query.limit
    return islice(rows, query.offset, stop)


def count(
    store: Store,
    connection: apsw.Connection,
    query: Query,
    scans: Sequence[Scan],
    up_to: int | None,
) -> int:
    """Count the documents of a query, from the index alone where it can be."""
    limits = [each for each in (query.limit, up_to) if each is not None]
    if len(scans) == 1 and len(scans[0].ranges) == 1 and not scans[0].residual and not (
        query.group and (query.parent or scans[0].ranges[0].index is None)
    ):
        source, arguments = _select_range(store, connection, query, scans[0].ranges[0])
        if source is None:
            return 0
        limit = min(limits) if limits else -1
        offset = query.offset
        statement = f"SELECT count(*) FROM (SELECT 1 {source} LIMIT ? OFFSET ?)"  # noqa: S608
        return int(connection.execute(statement, (*arguments, limit, offset)).get)
    total = sum(1 for _ in read(store, connection, query, scans))
    return min([total, *limits])


def _unique(rows: Iterable[Row]) -> Iterator[Row]:
    last = None
    for row in rows:
        if row.key != last:
            yield row
        last = row.key


def _read_scan(
    store: Store, connection: apsw.Connection, query: Query, scan: Scan, *, keyed: bool = False
) -> Iterator[tuple[bytes, Row]]:
    """Yield documents with their place in the order, which is empty unless `keyed`."""
    base, *others = scan.ranges
    allowed = [_read_suffixes(store, connection, query, other) for other in others]
    size = len(base.prefix)
    for value, row in _read_range(store, connection, query, base):
        if allowed and not all((value[size:], row.key) in suffixes for suffixes in allowed):
            continue
        if query.group and query.parent and not row.path.startswith(query.parent + "/"):
            continue
        fields = None
        if scan.residual:
            fields = parse_fields(row.body)
            if not all(_matches(each, row, fields) for each in scan.residual):
                continue
        place = b""
        if keyed:
            if scan.has_suffix_order:
                place = value[size:] + row.key
            else:
                place = make_place(query, parse_fields(row.body)) + row.key
        yield place, row


def make_place(query: Query, fields: Any) -> bytes:
    """Return a document's place in the order, apart from its name."""
    parts = []
    for path, kind in normalize_orders(query):
        value = encode(get_value(fields, path))
        parts.append(invert(value) if kind is Kind.DESCENDING else value)
    return b"".join(parts)


def _matches(each: Filter, row: Row, fields: Any) -> bool:
    if each.path != NAME:
        return each.matches(fields)
    operand = each.operands[0]
    match each.operator:
        case "EQUAL":
            return row.key == operand
        case "NOT_EQUAL" | "NOT_IN":
            return row.key not in each.operands
        case "LESS_THAN":
            return row.key < operand
        case "LESS_THAN_OR_EQUAL":
            return row.key <= operand
        case "GREATER_THAN":
            return row.key > operand
    return row.key >= operand


def _read_suffixes(
    store: Store, connection: apsw.Connection, query: Query, each: Range
) -> set[tuple[bytes, bytes]]:
    source, arguments = _select_range(store, connection, query, each)
    if source is None:
        return set()
    size = len(each.prefix)
    collection = b"" if query.group else get_collection_key(query)
    rows = connection.execute(f"SELECT value, name {source}", arguments)  # noqa: S608
    return {(value[size:], collection + name) for value, name in rows}


def _select_range(
    store: Store, connection: apsw.Connection, query: Query, each: Range
) -> tuple[str | None, list[Any]]:
    """Return the FROM and WHERE of a range, or None if the collection has no documents."""
    scope = 0 if query.group else store.find_collection(connection, get_collection_path(query))
    if scope is None:
        return None, []
    (low, low_name), (high, high_name) = each.lower, each.upper
    if each.index is None:
        conditions, arguments = ["documents.collection = ?"], [scope]
        if low_name is not None:
            conditions.append("documents.name >= ?")
            arguments.append(low_name)
        if high_name is not None:
            conditions.append("documents.name < ?")
            arguments.append(high_name)
        return f"FROM documents WHERE {' AND '.join(conditions)}", arguments
    stored = store.load_indexes(connection).get(each.index)
    if stored is None:
        raise IndexNotBuilt(each.index)
    conditions = ["ix = ?", "scope = ?", "value >= ?"]
    arguments: list[Any] = [stored.id, scope, low]
    if low_name is not None:
        conditions.append("(value > ? OR entries.name >= ?)")
        arguments += [low, low_name]
    if high_name is None:
        conditions.append("value < ?")
        arguments.append(high)
    else:
        conditions.append("value <= ? AND (value < ? OR entries.name < ?)")
        arguments += [high, high, high_name]
    return f"FROM entries WHERE {' AND '.join(conditions)}", arguments


def _read_range(
    store: Store, connection: apsw.Connection, query: Query, each: Range
) -> Iterator[tuple[bytes, Row]]:
    direction = "DESC" if is_reverse(query) else "ASC"
    if query.group:
        yield from _read_group(store, connection, query, each, direction)
        return
    source, arguments = _select_range(store, connection, query, each)
    if source is None:
        return
    path = get_collection_path(query)
    key = get_collection_key(query)
    if each.index is None:
        statement = (
            f"SELECT x'', name, body, created, updated {source} ORDER BY name {direction}"  # noqa: S608
        )
    else:
        statement = (
            "SELECT value, entries.name, body, created, updated "  # noqa: S608
            + source.replace(
                "FROM entries",
                "FROM entries CROSS JOIN documents"
                " ON documents.collection = entries.scope AND documents.name = entries.name",
            )
            + f" ORDER BY value {direction}, entries.name {direction}"
        )
    for value, name, body, created, updated in connection.execute(statement, arguments):
        row = Row(key + name, f"{path}/{decode_name(name)}", body, created, updated)
        yield value, row


def decode_name(name: bytes) -> str:
    """Return the id that a name is of."""
    return name[1:-3].replace(b"\x00\xff", b"\x00").decode()


def decode_key(key: bytes) -> str:
    """Return the path that a key is of."""
    return "/".join(
        segment[1:].replace(b"\x00\xff", b"\x00").decode()
        for segment in key[:-1].split(b"\x00\x01")[:-1]
    )


def _read_group(
    store: Store, connection: apsw.Connection, query: Query, each: Range, direction: str
) -> Iterator[tuple[bytes, Row]]:
    if each.index is None:
        statement = (
            "SELECT collections.path, documents.name, body, created, updated FROM collections"
            " JOIN documents ON documents.collection = collections.id WHERE collections.name = ?"
        )
        rows = [
            Row(
                encode_path(path)[:-1] + name,
                f"{path}/{decode_name(name)}",
                body,
                created,
                updated,
            )
            for path, name, body, created, updated in connection.execute(
                statement, (query.collection,)
            )
        ]
        low, high = each.lower[1], each.upper[1]
        rows = [
            row
            for row in rows
            if (low is None or row.key >= low) and (high is None or row.key < high)
        ]
        rows.sort(key=lambda row: row.key, reverse=direction == "DESC")
        yield from ((b"", row) for row in rows)
        return
    source, arguments = _select_range(store, connection, query, each)
    statement = f"SELECT value, name {source} ORDER BY value {direction}, name {direction}"  # noqa: S608
    for value, key in connection.execute(statement, arguments).fetchall():
        row = read_row(store, connection, decode_key(key))
        if row:
            yield value, row


def read_row(store: Store, connection: apsw.Connection, path: str) -> Row | None:
    """Read the document at a path."""
    collection_path, _, document_id = path.rpartition("/")
    collection = store.find_collection(connection, collection_path)
    if collection is None:
        return None
    name = encode_path(document_id)
    found = connection.execute(
        "SELECT body, created, updated FROM documents WHERE collection = ? AND name = ?",
        (collection, name),
    ).fetchone()
    return Row(encode_path(path), path, *found) if found else None
