"""The check of an index file names indexes that queries lack, and indexes that none uses."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infra.build.index_check import check
from infra.build.index_file import IndexFile
from infra.build.query_shape import (
    Aggregate,
    Comparison,
    Direction,
    Filter,
    QueryScope,
    QueryShape,
    SortOrder,
    VectorStage,
)

EQUAL_A = frozenset({frozenset({Filter("a", Comparison.EQUAL)})})
SORTED_QUERY = QueryShape(
    "cities", disjuncts=EQUAL_A, orders=(SortOrder("b", Direction.DESCENDING),)
)
SIMILAR_QUERY = QueryShape("cities", disjuncts=EQUAL_A, nearest=VectorStage("embedding", 384))
GROUP_QUERY = QueryShape("cities", QueryScope.COLLECTION_GROUP, EQUAL_A)

FIELDS = st.sampled_from(["a", "b", "b.c"])
PATHS = FIELDS | st.just("__name__")
FILTERS = st.builds(Filter, FIELDS, st.sampled_from(Comparison)) | st.builds(
    Filter, st.just("__name__"), st.sampled_from([Comparison.EQUAL, Comparison.RANGE])
)
QUERY_SHAPES = st.builds(
    QueryShape,
    collection=st.sampled_from(["cities", "towns"]),
    scope=st.sampled_from(QueryScope),
    disjuncts=st.frozensets(st.frozensets(FILTERS, max_size=3), min_size=1, max_size=3),
    orders=st.lists(
        st.builds(SortOrder, PATHS, st.sampled_from(Direction)), unique_by=lambda order: order.path
    ).map(tuple),
    nearest=st.none() | st.just(VectorStage("embedding", 384)),
    aggregates=st.frozensets(st.builds(Aggregate, st.just("sum"), st.sampled_from(["a", "d"]))),
)


def make_composite(*fields: dict[str, Any]) -> dict[str, Any]:
    """Make an entry of `indexes`."""
    return {"collectionGroup": "cities", "queryScope": "COLLECTION", "fields": list(fields)}


A_FIELD = {"fieldPath": "a", "order": "ASCENDING"}
A_THEN_B = make_composite(A_FIELD, {"fieldPath": "b", "order": "DESCENDING"})
A_THEN_VECTOR = make_composite(
    A_FIELD, {"fieldPath": "embedding", "vectorConfig": {"dimension": 768, "flat": {}}}
)
A_IN_GROUP = {
    "collectionGroup": "cities",
    "fieldPath": "a",
    "indexes": [
        {"queryScope": "COLLECTION", "order": "ASCENDING"},
        {"queryScope": "COLLECTION", "arrayConfig": "CONTAINS"},
        {"queryScope": "COLLECTION", "order": "DESCENDING"},
        {"queryScope": "COLLECTION_GROUP", "order": "ASCENDING"},
    ],
}
EXEMPT = {"collectionGroup": "cities", "fieldPath": "x", "indexes": []}
TTL_OVERRIDE = {"collectionGroup": "cities", "fieldPath": "y", "ttl": True, "indexes": []}


def make_file(*indexes: dict[str, Any], overrides: tuple[dict[str, Any], ...] = ()) -> IndexFile:
    """Make a file with these entries."""
    return IndexFile.parse(json.dumps({"indexes": indexes, "fieldOverrides": overrides}))


def test_added_indexes_make_the_file_valid() -> None:
    shapes = {SORTED_QUERY, SIMILAR_QUERY, GROUP_QUERY}
    verdict = check(shapes, make_file(), 768)
    addition = verdict.file.build_additions(verdict.missing)
    assert addition == {"indexes": [A_THEN_B, A_THEN_VECTOR], "fieldOverrides": [A_IN_GROUP]}
    assert check(shapes, IndexFile.parse(json.dumps(addition)), 768).is_correct


@given(st.sets(QUERY_SHAPES, max_size=4))
def test_added_indexes_are_always_enough(shapes: set[QueryShape]) -> None:
    verdict = check(shapes, make_file(), 768)
    addition = verdict.file.build_additions(verdict.missing)
    assert check(shapes, IndexFile.parse(json.dumps(addition)), 768).missing == {}


@given(QUERY_SHAPES)
def test_a_shape_survives_serialization(shape: QueryShape) -> None:
    assert QueryShape.from_json(shape.to_json()) == shape


def test_an_existing_override_is_extended() -> None:
    exempt = make_file(overrides=({"collectionGroup": "cities", "fieldPath": "a", "indexes": []},))
    entry = {"queryScope": "COLLECTION_GROUP", "order": "ASCENDING"}
    additions = exempt.build_additions(check({GROUP_QUERY}, exempt, 768).missing)
    [override] = additions["fieldOverrides"]
    assert override["indexes"] == [entry]


def test_a_missing_index_names_the_queries_that_need_it() -> None:
    verdict = check({SORTED_QUERY}, make_file(), 768)
    assert list(verdict.missing.values()) == [frozenset({SORTED_QUERY})]
    assert "needed by: cities where a = order by b DESCENDING" in verdict.report()


def test_an_index_that_no_query_reads_is_unused() -> None:
    verdict = check({SIMILAR_QUERY}, make_file(A_THEN_B, A_THEN_VECTOR), 768)
    assert verdict.report() == "unused: cities (COLLECTION): a ASCENDING, b DESCENDING"


def test_a_vector_index_of_another_dimension_is_unused() -> None:
    verdict = check({SIMILAR_QUERY}, make_file(A_THEN_VECTOR), 384)
    assert len(verdict.unused) == len(verdict.missing) == 1


def test_an_index_for_a_collection_group_can_be_unused() -> None:
    assert check({GROUP_QUERY}, make_file(overrides=(A_IN_GROUP,)), 768).is_correct
    assert len(check((), make_file(overrides=(A_IN_GROUP,)), 768).unused) == 1


def test_exemptions_and_ttl_policies_are_never_unused() -> None:
    assert check((), make_file(overrides=(EXEMPT, TTL_OVERRIDE)), 768).is_correct


def test_a_second_equivalent_index_is_unused() -> None:
    equivalent_index = make_composite(
        {"fieldPath": "a", "order": "DESCENDING"}, A_THEN_B["fields"][1]
    )
    assert len(check({SORTED_QUERY}, make_file(A_THEN_B, equivalent_index), 768).unused) == 1
