"""The choice of indexes for a query, as Firestore makes it.

An index serves a conjunction if its fields begin with those of equality and array filters, and end
with the order. One index may have all these filters. If none does, several that share the order and
together have all the filters are read, and a document must be in the range of each. So an index of
`a, b, c` serves this query, and so do two of `a, c` and `b, c`:

    where("a", "==", 1).where("b", "==", 2).order_by("c")
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from infra.local.embedded_firestore.definitions import Definitions, Field, Index, Kind
from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.queries import NAME
from infra.local.embedded_firestore.ranges import encode_direction, is_reverse, make_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.queries import Filter, Query
    from infra.local.embedded_firestore.ranges import Range


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


@dataclass(slots=True)
class _Filters:
    """The filters of a conjunction, by how an index applies them.

    Attributes:
        equalities: The operands of equality filters, by field.
        contains: The operands of array filters, by field.
        others: The filters that bound a range, and those that no index applies.
        contradict: Whether two equality filters of a field have different operands.
    """

    equalities: dict[Path, bytes] = field(default_factory=dict)
    contains: dict[Path, bytes] = field(default_factory=dict)
    others: list[Filter] = field(default_factory=list)
    contradict: bool = False


def get_order_fields(query: Query) -> tuple[Field, ...]:
    """Return the fields of the order, without the name, in the direction of ascending names."""
    return tuple(
        (order.path, Kind.ASCENDING if order.descends == is_reverse(query) else Kind.DESCENDING)
        for order in query.orders
        if order.path != NAME
    )


def plan(query: Query, definitions: Definitions) -> list[Scan]:
    """Choose the indexes of a query.

    Returns:
        A scan for each conjunction that a document can match.

    Raises:
        FirestoreError: An index is not defined. The message contains the definition to add.
    """
    scans = (
        _plan_conjunction(query, conjunction, definitions) for conjunction in query.conjunctions
    )
    return [scan for scan in scans if scan]


def _plan_conjunction(
    query: Query, conjunction: Sequence[Filter], definitions: Definitions
) -> Scan | None:
    """Return a scan, or None if no document can match."""
    filters = _classify(conjunction)
    orders = get_order_fields(query)
    suffix = tuple(
        (path, direction) for path, direction in orders if path not in filters.equalities
    )
    # The choice comes first: a query that can match nothing needs its index, too.
    indexes = _choose(query, filters, suffix, definitions)
    if filters.contradict:
        return None
    ranges = []
    for index in indexes:
        prefix = b"".join(
            filters.contains[path]
            if kind is Kind.CONTAINS
            else encode_direction(filters.equalities[path], kind)
            for path, kind in (_get_head(index, suffix) if index else ())
        )
        entry_range = make_range(
            query,
            index,
            prefix,
            suffix=suffix,
            equalities=filters.equalities,
            others=filters.others,
        )
        if entry_range is None:
            return None
        ranges.append(entry_range)
    bounded = suffix[0][0] if suffix else NAME
    residual = (
        condition
        for condition in filters.others
        if condition.path != bounded or condition.operator in {"NOT_EQUAL", "NOT_IN"}
    )
    return Scan(tuple(ranges), tuple(residual), is_ordered_by_suffix=suffix == orders)


def _classify(conjunction: Sequence[Filter]) -> _Filters:
    filters = _Filters()
    for condition in conjunction:
        if condition.path != NAME and condition.operator == "EQUAL":
            [operand] = condition.operands
            if filters.equalities.setdefault(condition.path, operand) != operand:
                filters.contradict = True
        elif condition.operator == "ARRAY_CONTAINS":
            [operand] = condition.operands
            filters.contains[condition.path] = operand
        else:
            filters.others.append(condition)
    return filters


def _get_head(index: Index, suffix: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields of an index before those of the order."""
    return index.fields[: len(index.fields) - len(suffix)]


def _choose(
    query: Query, filters: _Filters, suffix: tuple[Field, ...], definitions: Definitions
) -> list[Index | None]:
    """Return indexes that together have all filters, each followed by the order.

    Raises:
        FirestoreError: There are none. The message contains the definition of one with all.
    """
    filter_fields = {
        *((path, Kind.ASCENDING) for path in filters.equalities),
        *((path, Kind.CONTAINS) for path in filters.contains),
    }
    if not filter_fields and not suffix:
        return [_choose_names(query, definitions)]
    if not filter_fields:
        return [_require(query, suffix, definitions)]
    missing = set(filter_fields)
    chosen: list[Index | None] = []
    for index in _list_candidates(query, filter_fields, suffix, definitions):
        if _get_filter_fields(index, suffix) & missing:
            chosen.append(index)
            missing -= _get_filter_fields(index, suffix)
    if not missing:
        return chosen
    ordered = sorted(filter_fields, key=lambda item: (item[1] is not Kind.CONTAINS, item[0]))
    return [_require(query, (*ordered, *suffix), definitions)]


def _list_candidates(
    query: Query, filter_fields: set[Field], suffix: tuple[Field, ...], definitions: Definitions
) -> list[Index]:
    """Return the defined indexes of some of the filters with the order, those of most fields first.

    So few are read, if not always the fewest.
    """
    descends = is_reverse(query)
    candidates = [
        index
        for index in definitions.composite.get((query.collection, query.group, descends), ())
        if index.fields[max(0, len(index.fields) - len(suffix)) :] == suffix
        and _get_filter_fields(index, suffix) <= filter_fields
    ]
    if not suffix:  # then automatic indexes serve
        candidates += [Index(query.collection, query.group, (item,)) for item in filter_fields]
    defined = {index for index in candidates if definitions.has(index, descends=descends)}
    return sorted(defined, key=lambda index: (-len(index.fields), repr(index)))


def _get_filter_fields(index: Index, suffix: Sequence[Field]) -> set[Field]:
    """Return the fields before the order. For an equality, either direction serves."""
    return {
        (path, kind if kind is Kind.CONTAINS else Kind.ASCENDING)
        for path, kind in _get_head(index, suffix)
    }


def _require(query: Query, fields: Iterable[Field], definitions: Definitions) -> Index:
    index = Index(query.collection, query.group, tuple(fields))
    if definitions.has(index, descends=is_reverse(query)):
        return index
    raise make_missing_index_error(index, reverse=is_reverse(query))


def _choose_names(query: Query, definitions: Definitions) -> Index | None:
    """Return the index of a query with neither filters nor an order, or None for the documents."""
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
