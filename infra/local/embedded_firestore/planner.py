"""The choice of indexes for a query, as Firestore makes it.

A conjunction of filters is answered from one index whose first fields are those of the equality and
array filters and whose others are the order, or from several such indexes that share the order and
together have all filters: a document then must be in the range of each. So is

    where("a", "==", 1).where("b", "==", 2).order_by("c")

answered from an index of `a, b, c`, or from two of `a, c` and `b, c`. An inequality's field is
always the order's first, so that the range of an index is contiguous.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc

from infra.local.embedded_firestore.definitions import Definitions, Field, Index, Kind
from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.queries import NAME
from infra.local.embedded_firestore.values import (
    NULL,
    encode_path,
    invert,
    next_prefix,
    type_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.queries import Cursor, Filter, Query

Bound = tuple[bytes, bytes]
"""A position between entries: a value, and a name within equal values."""

END: Final = b"\xff"
"""Greater than any value or name: none begins with this byte, inverted or not."""
_COMPARISONS: Final = {
    "LESS_THAN": "<",
    "LESS_THAN_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_THAN_OR_EQUAL": ">=",
}


@dataclass(frozen=True, slots=True)
class Range:
    """A range of an index's entries, or of a collection's documents if there is no index.

    Attributes:
        index: The index.
        prefix: What all values begin with: the operands of the equality and array filters.
        lower: The first position, inclusive.
        upper: The last position, exclusive.
    """

    index: Index | None
    prefix: bytes
    lower: Bound
    upper: Bound


@dataclass(frozen=True, slots=True)
class Scan:
    """How a conjunction's documents are read.

    Attributes:
        ranges: Ranges of different indexes, which all must contain a document.
        residual: The filters that the ranges do not apply.
        is_ordered_by_suffix: Whether what follows the prefix in a value is the whole order.
    """

    ranges: tuple[Range, ...]
    residual: tuple[Filter, ...]
    is_ordered_by_suffix: bool


def is_reverse(query: Query) -> bool:
    """Return whether indexes are read backwards."""
    return query.orders[-1].descends


def get_order_fields(query: Query) -> tuple[Field, ...]:
    """Return the fields of the order, without the name, in the direction of ascending names."""
    return tuple(
        (order.path, Kind.ASCENDING if order.descends == is_reverse(query) else Kind.DESCENDING)
        for order in query.orders
        if order.path != NAME
    )


def plan(query: Query, definitions: Definitions) -> list[Scan]:
    """Choose the indexes of a query.

    Raises:
        FirestoreError: An index is not defined. The message has its definition.
    """
    scans = (
        _plan_conjunction(query, conjunction, definitions) for conjunction in query.conjunctions
    )
    return [scan for scan in scans if scan]


def _plan_conjunction(
    query: Query, conjunction: Sequence[Filter], definitions: Definitions
) -> Scan | None:
    """Return a scan, or None if the filters contradict each other."""
    equalities: dict[Path, bytes] = {}
    contains: dict[Path, bytes] = {}
    others: list[Filter] = []
    is_empty = False
    for condition in conjunction:
        if condition.path != NAME and condition.operator == "EQUAL":
            is_empty |= (
                equalities.setdefault(condition.path, condition.operands[0])
                != condition.operands[0]
            )
        elif condition.operator == "ARRAY_CONTAINS":
            contains[condition.path] = condition.operands[0]
        else:
            others.append(condition)
    orders = get_order_fields(query)
    suffix = tuple(field for field in orders if field[0] not in equalities)
    indexes = _choose(query, equalities.keys(), contains.keys(), suffix, definitions)
    if is_empty:
        return None
    ranges = []
    for index in indexes:
        head = index.fields[: len(index.fields) - len(suffix)] if index else ()
        prefix = b"".join(
            contains[path] if kind is Kind.CONTAINS else _turn(equalities[path], kind)
            for path, kind in head
        )
        bounds = _Bounds(query, prefix, suffix, equalities)
        for condition in others:
            bounds.add_filter(condition)
        for cursor, is_start in ((query.start, True), (query.end, False)):
            if cursor:
                bounds.add_cursor(cursor, is_start=is_start)
        lower, upper = max(bounds.lowers), min(bounds.uppers)
        if bounds.is_empty or lower >= upper:
            return None
        ranges.append(Range(index, prefix, lower, upper))
    first = suffix[0][0] if suffix else NAME
    residual = (
        condition
        for condition in others
        if condition.path != first or condition.operator in {"NOT_EQUAL", "NOT_IN"}
    )
    return Scan(tuple(ranges), tuple(residual), is_ordered_by_suffix=suffix == orders)


def _choose(
    query: Query,
    equalities: Iterable[Path],
    contains: Iterable[Path],
    suffix: tuple[Field, ...],
    definitions: Definitions,
) -> list[Index | None]:
    """Return indexes that together have all filters, each followed by the order."""
    filters = {*((path, False) for path in equalities), *((path, True) for path in contains)}
    if not filters and not suffix:
        return [_choose_names(query, definitions)]

    def make_index(fields: Iterable[Field]) -> Index:
        return Index(query.collection, query.group, tuple(fields))

    def get_filters(index: Index) -> set[tuple[Path, bool]]:
        head = index.fields[: len(index.fields) - len(suffix)]
        return {(path, kind is Kind.CONTAINS) for path, kind in head}

    candidates = [
        index
        for index in definitions.composite.get((query.collection, query.group), ())
        if index.fields[max(0, len(index.fields) - len(suffix)) :] == suffix
        and get_filters(index) <= filters
    ]
    if not suffix:
        candidates += [
            make_index([(path, Kind.CONTAINS if is_array else Kind.ASCENDING)])
            for path, is_array in filters
        ]
    if len(suffix) <= 1:
        candidates.append(make_index(suffix))
    candidates = [index for index in dict.fromkeys(candidates) if definitions.has(index)]
    candidates.sort(key=lambda index: (-len(index.fields), repr(index)))
    chosen: list[Index | None] = []
    missing = set(filters)
    for index in candidates:
        if get_filters(index) & missing or not filters:
            chosen.append(index)
            missing -= get_filters(index)
            if not missing:
                return chosen
    index = make_index(
        [
            *((path, Kind.CONTAINS) for path in sorted(contains)),
            *((path, Kind.ASCENDING) for path in sorted(equalities)),
            *suffix,
        ]
    )
    if definitions.has(index):
        return [index]
    raise make_missing_index_error(index, reverse=is_reverse(query))


def _choose_names(query: Query, definitions: Definitions) -> Index | None:
    """Return the index of a query without filters and an order, or None for the documents."""
    descending = Index(query.collection, query.group, ((NAME, Kind.DESCENDING),))
    if is_reverse(query) and not definitions.has(descending):
        raise make_missing_index_error(descending)
    return Index(query.collection, query.group, ()) if query.group else None


def make_missing_index_error(index: Index, *, reverse: bool = False) -> FirestoreError:
    """Return the error of a query whose index is not defined."""
    return FirestoreError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "The query requires an index. Add it to the definitions of indexes: "
        + json.dumps(index.to_json(reverse=reverse)),
    )


def _turn(encoded: bytes, kind: Kind) -> bytes:
    return invert(encoded) if kind is Kind.DESCENDING else encoded


class _Bounds:
    """The bounds of a range in the making, in the index's own direction."""

    def __init__(
        self,
        query: Query,
        prefix: bytes,
        suffix: tuple[Field, ...],
        equalities: dict[Path, bytes],
    ) -> None:
        self.query = query
        self.prefix = prefix
        self.suffix = suffix
        self.equalities = equalities
        self.lowers: list[Bound] = [(prefix, b"")]
        self.uppers: list[Bound] = [(_get_end(prefix), b"")]
        self.is_empty = False
        if query.group and query.parent and not suffix:
            parent = encode_path(query.parent)[:-1]
            self._add(prefix, parent, is_lower=True)
            self._add(prefix, next_prefix(parent), is_lower=False)

    def add_filter(self, condition: Filter) -> None:
        """Add the bounds of a filter on the first field of the order."""
        if not self.suffix:
            if condition.path == NAME:
                self._add_name_filter(condition)
            return
        path, kind = self.suffix[0]
        if condition.path != path:
            return
        if condition.operator in {"NOT_EQUAL", "NOT_IN"}:
            self._limit(kind, ">", NULL)
            return
        operand = condition.operands[0]
        least, beyond = type_bounds(operand)
        self._limit(kind, ">=", least)
        self._limit(kind, "<", beyond)
        self._limit(kind, _COMPARISONS[condition.operator], operand)

    def _limit(self, kind: Kind, symbol: str, encoded: bytes) -> None:
        descends = kind is Kind.DESCENDING
        point = self.prefix + _turn(encoded, kind)
        is_lower = (symbol[0] == ">") != descends
        is_inclusive = symbol.endswith("=")
        self._add(point if is_inclusive == is_lower else _get_end(point), b"", is_lower=is_lower)

    def _add_name_filter(self, condition: Filter) -> None:
        match condition.operator:
            case "EQUAL":
                symbols = [">=", "<="]
            case "NOT_EQUAL" | "NOT_IN":
                return
            case _:
                symbols = [_COMPARISONS[condition.operator]]
        for symbol in symbols:
            is_lower = symbol[0] == ">"
            self._add_name(
                self.prefix, condition.operands[0], is_lower=is_lower, includes=symbol.endswith("=")
            )

    def add_cursor(self, cursor: Cursor, *, is_start: bool) -> None:
        """Add the bound of a cursor."""
        point = self.prefix
        kinds = dict(self.suffix)
        is_lower = is_start != is_reverse(self.query)
        includes = cursor.before == is_start
        for order, value in zip(self.query.orders, cursor.values, strict=False):
            if order.path == NAME:
                self._add_name(point, value, is_lower=is_lower, includes=includes)
                return
            if order.path in self.equalities:
                constant = self.equalities[order.path]
                if constant != value:
                    is_after = (constant > value) != order.descends
                    self.is_empty |= is_after != is_start
                    return
            else:
                point += _turn(value, kinds[order.path])
        if point == self.prefix:  # all documents are at the cursor
            self.is_empty |= not includes
        else:
            self._add(point if includes == is_lower else _get_end(point), b"", is_lower=is_lower)

    def _add_name(self, point: bytes, key: bytes, *, is_lower: bool, includes: bool) -> None:
        """Add the bound of a document within the entries of a value."""
        name = key
        if not self.query.group:
            collection = encode_path(self.query.path)[:-1]
            if key.startswith(collection):
                name = key[len(collection) :]
            else:
                name = b"" if key < collection else END
        self._add(point, name if is_lower == includes else name + b"\x00", is_lower=is_lower)

    def _add(self, point: bytes, name: bytes, *, is_lower: bool) -> None:
        (self.lowers if is_lower else self.uppers).append((point, name))


def _get_end(point: bytes) -> bytes:
    """Return the least value beyond those that begin with another."""
    return next_prefix(point) if point else END
