"""Structured queries: their meaning, as conjunctions of filters and an order.

A filter becomes at most 30 conjunctions; `in` and `array-contains-any` are several by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from infra.local.embedded_firestore import values
from infra.local.embedded_firestore.documents import Path, parse_path
from infra.local.embedded_firestore.errors import invalid_argument
from infra.local.embedded_firestore.limits import check_vector
from infra.local.embedded_firestore.protos import StructuredQuery
from infra.local.embedded_firestore.values import encode, type_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME: Final[Path] = ("__name__",)
MAX_DISJUNCTIONS: Final = 30
MAX_NOT_IN: Final = 10

_OPERATORS: Final = {number: name for name, number in StructuredQuery.FieldFilter.Operator.items()}
_UNARY: Final = {number: name for name, number in StructuredQuery.UnaryFilter.Operator.items()}
_DESCENDING: Final = StructuredQuery.DESCENDING
_OR: Final = StructuredQuery.CompositeFilter.OR


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a field.

    Attributes:
        path: The field.
        operator: `EQUAL`, `ARRAY_CONTAINS`, a comparison, `NOT_EQUAL` or `NOT_IN`.
        operands: The encoded values: any number for `NOT_EQUAL` and `NOT_IN`, else one.
    """

    path: Path
    operator: str
    operands: tuple[bytes, ...]

    @property
    def is_inequality(self) -> bool:
        """Whether this is an inequality, whose field joins the order."""
        return self.operator not in {"EQUAL", "ARRAY_CONTAINS"}

    @property
    def is_never_met(self) -> bool:
        """Whether no value can match: nothing orders against null or NaN, or is unequal to null.

        `NOT_IN` with null among other values matches nothing either, but still orders the query.
        """
        if not self.is_inequality:
            return False
        operands = set(self.operands)
        if self.operator in {"NOT_EQUAL", "NOT_IN"}:
            return operands == {values.NULL}
        return operands in ({values.NULL}, {values.NAN})

    def matches_encoded(self, encoded: bytes) -> bool:  # noqa: PLR0911 - one for each operator
        """Return whether a value meets the condition."""
        if self.operator in {"NOT_EQUAL", "NOT_IN"}:
            unequal = values.NULL not in self.operands and encoded not in self.operands
            return unequal and encoded != values.NULL
        [operand] = self.operands
        if self.operator == "EQUAL":
            return encoded == operand
        least, beyond = type_bounds(operand)
        if not least <= encoded < beyond:
            return False
        match self.operator:
            case "LESS_THAN":
                return encoded < operand
            case "LESS_THAN_OR_EQUAL":
                return encoded <= operand
            case "GREATER_THAN":
                return encoded > operand
        return encoded >= operand


@dataclass(frozen=True, slots=True)
class Order:
    """A field of the order."""

    path: Path
    descends: bool


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the order: encoded values of its first fields."""

    values: tuple[bytes, ...]
    before: bool


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A vector search."""

    path: Path
    vector: list[float]
    measure: int
    limit: int
    threshold: float | None
    distance_field: Path | None


@dataclass(slots=True)
class Query:
    """A query.

    Attributes:
        parent: The path of the collection's parent, or empty.
        collection: The id of the collection.
        group: Whether all collections of this id below the parent are meant.
        conjunctions: Filters of which one conjunction must match.
        orders: The whole order, with the name last.
        select: The paths to return, or None for all; empty for the name only.
    """

    parent: str
    collection: str
    group: bool
    conjunctions: list[tuple[Filter, ...]]
    orders: tuple[Order, ...]
    start: Cursor | None = None
    end: Cursor | None = None
    offset: int = 0
    limit: int | None = None
    select: tuple[Path, ...] | None = None
    nearest: NearestQuery | None = None

    @property
    def path(self) -> str:
        """The path of the collection."""
        return f"{self.parent}/{self.collection}" if self.parent else self.collection


def read_query(root: str, parent: str, proto: Any, required: Sequence[Path] = ()) -> Query:
    """Read a protobuf `StructuredQuery`, and check it.

    Args:
        root: The name of the database's root, which the names of documents begin with.
        parent: The path of the collection's parent, or empty.
        proto: The query.
        required: Further fields that documents must have, because they are added up. Like those of
            inequalities, they join the order.

    Raises:
        FirestoreError: Production refuses the query.
    """
    if len(proto.from_) != 1:
        raise invalid_argument("A query has exactly one collection.")
    [selector] = proto.from_
    if not (selector.collection_id or selector.all_descendants):
        raise invalid_argument("A query names a collection, or has all descendants.")
    conjunctions = _normalize(proto.where, root) if proto.HasField("where") else [()]
    explicit = tuple(
        Order(parse_path(order.field.field_path), order.direction == _DESCENDING)
        for order in proto.order_by
    )
    _check_operators(list(_list_operators(proto.where)))
    _check_array_filters(conjunctions)
    satisfiable = [
        conjunction
        for conjunction in conjunctions
        if not any(condition.is_never_met for condition in conjunction)
    ]
    orders = _complete_orders(explicit, satisfiable, required)
    _check_names(satisfiable)
    query = Query(
        parent,
        selector.collection_id,
        selector.all_descendants,
        list(dict.fromkeys(map(_simplify, satisfiable))),
        orders,
        offset=proto.offset,
        limit=proto.limit.value if proto.HasField("limit") else None,
    )
    if query.offset < 0 or (query.limit is not None and query.limit < 0):
        raise invalid_argument("Limit and offset are at least 0.")
    query.start = _read_cursor(proto.start_at, orders, root) if proto.HasField("start_at") else None
    query.end = _read_cursor(proto.end_at, orders, root) if proto.HasField("end_at") else None
    if proto.HasField("select"):
        paths = [parse_path(field.field_path) for field in proto.select.fields]
        query.select = tuple(path for path in paths if path != NAME)
    if proto.HasField("find_nearest"):
        query.nearest = _read_nearest(proto)
    return query


def _read_cursor(proto: Any, orders: Sequence[Order], root: str) -> Cursor:
    if len(proto.values) > len(orders):
        raise invalid_argument("A cursor has at most as many values as the order has fields.")
    encoded = []
    for value, order in zip(proto.values, orders, strict=False):
        encoded.append(_encode_name(value, root) if order.path == NAME else encode(value))
    return Cursor(tuple(encoded), proto.before)


def _encode_name(value: Any, root: str) -> bytes:
    """Return the key of a referenced document."""
    if value.WhichOneof("value_type") != "reference_value":
        raise invalid_argument("__key__ filter value must be a Key")
    name = value.reference_value
    if not name.startswith(root + "/"):
        raise invalid_argument("A reference is in another database.")
    return values.encode_path(name.removeprefix(root + "/"))


def _read_nearest(proto: Any) -> NearestQuery:
    nearest = proto.find_nearest
    vector = values.get_vector(nearest.query_vector)
    if vector is None:
        raise invalid_argument("The query vector is not a vector value.")
    check_vector(vector)
    limit = nearest.limit.value
    if not 1 <= limit <= 1_000:  # noqa: PLR2004
        raise invalid_argument("FindNearest.limit must be a positive integer of no more than 1000")
    if nearest.distance_measure not in {1, 2, 3}:
        raise invalid_argument("FindNearest.distance_measure is missing.")
    if (
        proto.order_by
        or proto.offset
        or any(proto.HasField(name) for name in ("limit", "start_at", "end_at"))
    ):
        raise invalid_argument("A vector query has no order, limit, offset or cursor.")
    distance = nearest.distance_result_field
    return NearestQuery(
        parse_path(nearest.vector_field.field_path),
        vector,
        nearest.distance_measure,
        limit,
        nearest.distance_threshold.value if nearest.HasField("distance_threshold") else None,
        parse_path(distance) if distance else None,
    )


def _normalize(proto: Any, root: str) -> list[tuple[Filter, ...]]:
    """Return a filter's disjunctive normal form."""
    match proto.WhichOneof("filter_type"):
        case "composite_filter":
            composite = proto.composite_filter
            if not composite.filters:
                raise invalid_argument("A composite filter has at least one filter.")
            # Without duplicates, a repeated array filter does not break the limit of one.
            members = {member.SerializeToString(): member for member in composite.filters}
            parts = [_normalize(member, root) for member in members.values()]
            if composite.op == _OR:
                result = [conjunction for part in parts for conjunction in part]
            else:
                result = []
                for combination in product(*parts):
                    result.append(tuple(condition for part in combination for condition in part))
                    if len(result) > MAX_DISJUNCTIONS:
                        break
        case "field_filter":
            result = _read_field_filter(proto.field_filter, root)
        case "unary_filter":
            result = [(_read_unary_filter(proto.unary_filter),)]
        case _:
            raise invalid_argument("A filter is empty.")
    if len(result) > MAX_DISJUNCTIONS:
        raise invalid_argument(
            f"A maximum of {MAX_DISJUNCTIONS} disjunctions, in and array-contains-any counted by "
            "their values, is supported."
        )
    return result


def _read_field_filter(proto: Any, root: str) -> list[tuple[Filter, ...]]:
    path = parse_path(proto.field.field_path)
    operator = _OPERATORS.get(proto.op, "OPERATOR_UNSPECIFIED")
    value = proto.value
    if operator in {"IN", "NOT_IN", "ARRAY_CONTAINS_ANY"}:
        if value.WhichOneof("value_type") != "array_value" or not value.array_value.values:
            raise invalid_argument(f"'{operator}' requires a non-empty ArrayValue.")
        operands = list(value.array_value.values)
        limit = MAX_NOT_IN if operator == "NOT_IN" else MAX_DISJUNCTIONS
        if len(operands) > limit:
            raise invalid_argument(f"'{operator}' supports up to {limit} comparison values.")
    else:
        operands = [value]
    if path == NAME:
        encoded = tuple(_encode_name(operand, root) for operand in operands)
    else:
        encoded = tuple(map(encode, operands))
    match operator:
        case "IN" | "EQUAL":  # null and NaN equal nothing; the unary filters find them
            return [
                (Filter(path, "EQUAL", (operand,)),)
                for operand in dict.fromkeys(encoded)
                if operand not in {values.NULL, values.NAN}
            ]
        case "ARRAY_CONTAINS_ANY":
            return [
                (Filter(path, "ARRAY_CONTAINS", (operand,)),) for operand in dict.fromkeys(encoded)
            ]
        case "NOT_IN" | "NOT_EQUAL":  # NaN is unequal to itself
            unequal = tuple(operand for operand in encoded if operand != values.NAN)
            return [(Filter(path, operator, unequal),)]
        case "OPERATOR_UNSPECIFIED":
            raise invalid_argument("A filter has no operator.")
    return [(Filter(path, operator, encoded),)]


def _read_unary_filter(proto: Any) -> Filter:
    path = parse_path(proto.field.field_path)
    match _UNARY.get(proto.op):
        case "IS_NULL":
            return Filter(path, "EQUAL", (values.NULL,))
        case "IS_NAN":
            return Filter(path, "EQUAL", (values.NAN,))
        case "IS_NOT_NULL":
            return Filter(path, "NOT_EQUAL", ())  # which is never met by null
        case "IS_NOT_NAN":
            return Filter(path, "NOT_EQUAL", (values.NAN,))
    raise invalid_argument("A filter has no operator.")


def _list_operators(proto: Any) -> Iterator[str]:
    """Yield the operators of a filter, with repetitions."""
    match proto.WhichOneof("filter_type"):
        case "composite_filter":
            yield "OR" if proto.composite_filter.op == _OR else "AND"
            for part in proto.composite_filter.filters:
                yield from _list_operators(part)
        case "field_filter":
            yield _OPERATORS[proto.field_filter.op]
        case "unary_filter":
            yield _UNARY[proto.unary_filter.op]


def _simplify(conjunction: tuple[Filter, ...]) -> tuple[Filter, ...]:
    return tuple(dict.fromkeys(conjunction))


def _complete_orders(
    explicit: tuple[Order, ...],
    conjunctions: Sequence[tuple[Filter, ...]],
    required: Sequence[Path],
) -> tuple[Order, ...]:
    """Return the order with the fields of inequalities, and the name."""
    paths = [order.path for order in explicit]
    if len(paths) != len(set(paths)):
        raise invalid_argument("An order has each field once.")
    descends = bool(explicit) and explicit[-1].descends
    orders = list(explicit)
    inequalities = {
        condition.path
        for conjunction in conjunctions
        for condition in conjunction
        if condition.is_inequality
    }
    for path in (*sorted(inequalities), *sorted(set(required) - inequalities)):
        if path != NAME and all(order.path != path for order in orders):
            orders.append(Order(path, descends))
    if all(order.path != NAME for order in orders):
        orders.append(Order(NAME, descends))
    if orders[-1].path != NAME:
        raise invalid_argument("order by clause cannot contain more fields after the key")
    return tuple(orders)


def _check_operators(operators: Sequence[str]) -> None:
    exclusions = {"NOT_EQUAL", "NOT_IN", "IS_NOT_NAN", "IS_NOT_NULL"}
    if len([operator for operator in operators if operator in exclusions]) > 1:
        raise invalid_argument(
            "Only a single 'NOT_EQUAL', 'NOT_IN', 'IS_NOT_NAN', or 'IS_NOT_NULL' filter allowed "
            "per query."
        )
    if "NOT_IN" in operators and {"IN", "ARRAY_CONTAINS_ANY", "OR"}.intersection(operators):
        raise invalid_argument(
            "'NOT_IN' cannot be used in the same query with 'IN', 'ARRAY_CONTAINS_ANY' or 'OR'."
        )


def _check_array_filters(conjunctions: Sequence[tuple[Filter, ...]]) -> None:
    for conjunction in conjunctions:
        if [condition.operator for condition in conjunction].count("ARRAY_CONTAINS") > 1:
            raise invalid_argument(
                "A maximum of 1 'ARRAY_CONTAINS' filter is allowed per disjunction."
            )


def _check_names(conjunctions: Sequence[tuple[Filter, ...]]) -> None:
    filters = {condition for conjunction in conjunctions for condition in conjunction}
    inequality_paths = {condition.path for condition in filters if condition.is_inequality}
    has_equal_name = any(
        condition.path == NAME and not condition.is_inequality for condition in filters
    )
    if has_equal_name and inequality_paths and NAME not in inequality_paths:
        raise invalid_argument(
            "Equality on key is not allowed if there are other inequality fields and key does not "
            "appear in inequalities."
        )
