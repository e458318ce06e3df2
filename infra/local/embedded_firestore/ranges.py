"""The range of an index's entries that the filters and cursors of a query leave.

An entry's value begins with a prefix, the operands of the equality and array filters, and continues
with the order of the query. So an inequality, which is always on the first field of the order,
bounds a contiguous range, and so does a cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from infra.local.embedded_firestore.definitions import Kind
from infra.local.embedded_firestore.queries import NAME
from infra.local.embedded_firestore.values import (
    NULL,
    encode_path,
    invert,
    next_prefix,
    type_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.local.embedded_firestore.definitions import Field, Index
    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.queries import Cursor, Filter, Query

END: Final = b"\xff"
"""Greater than any value or name: none begins with this byte, inverted or not."""


class Bound(NamedTuple):
    """A position between entries: a value, and a name within equal values."""

    value: bytes
    name: bytes


@dataclass(frozen=True, slots=True)
class Range:
    """A range of an index's entries, or of a collection's documents if there is no index.

    Attributes:
        index: The index.
        prefix: What all values begin with.
        lower: The first position of the range.
        upper: The first position beyond it.
    """

    index: Index | None
    prefix: bytes
    lower: Bound
    upper: Bound


class _Comparison(NamedTuple):
    """An operator: whether it bounds values from below, and whether the bound is included."""

    is_lower: bool
    is_inclusive: bool


_AT_LEAST: Final = _Comparison(is_lower=True, is_inclusive=True)
_AT_MOST: Final = _Comparison(is_lower=False, is_inclusive=True)
_ABOVE: Final = _Comparison(is_lower=True, is_inclusive=False)
_BELOW: Final = _Comparison(is_lower=False, is_inclusive=False)
_COMPARISONS: Final = {
    "LESS_THAN": _BELOW,
    "LESS_THAN_OR_EQUAL": _AT_MOST,
    "GREATER_THAN": _ABOVE,
    "GREATER_THAN_OR_EQUAL": _AT_LEAST,
}


def is_reverse(query: Query) -> bool:
    """Return whether indexes are read backwards."""
    return query.orders[-1].descends


def encode_direction(encoded: bytes, kind: Kind) -> bytes:
    """Return an encoded value as an index of this kind orders it."""
    return invert(encoded) if kind is Kind.DESCENDING else encoded


def make_range(  # noqa: PLR0913 - an index, and what a query says of its parts
    query: Query,
    index: Index | None,
    prefix: bytes,
    *,
    suffix: tuple[Field, ...],
    equalities: Mapping[Path, bytes],
    others: Iterable[Filter],
) -> Range | None:
    """Return the range of an index that filters and cursors leave, or None if it is empty.

    Args:
        query: The query.
        index: The index, or None for the collection's documents.
        prefix: What the values begin with.
        suffix: The fields of the order that follow in the index.
        equalities: The operands of the equality filters.
        others: The other filters. Those on a later field of the order bound no range.
    """
    bounds = _Bounds(query, prefix, suffix, equalities)
    for condition in others:
        bounds.add_filter(condition)
    if query.start:
        bounds.add_cursor(query.start, is_start=True)
    if query.end:
        bounds.add_cursor(query.end, is_start=False)
    lower, upper = max(bounds.lowers), min(bounds.uppers)
    return None if bounds.is_empty or lower >= upper else Range(index, prefix, lower, upper)


class _Bounds:
    """The bounds of a range in the making, in the index's own direction."""

    def __init__(
        self,
        query: Query,
        prefix: bytes,
        suffix: tuple[Field, ...],
        equalities: Mapping[Path, bytes],
    ) -> None:
        self.query = query
        self.prefix = prefix
        self.suffix = suffix
        self.equalities = equalities
        self.lowers = [Bound(prefix, b"")]
        self.uppers = [Bound(_get_end(prefix), b"")]
        self.is_empty = False
        if query.group and query.parent and not suffix:  # only names below the parent
            parent = _encode_ancestor(query.parent)
            self.lowers.append(Bound(prefix, parent))
            self.uppers.append(Bound(prefix, next_prefix(parent)))

    def add_filter(self, condition: Filter) -> None:
        """Add the bounds of a filter, if it is on the first field of the order."""
        first, kind = self.suffix[0] if self.suffix else (NAME, Kind.ASCENDING)
        if condition.path != first:
            return
        if condition.operator in {"NOT_EQUAL", "NOT_IN"}:
            if first != NAME:
                self._add_value(kind, NULL, _ABOVE)
            return
        [operand] = condition.operands
        if first == NAME:
            if condition.operator == "EQUAL":
                self._add_name(self.prefix, operand, _AT_LEAST)
                self._add_name(self.prefix, operand, _AT_MOST)
            else:
                self._add_name(self.prefix, operand, _COMPARISONS[condition.operator])
        else:  # an inequality matches values of its operand's type only
            first_of_type, next_type = type_bounds(operand)
            self._add_value(kind, first_of_type, _AT_LEAST)
            self._add_value(kind, next_type, _BELOW)
            self._add_value(kind, operand, _COMPARISONS[condition.operator])

    def add_cursor(self, cursor: Cursor, *, is_start: bool) -> None:
        """Add the bound of a cursor.

        A start before its document includes it, an end before its document does not.
        """
        value = self.prefix
        kinds = dict(self.suffix)
        comparison = _Comparison(
            is_lower=is_start != is_reverse(self.query), is_inclusive=cursor.before == is_start
        )
        for order, part in zip(self.query.orders, cursor.values, strict=False):
            if order.path == NAME:
                self._add_name(value, part, comparison)
                return
            if order.path not in self.equalities:
                value += encode_direction(part, kinds[order.path])
            elif self.equalities[order.path] != part:  # all documents are on one side of the cursor
                documents_are_after = (self.equalities[order.path] > part) != order.descends
                self.is_empty |= documents_are_after != is_start
                return
        if value == self.prefix:  # all documents are at the cursor
            self.is_empty |= not comparison.is_inclusive
        else:
            self._add_values(value, comparison)

    def _add_value(self, kind: Kind, encoded: bytes, comparison: _Comparison) -> None:
        """Add the bound of a value of the first field."""
        if kind is Kind.DESCENDING:
            comparison = comparison._replace(is_lower=not comparison.is_lower)
        self._add_values(self.prefix + encode_direction(encoded, kind), comparison)

    def _add_values(self, beginning: bytes, comparison: _Comparison) -> None:
        """Add the bound of all values with a beginning."""
        value = beginning if _is_before(comparison) else _get_end(beginning)
        self._add(Bound(value, b""), comparison)

    def _add_name(self, value: bytes, key: bytes, comparison: _Comparison) -> None:
        """Add the bound of a document within the entries of a value."""
        name = key
        if not self.query.group:
            collection = _encode_ancestor(self.query.path)
            if key.startswith(collection):
                name = key[len(collection) :]
            else:  # all of the collection is on one side of the document
                name = b"" if key < collection else END
        self._add(Bound(value, name if _is_before(comparison) else name + b"\x00"), comparison)

    def _add(self, bound: Bound, comparison: _Comparison) -> None:
        (self.lowers if comparison.is_lower else self.uppers).append(bound)


def _is_before(comparison: _Comparison) -> bool:
    """Return whether a bound lies just before its operand (`>=`, `<`), not after it (`>`, `<=`)."""
    return comparison.is_lower == comparison.is_inclusive


def _encode_ancestor(path: str) -> bytes:
    """Return what the keys of all documents below a path begin with: its own without the end."""
    return encode_path(path)[:-1]


def _get_end(beginning: bytes) -> bytes:
    """Return the least value beyond those with a beginning."""
    return next_prefix(beginning) if beginning else END
