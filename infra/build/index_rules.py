"""Which indexes a Firestore query needs (native mode, Standard edition).

The emulator answers every query; production answers FAILED_PRECONDITION where an index is missing.
The rules are those of the Firebase documentation, mostly its page "Index types in Cloud Firestore";
where it is ambiguous, the stricter reading applies: at worst, it requires an index too many.

- Each disjunct of a query is a scan of its own, in the sort order of the whole query.
- A scan needs an index of: the fields compared for equality, in any order and direction, with at
  most one array field among them; then the sort order, field by field in its directions; then
  what is added up ("Index properties"). A descending order needs an index of its own: indexes
  aren't read backwards ("Queries supported by manual indexes").
- Indexes of equality fields that end in the same sort order can be merged ("Use index merging").
  The documentation promises that for equality clauses "and, optionally, an `orderBy` clause", so
  not where ranges, sums or, with an order, disjunctions are involved.
- A nearest-neighbour query needs one index of exactly its prefilter, the vector last ("Search with
  vector embeddings", "Create and manage vector indexes").
- A collection group needs indexes of its own scope, single fields too, unless it is read whole
  ("Queries supported by collection group indexes").
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
    from infra.build.query_shape import Disjunct, QueryScope, QueryShape

_BY_NAME: Final = (IndexField(NAME),)
_ARRAYS: Final = (Comparison.CONTAINS, Comparison.CONTAINS_ANY)
_DISJUNCTIVE: Final = {Comparison.IN, Comparison.CONTAINS_ANY}


@dataclass(frozen=True)
class Scan:
    """What one disjunct of a query requires of indexes.

    Attributes:
        collection: The collection's id.
        scope: One collection, or a collection group.
        filters: The fields that an index must begin with, in any order; equalities are ascending.
        suffix: The fields that it must end with: the sort order with `__name__`, or the vector.
        mergeable: Whether several indexes with that suffix can be merged to cover the filters.
    """

    collection: str
    scope: QueryScope
    filters: frozenset[IndexField]
    suffix: tuple[IndexField, ...]
    mergeable: bool

    def covered(self, index: Index) -> frozenset[IndexField] | None:
        """Return the filters that an index covers, or None if the scan cannot use the index."""
        if (index.collection, index.scope) != (self.collection, self.scope):
            return None
        cut = len(index.complete) - len(self.suffix)
        if cut < 0 or index.complete[cut:] != self.suffix:
            return None
        prefix = frozenset(map(_any_direction, index.complete[:cut]))
        return prefix if prefix <= self.filters else None


def scans(shape: QueryShape, dimension: int) -> frozenset[Scan]:
    """Return the scans of a query, one for each disjunct.

    Args:
        shape: The query.
        dimension: The dimension of vector indexes. That of the query's vector is ignored, since the
            emulator may contain vectors of another model.
    """
    return frozenset(_scan(shape, disjunct, dimension) for disjunct in shape.disjuncts)


def required_indexes(scan: Scan, file: IndexFile) -> frozenset[Index]:
    """Return the missing indexes without which the scan cannot run."""
    if serving_indexes(scan, file) is not None:
        return frozenset()
    if scan.suffix != _BY_NAME:
        fields = (*sorted(scan.filters), *scan.suffix)
        return frozenset({Index.of(scan.collection, scan.scope, fields)})
    covered = frozenset[IndexField]().union(*_candidates(scan, file).values())
    return frozenset(
        Index(scan.collection, scan.scope, (field,)) for field in scan.filters - covered
    )


def serving_indexes(scan: Scan, file: IndexFile) -> frozenset[Index] | None:
    """Return the declared or automatic indexes that the scan uses, or None if it cannot run.

    One index that covers every filter is preferred to a merge.
    """
    if not scan.filters and scan.suffix == _BY_NAME:
        return frozenset()
    candidates = _candidates(scan, file)
    whole = [index for index, covered in candidates.items() if covered == scan.filters]
    if whole:
        return frozenset({min(whole)})
    return _merge(scan.filters, candidates) if scan.filters and scan.mergeable else None


def _scan(shape: QueryShape, disjunct: Disjunct, dimension: int) -> Scan:
    constant = _constant_paths(shape)
    order = [
        IndexField(path, IndexMode(direction))
        for path, direction in _sort_order(shape)
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
    return Scan(shape.collection, shape.scope, filters, suffix, _mergeable(shape, suffix))


def _sort_order(shape: QueryShape) -> list[SortOrder]:
    """Return the explicit order, then the one that ranges and sums imply, then `__name__`.

    Implied fields follow in lexicographical order, in the direction of the last explicit one
    (`StructuredQuery.order_by`, Firestore API reference); `FindNearest` supersedes the order.
    That summed fields follow in that way too is how the index definitions of Firebase's own
    integration tests have it.
    """
    explicit = () if shape.nearest else shape.orders
    direction = explicit[-1].direction if explicit else Direction.ASCENDING
    explicit_paths = {order.path for order in explicit}
    ranges = {path for path, comparison in _filters(shape) if comparison is Comparison.RANGE}
    ranges -= explicit_paths | {NAME}
    sums = {path for _, path in shape.aggregates if path is not None} - explicit_paths - ranges
    implied = (*sorted(ranges), *sorted(sums), NAME)
    orders = [*explicit, *(SortOrder(path, direction) for path in implied)]
    return orders[: [order.path for order in orders].index(NAME) + 1]


def _constant_paths(shape: QueryShape) -> set[str]:
    """Fields that are equal in every result, so that sorting by them has no effect."""
    if len(shape.disjuncts) > 1:
        return set()
    equal = {path for path, comparison in _filters(shape) if comparison is Comparison.EQUAL}
    return equal - {NAME}


def _mergeable(shape: QueryShape, suffix: tuple[IndexField, ...]) -> bool:
    if suffix == _BY_NAME:
        return True
    comparisons = {comparison for _, comparison in _filters(shape)}
    sums = any(path for _, path in shape.aggregates)
    only_equal = not comparisons & {Comparison.RANGE, *_DISJUNCTIVE}
    return only_equal and len(shape.disjuncts) == 1 and not sums and shape.nearest is None


def _filters(shape: QueryShape) -> Disjunct:
    return frozenset(chain.from_iterable(shape.disjuncts))


def _any_direction(field: IndexField) -> IndexField:
    return field._replace(mode=IndexMode.ASCENDING) if field.mode is IndexMode.DESCENDING else field


def _candidates(scan: Scan, file: IndexFile) -> dict[Index, frozenset[IndexField]]:
    fields = scan.filters or scan.suffix[:1]
    singles = [Index(scan.collection, scan.scope, (field,)) for field in fields]
    existing = {
        i for i in singles if i in file.single_field_indexes(i.collection, i.fields[0].path)
    }
    covered = {index: scan.covered(index) for index in file.composites | existing}
    return {index: filters for index, filters in covered.items() if filters is not None}


def _merge(
    filters: frozenset[IndexField], candidates: Mapping[Index, frozenset[IndexField]]
) -> frozenset[Index] | None:
    """Indexes that cover all filters together, chosen greedily."""
    chosen: set[Index] = set()
    rest = filters
    while rest:
        best = max(
            sorted(candidates), key=lambda index: len(candidates[index] & rest), default=None
        )
        if best is None or not candidates[best] & rest:
            return None
        chosen.add(best)
        rest -= candidates[best]
    return frozenset(chosen)
