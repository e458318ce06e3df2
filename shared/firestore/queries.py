"""The queries that `Database.find` and `Database.count` run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from shared.firestore.documents import Document
from shared.firestore.protos import StructuredQuery
from shared.firestore.values import Vector, encode_into

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME: Final = "__name__"
"""The path of the document's address in filters, orders and cursors. Its value is a `Reference`."""

_OPERATORS: Final = {
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    "==": "EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "in": "IN",
    "array_contains": "ARRAY_CONTAINS",
    "array_contains_any": "ARRAY_CONTAINS_ANY",
}
_AND: Final = 1
_IS_NULL: Final = 3
_ASCENDING: Final = 1
_DESCENDING: Final = 2
_COSINE: Final = 2


@dataclass(frozen=True, slots=True)
class _Nearest:
    field: str
    vector: Sequence[float]
    limit: int
    distance_field: str | None
    max_distance: float | None


@dataclass(frozen=True, slots=True)
class Query:
    """An immutable query. Methods such as `where` return a changed copy.

    Attributes:
        collection: The path of the collection, or only its id if `in_group`.
        in_group: Whether all collections with that id are searched, below any document.
    """

    collection: str
    in_group: bool = False
    _filters: tuple[tuple[str, str, Any], ...] = ()
    _orders: tuple[tuple[str, bool], ...] = ()
    _fields: tuple[str, ...] | None = None
    _limit: int | None = None
    _start_after: Mapping[str, Any] | None = None
    _end_at: Mapping[str, Any] | None = None
    _nearest: _Nearest | None = None

    @property
    def collection_id(self) -> str:
        """The last name in the collection's path."""
        return self.collection.rpartition("/")[2]

    @property
    def operation(self) -> str:
        """What the query is called in traces."""
        return "find_nearest" if self._nearest else "query"

    def where(self, path: str, operator: str, value: Any) -> Self:
        """Require a field to match.

        Args:
            path: The path of the field.
            operator: One of < <= == > >= in array_contains array_contains_any.
            value: The value to compare with. None is supported by == only.
        """
        return replace(self, _filters=(*self._filters, (path, operator, value)))

    def order_by(self, path: str, *, descending: bool = False) -> Self:
        """Sort by a field, among equals of those before. Documents without it are left out."""
        return replace(self, _orders=(*self._orders, (path, descending)))

    def select(self, paths: Sequence[str]) -> Self:
        """Read these fields only. Without any, only addresses and times are read."""
        return replace(self, _fields=tuple(paths) or (NAME,))

    def limit(self, count: int) -> Self:
        """Return at most this many documents."""
        return replace(self, _limit=count)

    def start_after(self, last: Document | Mapping[str, Any]) -> Self:
        """Begin after a document, or after these values of the fields that the query sorts by.

        After a document, equals are also sorted by name, in the direction of the last field.
        """
        if not isinstance(last, Document):
            return replace(self, _start_after=last)
        descending = self._orders[-1][1] if self._orders else False
        query = self
        if NAME not in dict(self._orders):
            query = self.order_by(NAME, descending=descending)
        cursor = {path: last.get(path) for path, _ in self._orders if path != NAME}
        return replace(query, _start_after=cursor | {NAME: last.reference})

    def end_at(self, last: Mapping[str, Any]) -> Self:
        """End with these values of the fields that the query sorts by."""
        return replace(self, _end_at=last)

    def find_nearest(
        self,
        path: str,
        vector: Sequence[float],
        limit: int,
        *,
        distance_field: str | None = None,
        max_distance: float | None = None,
    ) -> Self:
        """Return the documents whose vectors are nearest, nearest first, by cosine distance.

        Args:
            path: The path of the vectors.
            vector: What to be near to.
            limit: The greatest number of documents, at most 1,000.
            distance_field: The name of a field to add with the distance, 0 to 2.
            max_distance: The greatest distance of a document.
        """
        nearest = _Nearest(path, vector, limit, distance_field, max_distance)
        return replace(self, _nearest=nearest)

    def encode(self, root: str) -> tuple[str, Any]:
        """Return the name of the document above the collection, and the query's protobuf.

        Args:
            root: The name of the database's root, `projects/.../documents`.
        """
        above = self.collection.rpartition("/")[0]
        proto = StructuredQuery()
        proto.from_.add(collection_id=self.collection_id, all_descendants=self.in_group)
        if self._fields is not None:
            for path in self._fields:
                proto.select.fields.add(field_path=path)
        self._encode_filters(proto, root)
        for path, descending in self._orders:
            direction = _DESCENDING if descending else _ASCENDING
            proto.order_by.add(direction=direction).field.field_path = path
        if self._start_after is not None:
            self._encode_cursor(proto.start_at, self._start_after, root)
        if self._end_at is not None:
            self._encode_cursor(proto.end_at, self._end_at, root)
        if self._limit is not None:
            proto.limit.value = self._limit
        if self._nearest:
            _encode_nearest(proto.find_nearest, self._nearest, root)
        return f"{root}/{above}" if above else root, proto

    def _encode_filters(self, proto: Any, root: str) -> None:
        if len(self._filters) > 1:
            proto.where.composite_filter.op = _AND
        for path, operator, value in self._filters:
            single = proto.where
            if len(self._filters) > 1:
                single = proto.where.composite_filter.filters.add()
            if value is None and operator == "==":
                single.unary_filter.field.field_path = path
                single.unary_filter.op = _IS_NULL
            else:
                single.field_filter.field.field_path = path
                single.field_filter.op = single.field_filter.Operator.Value(_OPERATORS[operator])
                encode_into(single.field_filter.value, value, root)

    def _encode_cursor(self, target: Any, values: Mapping[str, Any], root: str) -> None:
        """Encode the values of the first fields that the query sorts by.

        `before` stays false: a query starts after these values, and ends with them.
        """
        for path, _ in self._orders[: len(values)]:
            encode_into(target.values.add(), values[path], root)


def _encode_nearest(target: Any, nearest: _Nearest, root: str) -> None:
    target.vector_field.field_path = nearest.field
    encode_into(target.query_vector, Vector(nearest.vector), root)
    target.distance_measure = _COSINE
    target.limit.value = nearest.limit
    if nearest.distance_field:
        target.distance_result_field = nearest.distance_field
    if nearest.max_distance is not None:
        target.distance_threshold.value = nearest.max_distance
