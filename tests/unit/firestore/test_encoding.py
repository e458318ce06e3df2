"""Values, writes and queries are encoded as Google's client encodes them."""

# ruff: noqa: SLF001 - what Google's client sends is private to it

from datetime import UTC, datetime
from typing import Any

import pytest
from google.api_core.datetime_helpers import DatetimeWithNanoseconds
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient, LastUpdateOption
from google.cloud.firestore_v1._helpers import encode_value
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from hypothesis import given
from hypothesis import strategies as st

from shared.firestore.documents import Document, Reference
from shared.firestore.field_paths import join_path, split_path
from shared.firestore.protos import WriteProto
from shared.firestore.queries import NAME, Query
from shared.firestore.values import (
    DELETE_FIELD,
    SERVER_TIMESTAMP,
    ArrayRemove,
    ArrayUnion,
    Increment,
    Vector,
    decode_fields,
    encode,
)
from shared.firestore.writes import (
    Create,
    Delete,
    Set,
    Together,
    Update,
    Write,
    delete_if_unchanged,
    put_if_unchanged,
)

CLIENT = AsyncClient(project="p", credentials=AnonymousCredentials())
ROOT = "projects/p/databases/(default)/documents"
NOTE = Reference("notes", "a")
RAW_NOTE = CLIENT.document("notes/a")
CHANGED = DatetimeWithNanoseconds(2026, 1, 2, nanosecond=123_456_000, tzinfo=UTC)
MISSING = Document(NOTE, {}, None, CHANGED)
NAMES = st.text("ab.` \\é1", min_size=1, max_size=4)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.binary(max_size=8),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
    st.lists(st.floats(-1, 1), max_size=3).map(Vector),
)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(NAMES, values, max_size=3),
    max_leaves=8,
)
COMPUTED = st.sampled_from(
    [DELETE_FIELD, SERVER_TIMESTAMP, Increment(2), ArrayUnion(["x"]), ArrayRemove([1, {"y": 2}])]
)
CHANGES = st.recursive(
    SCALARS | COMPUTED, lambda values: st.dictionaries(NAMES, values, max_size=3), max_leaves=8
)


def sort_write(write: Any) -> Any:
    """Return a write whose masks and transforms are in one order, since theirs says nothing."""
    sorted_write = WriteProto()
    sorted_write.CopyFrom(write)
    sorted_write.update_mask.field_paths.sort()
    sorted_write.update_transforms.sort(key=lambda transform: str(transform.field_path))
    if not write.HasField("update_mask"):
        sorted_write.ClearField("update_mask")
    return sorted_write


def assert_same(write: Any, method: str, *args: Any, **options: Any) -> None:
    """Assert that a write is encoded as the one that a method of a batch adds."""
    batch = CLIENT.batch()
    getattr(batch, method)(RAW_NOTE, *args, **options)
    expected = [sort_write(proto._pb) for proto in batch._write_pbs]
    assert [sort_write(proto) for proto in write.encode(ROOT)] == expected


def has_deletion(value: Any) -> bool:
    return value is DELETE_FIELD or (
        isinstance(value, dict) and any(map(has_deletion, value.values()))
    )


@given(VALUES)
def test_a_value_is_encoded_and_comes_back(value: Any) -> None:
    assert encode(value, ROOT) == encode_value(value)._pb
    assert decode_fields({"value": encode(value, ROOT)}) == {"value": value}


def test_a_reference_is_a_name_and_another_type_an_error() -> None:
    assert encode(NOTE, ROOT) == encode_value(RAW_NOTE)._pb
    with pytest.raises(TypeError, match="complex"):
        encode([1j], ROOT)


@given(st.dictionaries(NAMES, CHANGES, max_size=4))
def test_writes_are_encoded_as_by_googles_client(fields: dict[str, Any]) -> None:
    assert_same(Set(NOTE, fields, merge=True), "set", fields, merge=True)
    if not has_deletion(fields):
        assert_same(Set(NOTE, fields), "set", fields)
        assert_same(Create(NOTE, fields), "create", fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"a": 1, "b.c": {"d": 2}, "b.e": []},
        {"a": DELETE_FIELD, "b.c": Increment(1), "b.d": {}},
        {"`a.b`.c": 1, "é": SERVER_TIMESTAMP},
    ],
    ids=["values", "computed", "quoted"],
)
def test_an_update_is_encoded_as_by_googles_client(fields: dict[str, Any]) -> None:
    assert_same(Update(NOTE, fields), "update", fields)
    assert_same(Update(NOTE, fields, CHANGED), "update", fields, LastUpdateOption(CHANGED))


def test_a_deletion_is_encoded_as_by_googles_client() -> None:
    assert_same(Delete(NOTE), "delete")
    assert_same(Delete(NOTE, CHANGED), "delete", LastUpdateOption(CHANGED))


def test_writes_together_stay_in_order() -> None:
    both = Together([Delete(NOTE), Set(NOTE, {})])
    assert list(both.encode(ROOT)) == [*Delete(NOTE).encode(ROOT), *Set(NOTE, {}).encode(ROOT)]


def test_what_does_not_exist_is_created_and_cannot_be_deleted() -> None:
    assert put_if_unchanged(MISSING, {"a": 1}) == Create(NOTE, {"a": 1})
    with pytest.raises(ValueError, match="no such document"):
        delete_if_unchanged(MISSING)


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_names_of_a_path_are_quoted_and_come_back(names: list[str]) -> None:
    assert split_path(join_path(*names)) == tuple(names)


def make_document(**fields: Any) -> Document:
    return Document(NOTE, fields, CHANGED, CHANGED)


RAW = CLIENT.collection("notes")


def where(field: str, operator: str, value: Any) -> Any:
    return RAW.where(filter=FieldFilter(field, operator, value))


@pytest.mark.parametrize(
    ("query", "raw"),
    [
        (Query("notes").limit(3), RAW.limit(3)),
        (Query("notes").select([]), RAW.select([])),
        (Query("notes").select(["a", "b.c"]), RAW.select(["a", "b.c"])),
        (Query("notes", in_group=True).limit(1), CLIENT.collection_group("notes").limit(1)),
        (Query("notes").where("a", "==", None), where("a", "==", None)),
        (
            Query("notes").where("a", ">=", 1).where("b", "in", ["x"]),
            where("a", ">=", 1).where(filter=FieldFilter("b", "in", ["x"])),
        ),
        (
            Query("notes").order_by("a", descending=True).start_after({"a": 5}).end_at({"a": 1}),
            RAW.order_by("a", direction="DESCENDING").start_after({"a": 5}).end_at({"a": 1}),
        ),
        (
            Query("notes").order_by("a").order_by(NAME).start_after({"a": 1, NAME: NOTE}),
            RAW.order_by("a").order_by(NAME).start_after({"a": 1, NAME: RAW_NOTE}),
        ),
    ],
    ids=["limit", "addresses", "select", "group", "null", "filters", "cursors", "after address"],
)
def test_a_query_is_encoded_as_by_googles_client(query: Query, raw: Any) -> None:
    assert query.encode(ROOT) == (ROOT, raw._to_protobuf()._pb)


@pytest.mark.parametrize("distance", [None, 0.5])
def test_a_nearest_query_is_encoded_as_by_googles_client(distance: float | None) -> None:
    facets, vector = ("a", "array_contains_any", ["x"]), [1.0, 0.5]
    query = Query("notes").where(*facets)
    nearest = query.find_nearest("v", vector, 7, distance_field="d", max_distance=distance)
    options = {"distance_result_field": "d", "distance_threshold": distance}
    raw = where(*facets).find_nearest("v", Vector(vector), 7, DistanceMeasure.COSINE, **options)
    assert nearest.encode(ROOT)[1] == raw._to_protobuf()._pb


def test_a_query_below_or_after_a_document_names_it() -> None:
    parent, proto = Query("users/ann/tasks").encode(ROOT)
    assert parent == f"{ROOT}/users/ann"
    assert proto == Query("tasks").encode(ROOT)[1]

    query = Query("notes").order_by("a.b", descending=True)
    explicit = query.order_by(NAME, descending=True).start_after({"a.b": 4, NAME: NOTE})
    last = make_document(a={"b": 4})
    assert query.start_after(last).encode(ROOT) == explicit.encode(ROOT)


def test_a_field_is_read_by_its_path() -> None:
    document = make_document(a={"b c": 1})
    assert document.get("a.`b c`") == 1
    with pytest.raises(KeyError):
        document.get("a.d")
    assert MISSING.get("a") is None


@pytest.mark.parametrize(
    "write",
    [
        Create(NOTE, {"a": {"b": DELETE_FIELD}}),
        Set(NOTE, {"a": DELETE_FIELD}),
        Update(NOTE, {"a": {"b": DELETE_FIELD}}),
        Update(NOTE, {"a": 1, "a.b": 2}),
        Update(NOTE, {}),
    ],
    ids=["create", "set", "inside a map", "overlap", "nothing"],
)
def test_a_write_that_would_lose_fields_is_an_error(write: Write) -> None:
    with pytest.raises(ValueError, match="field"):
        write.encode(ROOT)
