"""Random programs of requests to Firestore: commits, reads, queries, aggregations and lists."""

import math
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st

from tests.support.firestore_requests import (
    Aggregation,
    BatchGet,
    Commit,
    ListCollections,
    ListDocuments,
    Point,
    Query,
    Reference,
    Vector,
    Write,
)

COLLECTION: Final = "c"
GROUP: Final = "g"
FIELDS: Final = ("a", "b", "m.x")
"""The fields of filters and orders. All have indexes, also in pairs."""
ARRAY: Final = "t"
"""The field of arrays."""
EMBEDDING: Final = "e"
"""The field of vectors."""

PATHS: Final = (
    *(f"{COLLECTION}/{name}" for name in ("1", "2", "10", "é", "A", "~")),
    *(f"{COLLECTION}/1/{GROUP}/{name}" for name in ("1", "2")),
    f"{COLLECTION}/2/{GROUP}/1",
    f"{GROUP}/1",
    f"x/y/{COLLECTION}/1",
)
_NUMBERS: Final = st.sampled_from(
    [0, 1, 2, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
) | st.sampled_from([0.0, -0.0, 1.0, 0.5, -1.5, 2.0**53, math.inf, -math.inf, math.nan, 1e308])
_STRINGS: Final = st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "￿", "a\0"])
_MOMENTS: Final = st.sampled_from(
    [datetime(2026, 1, 1, tzinfo=UTC), datetime(1960, 5, 4, 3, 2, 1, 123_456, tzinfo=UTC)]
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    _NUMBERS,
    _NUMBERS,
    _STRINGS,
    _MOMENTS,
    st.sampled_from([b"", b"\0", b"a", b"\xff"]),
    st.sampled_from([Reference(path) for path in PATHS[:4]]),
    st.sampled_from([Point(0.0, 0.0), Point(1.0, -1.0), Point(-1.0, 5.0)]),
)
_ARRAYS: Final = st.lists(
    st.one_of(SCALARS, st.dictionaries(st.sampled_from(["x", "y"]), SCALARS, max_size=2)),
    max_size=3,
)
_MAPS: Final = st.dictionaries(
    st.sampled_from(["x", "y", "z w"]),
    st.one_of(SCALARS, _ARRAYS, st.dictionaries(st.just("x"), SCALARS)),
    max_size=3,
)
_VECTORS: Final = st.builds(Vector, st.tuples(*[st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0])] * 2))
_COMMON: Final = st.sampled_from([1, 2, "a"])
"""Values that many documents share, so that filters and cursors find some."""
VALUES: Final = st.one_of(_COMMON, _COMMON, _COMMON, SCALARS, SCALARS, _ARRAYS, _MAPS)
_MISSING: Final = object()
DOCUMENTS: Final = st.fixed_dictionaries(
    {
        "a": st.one_of(VALUES, VALUES, VALUES, st.just(_MISSING)),
        "b": st.one_of(VALUES, VALUES, st.just(_MISSING)),
        "m": st.one_of(
            st.builds(lambda value, fields: {**fields, "x": value}, VALUES, _MAPS),
            _MAPS,
            SCALARS,
            st.just(_MISSING),
        ),
        ARRAY: st.one_of(
            st.lists(_COMMON, max_size=3), st.lists(_COMMON), _ARRAYS, SCALARS, st.just(_MISSING)
        ),
        EMBEDDING: st.one_of(
            _VECTORS, _VECTORS, SCALARS, st.just(Vector((1.0, 2.0, 3.0))), st.just(_MISSING)
        ),
    }
).map(lambda fields: {name: value for name, value in fields.items() if value is not _MISSING})
_MASKS: Final = st.lists(
    st.sampled_from(["a", "b", "m", "m.x", "m.`z w`", ARRAY, EMBEDDING, "a.x"]),
    max_size=3,
    unique=True,
).map(tuple)


@st.composite
def _transforms(draw: st.DrawFn) -> tuple[tuple[str, str, Any], ...]:
    paths = draw(
        st.lists(st.sampled_from(["a", "b", "m.x", ARRAY, "n.o"]), max_size=3, unique=True)
    )
    transforms: list[tuple[str, str, Any]] = []
    for path in paths:
        name = draw(
            st.sampled_from(
                ["server_timestamp", "increment", "maximum", "minimum", "union", "remove"]
            )
        )
        operand: Any = None
        if name in {"union", "remove"}:
            operand = draw(_ARRAYS)
        elif name != "server_timestamp":
            operand = draw(_NUMBERS)
        transforms.append((path, name, operand))
    return tuple(transforms)


@st.composite
def _writes(draw: st.DrawFn) -> Write:
    path = draw(st.sampled_from(PATHS))
    precondition = draw(
        st.sampled_from([*[None] * 9, "exists", "missing", "current", "current", "stale"])
    )
    if draw(st.integers(0, 5)) == 0:
        return Write(path, precondition=precondition)
    fields = draw(DOCUMENTS)
    mask = draw(st.one_of(st.none(), st.none(), _MASKS))
    transforms = draw(st.one_of(st.just(()), st.just(()), _transforms()))
    return Write(path, fields, mask, transforms, precondition)


COMMITS: Final = st.lists(_writes(), min_size=1, max_size=4).map(
    lambda writes: Commit(tuple(writes))
)
_SEEDS: Final = st.lists(DOCUMENTS, min_size=len(PATHS), max_size=len(PATHS)).map(
    lambda documents: Commit(
        tuple(Write(path, fields) for path, fields in zip(PATHS, documents, strict=True))
    )
)
"""A commit of all documents."""
BATCH_GETS: Final = st.builds(
    BatchGet,
    st.lists(st.sampled_from(PATHS), min_size=1, max_size=5).map(tuple),
    st.one_of(st.none(), _MASKS),
)
_COMPARISONS: Final = (
    "EQUAL",
    "EQUAL",
    "LESS_THAN",
    "LESS_THAN_OR_EQUAL",
    "GREATER_THAN",
    "GREATER_THAN_OR_EQUAL",
    "NOT_EQUAL",
)


@st.composite
def _filters(draw: st.DrawFn) -> Any:
    kind = draw(st.integers(0, 9))
    path = draw(st.sampled_from(FIELDS))
    if kind <= 4:
        operand = draw(st.one_of(_COMMON, VALUES))
        return (path, draw(st.sampled_from(_COMPARISONS)), operand)
    if kind == 5:
        values = draw(st.lists(st.one_of(_COMMON, SCALARS), min_size=1, max_size=4))
        return (path, draw(st.sampled_from(["IN", "IN", "NOT_IN"])), values)
    if kind == 6:
        return (ARRAY, "ARRAY_CONTAINS", draw(st.one_of(_COMMON, SCALARS)))
    if kind == 7:
        values = draw(st.lists(st.one_of(_COMMON, SCALARS), min_size=1, max_size=3))
        return (ARRAY, "ARRAY_CONTAINS_ANY", values)
    if kind == 8:
        operators = ["IS_NULL", "IS_NAN", "IS_NOT_NULL", "IS_NOT_NAN"]
        return (path, draw(st.sampled_from(operators)))
    reference = Reference(draw(st.sampled_from(PATHS[:6])))
    return ("__name__", draw(st.sampled_from(_COMPARISONS[:-1])), reference)


@st.composite
def _wheres(draw: st.DrawFn) -> Any:
    filters = draw(st.lists(_filters(), max_size=2))
    if not filters:
        return None
    if len(filters) == 1:
        return filters[0]
    if draw(st.integers(0, 3)) == 0:
        return ("OR", filters)
    return ("AND", filters)


@st.composite
def _queries(draw: st.DrawFn) -> Query:
    group = draw(st.integers(0, 3)) == 0
    parent = "" if group else draw(st.sampled_from(["", "", "", f"{COLLECTION}/1"]))
    collection = (
        GROUP if group or parent else draw(st.sampled_from([COLLECTION, COLLECTION, GROUP]))
    )
    where = draw(_wheres())
    names = draw(
        st.lists(st.sampled_from([*FIELDS, "__name__"]), max_size=2, unique=True).filter(
            lambda names: names[:1] != ["__name__"] or len(names) == 1
        )
    )
    orders = tuple((name, draw(st.booleans())) for name in names)
    cursors = []
    for _ in range(2):
        cursor = None
        if orders and draw(st.integers(0, 2)) == 0:
            count = draw(st.integers(1, len(orders)))
            values = tuple(
                Reference(f"{parent}/{collection}/1".lstrip("/") if parent else f"{collection}/2")
                if name == "__name__"
                else draw(VALUES)
                for name, _ in orders[:count]
            )
            cursor = (values, draw(st.booleans()))
        cursors.append(cursor)
    return Query(
        parent,
        collection,
        group,
        where,
        orders,
        cursors[0],
        cursors[1],
        draw(st.sampled_from([0, 0, 0, 1])),
        draw(st.sampled_from([None, None, 1, 2, 5])),
        draw(
            st.one_of(st.none(), st.none(), st.sampled_from([("a",), ("m.x", "b"), ("__name__",)]))
        ),
    )


@st.composite
def _vector_queries(draw: st.DrawFn) -> Query:
    where = draw(
        st.sampled_from(
            [None, (ARRAY, "ARRAY_CONTAINS", 1), ("a", "EQUAL", 1), ("a", "EQUAL", "a")]
        )
    )
    threshold = draw(st.sampled_from([None, None, 0.0, 1.0, 0.5]))
    measure = draw(st.sampled_from([1, 2, 3]))
    vector = draw(_VECTORS)
    limit = draw(st.sampled_from([1, 2, 10]))
    nearest = (EMBEDDING, vector, measure, limit, "distance", threshold)
    return Query("", COLLECTION, where=where, nearest=nearest)


QUERIES: Final = _queries()
VECTOR_QUERIES: Final = _vector_queries()
AGGREGATIONS: Final = st.builds(
    Aggregation,
    QUERIES,
    st.lists(
        st.one_of(
            st.tuples(st.just("count"), st.sampled_from([None, None, 1, 3])),
            st.tuples(st.sampled_from(["sum", "avg"]), st.sampled_from(FIELDS)),
        ),
        min_size=1,
        max_size=2,
    ).map(tuple),
)
LISTINGS: Final = st.one_of(
    st.builds(
        ListDocuments,
        st.sampled_from(["", f"{COLLECTION}/1"]),
        st.sampled_from([COLLECTION, GROUP]),
        st.booleans(),
        st.sampled_from([0, 1, 2]),
        st.none(),
    ),
    st.builds(ListCollections, st.sampled_from(["", "c/1", "x/y", "c/2"])),
)
READS: Final = st.one_of(QUERIES, QUERIES, AGGREGATIONS, VECTOR_QUERIES, BATCH_GETS, LISTINGS)
PROGRAMS: Final = st.tuples(
    _SEEDS, st.lists(COMMITS, max_size=4), st.lists(READS, min_size=1, max_size=8)
).map(lambda parts: (parts[0], *parts[1], *parts[2]))
"""A commit of all documents, further commits, and then reads."""
