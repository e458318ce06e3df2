"""Which indexes a query uses, and which it lacks."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter, Or
from google.cloud.firestore_v1.types import StructuredQuery

from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.planner import Scan, plan
from infra.local.embedded_firestore.queries import read_query

CLIENT: Final = AsyncClient(project="p", credentials=AnonymousCredentials())
NOTES: Final = CLIENT.collection("notes")
ROOT: Final = "projects/p/databases/(default)/documents"


def define(
    *indexes: str, group: bool = False, overrides: dict[str, list[str]] | None = None
) -> Definitions:
    """Define indexes such as `a, b DESC, t CONTAINS` and the indexes of single fields."""
    scope = "COLLECTION_GROUP" if group else "COLLECTION"

    def make_field(text: str) -> dict[str, str]:
        name, _, kind = text.partition(" ")
        if kind == "CONTAINS":
            return {"fieldPath": name, "arrayConfig": kind}
        return {"fieldPath": name, "order": {"": "ASCENDING", "DESC": "DESCENDING"}[kind]}

    return Definitions.from_json(
        {
            "indexes": [
                {
                    "collectionGroup": "notes",
                    "queryScope": scope,
                    "fields": [make_field(field) for field in index.split(", ")],
                }
                for index in indexes
            ],
            "fieldOverrides": [
                {
                    "collectionGroup": "notes",
                    "fieldPath": path,
                    "indexes": [
                        {**make_field(f"x {kind}".strip()), "queryScope": scope} for kind in kinds
                    ],
                }
                for path, kinds in (overrides or {}).items()
            ],
        }
    )


def where(query: Any, field: str, operator: str, value: object) -> Any:
    return query.where(filter=FieldFilter(field, operator, value))


def make_plan(query: BaseQuery, definitions: Definitions) -> list[Scan]:
    proto = StructuredQuery.pb(query._to_protobuf())  # noqa: SLF001
    return plan(read_query(ROOT, "", proto), definitions)


def get_indexes(query: BaseQuery, definitions: Definitions) -> list[list[str]]:
    """Return the fields of the indexes of each scan."""

    def describe(index: Index | None) -> str:
        fields = index.fields if index else ()
        suffixes = {Kind.ASCENDING: "", Kind.DESCENDING: " DESC", Kind.CONTAINS: " CONTAINS"}
        return ", ".join(".".join(path) + suffixes[kind] for path, kind in fields)

    return [
        [describe(entry_range.index) for entry_range in scan.ranges]
        for scan in make_plan(query, definitions)
    ]


def get_missing(query: BaseQuery, definitions: Definitions) -> dict[str, Any]:
    with pytest.raises(FirestoreError, match="requires an index") as raised:
        make_plan(query, definitions)
    entry: dict[str, Any] = json.loads(raised.value.message.partition(": ")[2])
    return entry


def test_a_query_without_filters_reads_the_documents() -> None:
    assert [[""]] == get_indexes(NOTES.limit(1), Definitions())


def test_one_field_needs_no_definition() -> None:
    for query in (
        where(NOTES, "a", "==", 1),
        where(NOTES, "a", ">", 1),
        NOTES.order_by("a"),
        NOTES.order_by("a", direction="DESCENDING"),
        where(NOTES, "a", "in", [1]),
    ):
        assert [["a"]] == get_indexes(query, Definitions())
    assert [["t CONTAINS"]] == get_indexes(where(NOTES, "t", "array_contains", 1), Definitions())


def test_equalities_intersect_the_indexes_of_their_fields() -> None:
    query = where(where(NOTES, "a", "==", 1), "b", "==", 2)
    assert [["a", "b"]] == get_indexes(query, Definitions())


def test_equality_and_order_need_an_index() -> None:
    query = where(NOTES, "a", "==", 1).order_by("b")
    assert [["a, b"]] == get_indexes(query, define("a, b"))
    assert ["a", "b"] == [
        field["fieldPath"] for field in get_missing(query, define("b, a"))["fields"]
    ]


def test_an_index_serves_the_direction_of_its_order() -> None:
    query = where(NOTES, "a", "==", 1).order_by("b", direction="DESCENDING")
    for index in ("a, b DESC", "a DESC, b DESC"):
        assert 1 == len(get_indexes(query, define(index))[0])
    for index in ("a, b", "a DESC, b"):
        with pytest.raises(FirestoreError):
            make_plan(query, define(index))


def test_mixed_directions_need_their_own_index() -> None:
    query = NOTES.order_by("a").order_by("b", direction="DESCENDING")
    assert [["a DESC, b"]] == get_indexes(query, define("a, b DESC"))
    with pytest.raises(FirestoreError):
        make_plan(query, define("a, b"))


def test_a_missing_index_has_the_directions_of_the_query() -> None:
    query = where(NOTES, "a", "==", 1).order_by("b", direction="DESCENDING")
    missing = get_missing(query, Definitions())
    assert [{"fieldPath": "b", "order": "DESCENDING"}] == missing["fields"][1:]
    assert [[("a", "b")]] == [
        [tuple(path[0] for path, _ in scan.ranges[0].index.fields)]
        for scan in make_plan(query, Definitions.from_json({"indexes": [missing]}))
        if scan.ranges[0].index
    ]


def test_indexes_with_the_same_order_are_combined() -> None:
    query = where(where(NOTES, "a", "==", 1), "b", "==", 2).order_by("c")
    assert [["a, c", "b, c"]] == get_indexes(query, define("a, c", "b, c"))
    assert [["a, b, c"]] == get_indexes(query, define("a, c", "b, c", "a, b, c"))


def test_disjunctions_are_scans_of_their_own() -> None:
    query = where(where(NOTES, "t", "array_contains_any", ["x", "y"]), "a", "==", 1).order_by("b")
    assert [["t CONTAINS, a, b"]] * 2 == get_indexes(query, define("t CONTAINS, a, b"))
    either = NOTES.where(filter=Or([FieldFilter("a", "==", 1), FieldFilter("b", "==", 2)]))
    assert [["a"], ["b"]] == get_indexes(either, Definitions())


def test_filters_that_contradict_each_other_read_nothing() -> None:
    assert [] == get_indexes(where(where(NOTES, "a", "==", 1), "a", "==", 2), Definitions())
    assert [] == get_indexes(where(where(NOTES, "a", ">", 2), "a", "<", 1), Definitions())


def test_an_exempted_field_has_no_index() -> None:
    for path in ("a", "*"):
        with pytest.raises(FirestoreError):
            make_plan(NOTES.order_by("a"), define(overrides={path: []}))
    with pytest.raises(FirestoreError):
        make_plan(NOTES.order_by("a.deep"), define(overrides={"a": []}))
    descending = NOTES.order_by("a", direction="DESCENDING")
    assert [["a"]] == get_indexes(descending, define(overrides={"a": ["DESC"]}))
    with pytest.raises(FirestoreError):
        make_plan(NOTES.order_by("a"), define(overrides={"a": ["DESC"]}))
    with pytest.raises(FirestoreError):
        make_plan(where(NOTES, "a", "array_contains", 1), define(overrides={"a": ["DESC"]}))


def test_a_collection_group_has_indexes_of_its_own() -> None:
    query = CLIENT.collection_group("notes").order_by("a")
    with pytest.raises(FirestoreError):
        make_plan(query, Definitions())
    assert [["a"]] == get_indexes(query, define(group=True, overrides={"a": [""]}))
    assert [[""]] == get_indexes(CLIENT.collection_group("notes").limit(1), Definitions())


def test_names_alone_do_not_descend() -> None:
    missing = get_missing(NOTES.order_by("__name__", direction="DESCENDING"), Definitions())
    assert [{"fieldPath": "__name__", "order": "DESCENDING"}] == missing["fields"]
    definitions = Definitions.from_json({"indexes": [missing]})
    assert 1 == len(make_plan(NOTES.order_by("__name__", direction="DESCENDING"), definitions))


def test_a_range_of_names_is_read_alone() -> None:
    [scan] = make_plan(where(NOTES, "__name__", "==", NOTES.document("x")), Definitions())
    [only] = scan.ranges
    assert only.lower[1] + b"\0" == only.upper[1]
    assert () == scan.residual
