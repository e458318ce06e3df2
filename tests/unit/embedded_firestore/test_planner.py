"""Which indexes a query uses, and which it lacks."""

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


def get_missing_fields(query: BaseQuery, definitions: Definitions) -> list[dict[str, str]]:
    fields: list[dict[str, str]] = get_missing(query, definitions)["fields"]
    return fields


def refuse(query: BaseQuery, *definitions: Definitions) -> None:
    for definition in definitions:
        with pytest.raises(FirestoreError):
            make_plan(query, definition)


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (NOTES.limit(1), [[""]]),
        (where(NOTES, "a", "==", 1), [["a"]]),
        (where(NOTES, "a", ">", 1), [["a"]]),
        (NOTES.order_by("a"), [["a"]]),
        (NOTES.order_by("a", direction="DESCENDING"), [["a"]]),
        (where(NOTES, "a", "in", [1]), [["a"]]),
        (where(NOTES, "t", "array_contains", 1), [["t CONTAINS"]]),
        (where(where(NOTES, "a", "==", 1), "b", "==", 2), [["a", "b"]]),
        (
            NOTES.where(filter=Or([FieldFilter("a", "==", 1), FieldFilter("b", "==", 2)])),
            [["a"], ["b"]],
        ),
        (where(where(NOTES, "a", "==", 1), "a", "==", 2), []),
        (where(where(NOTES, "a", ">", 2), "a", "<", 1), []),
        (CLIENT.collection_group("notes").limit(1), [[""]]),
    ],
)
def test_these_queries_need_no_definition(query: BaseQuery, indexes: list[list[str]]) -> None:
    assert indexes == get_indexes(query, Definitions())


A_BY_B = where(NOTES, "a", "==", 1).order_by("b")
A_BY_B_DESC = where(NOTES, "a", "==", 1).order_by("b", direction="DESCENDING")
MIXED = NOTES.order_by("a").order_by("b", direction="DESCENDING")
AB_BY_C = where(where(NOTES, "a", "==", 1), "b", "==", 2).order_by("c")
ANY_T = where(where(NOTES, "t", "array_contains_any", ["x", "y"]), "a", "==", 1).order_by("b")


@pytest.mark.parametrize(
    ("query", "definitions", "indexes"),
    [
        (A_BY_B, define("a, b"), [["a, b"]]),
        (A_BY_B_DESC, define("a, b DESC"), [["a DESC, b"]]),  # as it is read, backwards
        (A_BY_B_DESC, define("a DESC, b DESC"), [["a, b"]]),
        (MIXED, define("a, b DESC"), [["a DESC, b"]]),
        # Indexes with the same order are combined.
        (AB_BY_C, define("a, c", "b, c"), [["a, c", "b, c"]]),
        (AB_BY_C, define("a, c", "b, c", "a, b, c"), [["a, b, c"]]),
        # Disjunctions are scans of their own.
        (ANY_T, define("t CONTAINS, a, b"), [["t CONTAINS, a, b"]] * 2),
    ],
)
def test_an_index_serves_filters_and_the_direction_of_an_order(
    query: BaseQuery, definitions: Definitions, indexes: list[list[str]]
) -> None:
    assert indexes == get_indexes(query, definitions)


def test_a_missing_index_has_the_directions_of_the_query() -> None:
    refuse(A_BY_B_DESC, define("a, b"), define("a DESC, b"))
    refuse(MIXED, define("a, b"))
    missing = get_missing_fields(A_BY_B, define("b, a"))
    assert ["a", "b"] == [field["fieldPath"] for field in missing]
    missing_index = get_missing(A_BY_B_DESC, Definitions())
    assert [{"fieldPath": "b", "order": "DESCENDING"}] == missing_index["fields"][1:]
    definitions = Definitions.from_json({"indexes": [missing_index]})
    assert [["a, b"]] == get_indexes(A_BY_B_DESC, definitions)


def test_an_exempted_field_has_no_index() -> None:
    refuse(NOTES.order_by("a"), define(overrides={"a": []}), define(overrides={"*": []}))
    refuse(NOTES.order_by("a.deep"), define(overrides={"a": []}))
    descends = define(overrides={"a": ["DESC"]})
    assert [["a"]] == get_indexes(NOTES.order_by("a", direction="DESCENDING"), descends)
    refuse(NOTES.order_by("a"), descends)
    refuse(where(NOTES, "a", "array_contains", 1), descends)


def test_a_collection_group_has_indexes_of_its_own() -> None:
    query = CLIENT.collection_group("notes").order_by("a")
    refuse(query, Definitions())
    assert [["a"]] == get_indexes(query, define(group=True, overrides={"a": [""]}))


def test_names_alone_do_not_descend() -> None:
    query = NOTES.order_by("__name__", direction="DESCENDING")
    missing = get_missing(query, Definitions())
    assert [{"fieldPath": "__name__", "order": "DESCENDING"}] == missing["fields"]
    assert 1 == len(make_plan(query, Definitions.from_json({"indexes": [missing]})))


def test_a_range_of_names_is_read_alone() -> None:
    [scan] = make_plan(where(NOTES, "__name__", "==", NOTES.document("x")), Definitions())
    [only] = scan.ranges
    assert only.lower[1] + b"\0" == only.upper[1]
    assert () == scan.residual
