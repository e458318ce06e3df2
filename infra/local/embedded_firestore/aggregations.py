"""Aggregations over the documents of a query: count, sum and average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.local.embedded_firestore.documents import get_number, get_value, parse_path
from infra.local.embedded_firestore.errors import invalid_argument
from infra.local.embedded_firestore.protos import DocumentProto, ValueProto
from infra.local.embedded_firestore.scans import count, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.planner import Scan
    from infra.local.embedded_firestore.queries import Query
    from infra.local.embedded_firestore.storage import Store


def read_aliases(aggregations: Sequence[Any]) -> list[str]:
    """Return the names of results."""
    if not aggregations:
        raise invalid_argument("Aggregations can not be empty.")
    names = [
        aggregation.alias or f"field_{number}"
        for number, aggregation in enumerate(aggregations, start=1)
    ]
    for name in names:
        if names.count(name) > 1:
            raise invalid_argument(f"Aggregation aliases contain duplicate alias: {name}")
    return names


def read_fields(aggregations: Iterable[Any]) -> list[Path]:
    """Return the fields that sums and averages are of."""
    return [
        parse_path(getattr(aggregation, aggregation.WhichOneof("operator")).field.field_path)
        for aggregation in aggregations
        if aggregation.WhichOneof("operator") != "count"
    ]


def aggregate(
    store: Store,
    connection: apsw.Connection,
    query: Query,
    scans: Sequence[Scan],
    aggregations: Iterable[Any],
) -> list[Any]:
    """Return the results of aggregations as protobuf values. A count reads no documents.

    Raises:
        IndexNotBuilt: An index has to be built first.
    """
    results = []
    documents: list[Any] | None = None
    for aggregation in aggregations:
        operator = aggregation.WhichOneof("operator")
        if operator == "count":
            has_limit = aggregation.count.HasField("up_to")
            up_to = aggregation.count.up_to.value if has_limit else None
            total = count(store, connection, query, scans, up_to)
            results.append(ValueProto(integer_value=total))
            continue
        if documents is None:
            rows = read(store, connection, query, scans)
            documents = [DocumentProto.FromString(row.body).fields for row in rows]
        path = parse_path(getattr(aggregation, operator).field.field_path)
        values = (get_value(fields, path) for fields in documents)
        numbers = [get_number(value) for value in values if value is not None]
        addends = [number for number in numbers if number is not None]
        results.append(_add(addends) if operator == "sum" else _average(addends))
    return results


def _add(numbers: Sequence[float]) -> Any:
    total = sum(numbers)
    if isinstance(total, int) and -(2**63) <= total < 2**63:
        return ValueProto(integer_value=total)
    return ValueProto(double_value=float(total))


def _average(numbers: Sequence[float]) -> Any:
    if not numbers:
        return ValueProto(null_value=0)
    return ValueProto(double_value=float(sum(numbers) / len(numbers)))
