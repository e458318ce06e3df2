"""Determines the indexes that a Firestore query needs (native mode, Standard edition).

The emulator answers every query, but production fails with FAILED_PRECONDITION if an index is
missing. The rules come from the Firebase documentation, mostly from its page "Index types in Cloud
Firestore". Where the page is ambiguous, the stricter reading applies, which at worst requires an
unnecessary index.

- A query is a disjunction. Each disjunct is a set of filters that must all match, and needs a
  separate scan of an index, in the sort order of the whole query.
- The index of a scan has three parts ("Index properties"):
  1. the fields that the query compares for equality, in any order and direction, at most one of
     them an array;
  2. the fields of the sort order, in its directions;
  3. the fields of sums and averages.
- Firestore does not read indexes backwards. The descending order therefore needs an index of its
  own ("Queries supported by manual indexes").
- Indexes of equality fields that end in the same sort order can be merged ("Use index merging").
  The documentation promises merges for equality clauses "and, optionally, an `orderBy` clause". So
  this module merges none for ranges, for sums, or for disjunctions with an order.
- A nearest-neighbour query needs one index that contains exactly the fields of its prefilter and
  then the vector ("Search with vector embeddings", "Create and manage vector indexes").
- A collection group needs indexes of its own scope, even for single fields, unless a query reads
  the whole group ("Queries supported by collection group indexes").
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from infra.build.index_file import Index, IndexField, IndexMode
from infra.build.query_shape import NAME, Comparison, Direction, SortOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.build.index_file import IndexFile
    from infra.build.query_shape import Disjunct, Filter, QueryScope, QueryShape

_DEFAULT_ORDER: Final = (IndexField(NAME),)
"""Firestore sorts by document name where a query has no other order."""
_ARRAYS: Final = (Comparison.CONTAINS, Comparison.CONTAINS_ANY)
"""The comparisons of array fields."""
_DISJUNCTIVE: Final = {Comparison.IN, Comparison.CONTAINS_ANY}
"""The comparisons that Firestore splits into disjuncts by value."""


@dataclass(frozen=True)
class Scan:
    """The index requirements of one disjunct of a query.

    Attributes:
        collection: The id of the collection.
        scope: One collection, or a collection group.
        filters: The fields that an index must begin with, in any order. Fields compared for
            equality are listed as ascending, because their direction does not matter.
        suffix: The fields that an index must end with: the sort order with `__name__`, or the
            vector.
        mergeable: Whether several indexes with the suffix can be merged to cover the filters.
    """

    collection: str
    scope: QueryScope
    filters: frozenset[IndexField]
    suffix: tuple[IndexField, ...]
    mergeable: bool

    def find_covered_filters(self, index: Index) -> frozenset[IndexField] | None:
        """Return the filters that an index covers, or None if the scan cannot use the index."""
        if (index.collection, index.scope) != (self.collection, self.scope):
            return None
        prefix_length = len(index.complete) - len(self.suffix)
        if prefix_length < 0 or index.complete[prefix_length:] != self.suffix:
            return None
        prefix = frozenset(map(_ignore_direction, index.complete[:prefix_length]))
        return prefix if prefix <= self.filters else None


def build_scans(shape: QueryShape, dimension: int) -> frozenset[Scan]:
    """Build the scans of a query, one for each disjunct.

    Args:
        shape: The query.
        dimension: The dimension of vector indexes. The dimension of the query's own vector is
            ignored, because the emulator may contain vectors of another model.
    """
    return frozenset(_build_scan(shape, disjunct, dimension) for disjunct in shape.disjuncts)


def find_missing_indexes(scan: Scan, file: IndexFile) -> frozenset[Index]:
    """Return the undeclared indexes that the scan needs; an empty set if it can run."""
    if find_serving_indexes(scan, file) is not None:
        return frozenset()
    if scan.suffix != _DEFAULT_ORDER:
        # A sort order or a vector needs one composite index. Without them, an index for each filter
        # is enough, because Firestore merges them.
        fields = (*sorted(scan.filters), *scan.suffix)
        return frozenset({Index.of(scan.collection, scan.scope, fields)})
    covered = frozenset[IndexField]().union(*_find_candidates(scan, file).values())
    return frozenset(
        Index(scan.collection, scan.scope, (field,)) for field in scan.filters - covered
    )


def find_serving_indexes(scan: Scan, file: IndexFile) -> frozenset[Index] | None:
    """Return the declared or automatic indexes that the scan uses, or None if it cannot run.

    The set is empty if the scan needs no index but that of document names. One index that covers
    every filter is preferred to a merge.
    """
    if not scan.filters and scan.suffix == _DEFAULT_ORDER:
        return frozenset()
    candidates = _find_candidates(scan, file)
    sufficient = [index for index, covered in candidates.items() if covered == scan.filters]
    if sufficient:
        return frozenset({min(sufficient)})
    return _merge(scan.filters, candidates) if scan.filters and scan.mergeable else None


def _build_scan(shape: QueryShape, disjunct: Disjunct, dimension: int) -> Scan:
    """Divide the fields of one disjunct into filters and suffix.

    A field of a range or of the sort order is part of the suffix and not a filter, unless it is an
    array: an array index has no order.
    """
    constant = _find_constant_paths(shape)
    order = [
        IndexField(path, IndexMode(direction))
        for path, direction in _derive_sort_order(shape)
        if path not in constant
    ]
    in_order = {field.path for field in order}
    filters = frozenset(
        IndexField(path, IndexMode.CONTAINS if comparison in _ARRAYS else IndexMode.ASCENDING)
        for path, comparison in disjunct
        if comparison in _ARRAYS or (comparison is not Comparison.RANGE and path not in in_order)
    )
    if shape.nearest:
        vector = IndexField(shape.nearest.path, IndexMode.VECTOR, dimension)
        suffix = (*(field for field in order if field.path != NAME), vector)
    else:
        suffix = tuple(order)
    return Scan(shape.collection, shape.scope, filters, suffix, _is_mergeable(shape, suffix))


def _derive_sort_order(shape: QueryShape) -> list[SortOrder]:
    """Return the explicit order, then the fields that ranges and sums imply, then `__name__`.

    Implied fields are in alphabetical order, and have the direction of the last explicit field
    (`StructuredQuery.order_by`, Firestore API reference). Firebase's own integration tests declare
    indexes by the same rule for summed fields. Nearest-neighbour queries ignore the explicit order.
    """
    explicit = () if shape.nearest else shape.orders
    direction = explicit[-1].direction if explicit else Direction.ASCENDING
    explicit_paths = {order.path for order in explicit}
    ranges = {
        path for path, comparison in _collect_filters(shape) if comparison is Comparison.RANGE
    }
    ranges -= explicit_paths | {NAME}
    summed = {path for _, path in shape.aggregates if path is not None} - explicit_paths - ranges
    implied = (*sorted(ranges), *sorted(summed), NAME)
    orders = [*explicit, *(SortOrder(path, direction) for path in implied)]
    # Names are unique, so nothing after `__name__` changes the order.
    name_position = [order.path for order in orders].index(NAME)
    return orders[: name_position + 1]


def _find_constant_paths(shape: QueryShape) -> set[str]:
    """Return the fields that are equal in every result, so that sorting by them has no effect."""
    if len(shape.disjuncts) > 1:
        return set()  # another disjunct may leave the field free
    equal = {path for path, comparison in _collect_filters(shape) if comparison is Comparison.EQUAL}
    return equal - {NAME}


def _is_mergeable(shape: QueryShape, suffix: tuple[IndexField, ...]) -> bool:
    if suffix == _DEFAULT_ORDER:
        return True
    comparisons = {comparison for _, comparison in _collect_filters(shape)}
    has_sum = any(path for _, path in shape.aggregates)
    is_conjunction = len(shape.disjuncts) == 1 and not comparisons & _DISJUNCTIVE
    has_range = Comparison.RANGE in comparisons
    return is_conjunction and not has_range and not has_sum and shape.nearest is None


def _collect_filters(shape: QueryShape) -> frozenset[Filter]:
    return frozenset(chain.from_iterable(shape.disjuncts))


def _ignore_direction(field: IndexField) -> IndexField:
    return field._replace(mode=IndexMode.ASCENDING) if field.mode is IndexMode.DESCENDING else field


def _find_candidates(scan: Scan, file: IndexFile) -> dict[Index, frozenset[IndexField]]:
    fields = scan.filters or scan.suffix[:1]
    singles = [Index(scan.collection, scan.scope, (field,)) for field in fields]
    existing = {
        index
        for index in singles
        if index in file.list_single_field_indexes(index.collection, index.fields[0].path)
    }
    covered = {index: scan.find_covered_filters(index) for index in file.composites | existing}
    return {index: filters for index, filters in covered.items() if filters is not None}


def _merge(
    filters: frozenset[IndexField], candidates: Mapping[Index, frozenset[IndexField]]
) -> frozenset[Index] | None:
    """Greedily select indexes that together cover all filters, or return None."""
    selection: set[Index] = set()
    uncovered = filters
    while uncovered:
        best = max(
            sorted(candidates), key=lambda index: len(candidates[index] & uncovered), default=None
        )
        if best is None or not candidates[best] & uncovered:
            return None
        selection.add(best)
        uncovered -= candidates[best]
    return frozenset(selection)
