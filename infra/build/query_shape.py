"""The shape of a query: its filters, order and aggregates without values.

The shape determines which indexes a query needs. It is derived from the request that the query
sends, so it exists for every query. Its filters are in disjunctive normal form: a query returns the
documents that match all filters of at least one disjunct.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from google.cloud.firestore_v1.types import StructuredAggregationQuery, StructuredQuery

NAME: Final = "__name__"
"""The pseudo field that contains a document's path."""
DEFAULT_DATABASE: Final = "(default)"
"""The name of a project's default database."""


class QueryScope(StrEnum):
    """The documents that a query or an index covers: one collection or a collection group."""

    COLLECTION = "COLLECTION"
    COLLECTION_GROUP = "COLLECTION_GROUP"


class Direction(StrEnum):
    """The direction in which a field is sorted."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class Comparison(StrEnum):
    """The kind of a filter's operator. Operators that need the same index share a kind."""

    EQUAL = "="
    IN = "in"
    CONTAINS = "contains"
    CONTAINS_ANY = "contains any of"
    RANGE = "range"


class Filter(NamedTuple):
    """A field and its comparison, without the value."""

    path: str
    comparison: Comparison


class SortOrder(NamedTuple):
    """A field of a sort order."""

    path: str
    direction: Direction


class VectorStage(NamedTuple):
    """A nearest-neighbour stage: the vector field, and the dimension of the query vector."""

    path: str
    dimension: int


class Aggregate(NamedTuple):
    """An aggregate function (`count`, `sum` or `avg`), and its field, which is None for `count`."""

    function: str
    path: str | None


Disjunct = frozenset[Filter]
"""A set of filters that must all match."""


@dataclass(frozen=True)
class QueryShape:
    """The properties of a query that determine its indexes.

    Attributes:
        collection: The collection's id. Subcollections with the same id share their indexes.
        scope: One collection, or all collections with this id.
        disjuncts: The filters in disjunctive normal form. A query without filters has one empty
            disjunct.
        orders: The explicit sort order.
        nearest: The vector stage, if any.
        aggregates: The aggregates, if any.
        database: The name of the database.
    """

    collection: str
    scope: QueryScope = QueryScope.COLLECTION
    disjuncts: frozenset[Disjunct] = frozenset({frozenset()})
    orders: tuple[SortOrder, ...] = ()
    nearest: VectorStage | None = None
    aggregates: frozenset[Aggregate] = frozenset()
    database: str = DEFAULT_DATABASE

    @classmethod
    def from_request(cls, request: dict[str, Any]) -> QueryShape:
        """Return the shape of a request that google-cloud-firestore has built."""
        database = request["parent"].split("/")[3]  # projects/P/databases/D/documents...
        if "structured_aggregation_query" in request:
            return cls.from_aggregation(request["structured_aggregation_query"], database)
        return cls.from_query(request["structured_query"], database)

    @classmethod
    def from_query(cls, query: StructuredQuery, database: str = DEFAULT_DATABASE) -> QueryShape:
        """Return the shape of a `RunQuery` request's query."""
        source = query.from_[0]
        return cls(
            collection=source.collection_id,
            scope=QueryScope.COLLECTION_GROUP if source.all_descendants else QueryScope.COLLECTION,
            disjuncts=_to_disjuncts(query.where) if "where" in query else frozenset({frozenset()}),
            orders=tuple(
                SortOrder(order.field.field_path, Direction[order.direction.name])
                for order in query.order_by
            ),
            nearest=_to_vector_stage(query.find_nearest) if "find_nearest" in query else None,
            database=database,
        )

    @classmethod
    def from_aggregation(
        cls, query: StructuredAggregationQuery, database: str = DEFAULT_DATABASE
    ) -> QueryShape:
        """Return the shape of a `RunAggregationQuery` request's query."""
        aggregates = frozenset(_to_aggregate(aggregation) for aggregation in query.aggregations)
        inner = cls.from_query(query.structured_query, database)
        return replace(inner, nearest=None, aggregates=aggregates)

    @classmethod
    def from_json(cls, line: str) -> QueryShape:
        """Parse a shape from the output of `to_json`."""
        return _JSON.validate_json(line)

    def to_json(self) -> str:
        """Return the shape as one line of JSON."""
        return _JSON.dump_json(self).decode()

    def __str__(self) -> str:
        """Describe the shape in one line."""
        filters = " or ".join(sorted(map(_describe, self.disjuncts)))
        parts = [
            self.collection + (" (group)" if self.scope is QueryScope.COLLECTION_GROUP else ""),
            f"where {filters}" if filters else "",
            "order by " + ", ".join(" ".join(order) for order in self.orders)
            if self.orders
            else "",
            f"nearest by {self.nearest.path}" if self.nearest else "",
            *sorted(f"{function}({path or '*'})" for function, path in self.aggregates),
        ]
        return " ".join(part for part in parts if part)


_JSON: Final = TypeAdapter(QueryShape)

_COMPARISONS: Final = {
    "EQUAL": Comparison.EQUAL,
    "IN": Comparison.IN,
    "ARRAY_CONTAINS": Comparison.CONTAINS,
    "ARRAY_CONTAINS_ANY": Comparison.CONTAINS_ANY,
    "IS_NULL": Comparison.EQUAL,
    "IS_NAN": Comparison.EQUAL,
}
"""The comparisons by operator. All other operators scan a range: <, <=, >, >=, !=, not-in, IS NOT
NULL, IS NOT NAN."""


def _to_disjuncts(condition: StructuredQuery.Filter) -> frozenset[Disjunct]:
    """Convert a condition to disjunctive normal form."""
    if "composite_filter" not in condition:
        leaf = condition.unary_filter if "unary_filter" in condition else condition.field_filter
        comparison = _COMPARISONS.get(leaf.op.name, Comparison.RANGE)
        return frozenset({frozenset({Filter(leaf.field.field_path, comparison)})})
    parts = [_to_disjuncts(part) for part in condition.composite_filter.filters]
    if condition.composite_filter.op.name == "OR":
        return frozenset().union(*parts)
    # (a or b) and (c or d) is (a and c) or (a and d) or (b and c) or (b and d).
    return frozenset(frozenset().union(*choice) for choice in product(*parts))


def _to_vector_stage(stage: StructuredQuery.FindNearest) -> VectorStage:
    vector = stage.query_vector.map_value.fields["value"].array_value.values
    return VectorStage(stage.vector_field.field_path, len(vector))


def _to_aggregate(aggregation: StructuredAggregationQuery.Aggregation) -> Aggregate:
    if "sum" in aggregation:
        return Aggregate("sum", aggregation.sum.field.field_path)
    if "avg" in aggregation:
        return Aggregate("avg", aggregation.avg.field.field_path)
    return Aggregate("count", None)


def _describe(disjunct: Disjunct) -> str:
    return " and ".join(f"{path} {comparison}" for path, comparison in sorted(disjunct))
