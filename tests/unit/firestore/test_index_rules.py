"""Firestore's index rules: the queries that need a composite index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import And, Client, FieldFilter, Or, Query
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.build.index_check import check
from infra.build.index_file import IndexFile
from infra.build.index_proof import build_shapes

if TYPE_CHECKING:
    from google.cloud.firestore_v1.base_query import BaseQuery

DOWN = Query.DESCENDING


@pytest.fixture
def client() -> Client:
    """A client to build queries, which are never run."""
    anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call] # google-auth has no types
    return Client(project="rules", credentials=anonymous)


@pytest.fixture
def cities(client: Client) -> BaseQuery:
    """A query of a whole collection."""
    return client.collection("cities").select([])


@pytest.fixture
def landmarks(client: Client) -> BaseQuery:
    """A query of a whole collection group."""
    return client.collection_group("landmarks")


def where(query: Any, *filters: str) -> Any:
    """Add filters like `state ==` or `tags array_contains`; the values do not matter."""
    for field, operator in (text.split() for text in filters):
        plural = operator in ("in", "not-in", "array_contains_any")
        query = query.where(filter=FieldFilter(field, operator, ["x", "y"] if plural else "x"))
    return query


def nearest(query: Any) -> Any:
    """Add a vector search on `embedding`, with a vector of three dimensions."""
    vector = Vector([1.0, 0.0, 0.0])
    return query.find_nearest("embedding", vector, limit=5, distance_measure=DistanceMeasure.COSINE)


def declared(*indexes: str, overrides: tuple[dict[str, Any], ...] = ()) -> IndexFile:
    """Make a file with composite indexes like `state, population DESCENDING, embedding 768`."""
    entries = [
        {
            "collectionGroup": "cities",
            "queryScope": "COLLECTION",
            "fields": [field_entry(*field.split()) for field in index.split(", ")],
        }
        for index in indexes
    ]
    return IndexFile.parse(json.dumps({"indexes": entries, "fieldOverrides": overrides}))


def field_entry(path: str, mode: str = "ASCENDING") -> dict[str, Any]:
    """Make a field of an index."""
    if mode.isdigit():
        return {"fieldPath": path, "vectorConfig": {"dimension": int(mode), "flat": {}}}
    return {"fieldPath": path, "arrayConfig" if mode == "CONTAINS" else "order": mode}


def override(path: str, *indexes: dict[str, str], collection: str = "cities") -> dict[str, Any]:
    """Make an entry of `fieldOverrides`."""
    return {"collectionGroup": collection, "fieldPath": path, "indexes": indexes}


def missing(query: Any, file: IndexFile | None = None) -> list[str]:
    """Return the fields of the indexes that a query needs and a file lacks."""
    verdict = check(build_shapes([query]), file or declared(), 768)
    return sorted(str(index).partition(": ")[2] for index in verdict.missing)


def test_reading_a_whole_collection_needs_no_index(cities: BaseQuery) -> None:
    assert missing(cities) == []


@pytest.mark.parametrize(
    "filter_",
    ["a ==", "a in", "a <", "a !=", "a not-in", "a array_contains", "a array_contains_any"],
)
def test_one_filter_uses_the_automatic_index(cities: BaseQuery, filter_: str) -> None:
    assert missing(where(cities, filter_)) == []


def test_sorting_by_one_field_uses_an_automatic_index(cities: BaseQuery) -> None:
    assert missing(cities.order_by("a")) == []
    assert missing(cities.order_by("a", direction=DOWN)) == []


def test_equalities_merge_the_automatic_indexes(cities: BaseQuery) -> None:
    assert missing(where(cities, "a ==", "b ==", "c in")) == []


def test_an_array_filter_merges_with_equalities(cities: BaseQuery) -> None:
    assert missing(where(cities, "tags array_contains", "a ==")) == []


def test_is_null_is_an_equality_and_not_null_a_range(cities: BaseQuery) -> None:
    null = cities.where(filter=FieldFilter("a", "==", None))
    not_null = cities.where(filter=FieldFilter("a", "!=", None))
    assert missing(where(null, "b ==")) == []
    assert missing(where(not_null, "b ==")) == ["b ASCENDING, a ASCENDING"]


def test_an_equality_before_a_range_needs_a_composite_index(cities: BaseQuery) -> None:
    query = where(cities, "country ==", "population >")
    assert missing(query) == ["country ASCENDING, population ASCENDING"]
    assert missing(query, declared("country, population")) == []


def test_an_equality_field_may_be_indexed_in_either_direction(cities: BaseQuery) -> None:
    file = declared("country DESCENDING, population")
    assert missing(where(cities, "country ==", "population >"), file) == []


def test_in_and_equality_share_an_index(cities: BaseQuery) -> None:
    file = declared("country, population")
    assert missing(where(cities, "country in", "population >"), file) == []


def test_equality_fields_in_any_order_precede_the_sort_order(cities: BaseQuery) -> None:
    query = where(cities, "a ==", "b ==").order_by("c")
    assert missing(query, declared("b, a, c")) == []
    assert missing(query, declared("a, c, b")) == ["a ASCENDING, b ASCENDING, c ASCENDING"]


def test_an_index_is_not_read_backwards(cities: BaseQuery) -> None:
    query = where(cities, "country ==").order_by("population", direction=DOWN)
    lacking = missing(query, declared("country, population"))
    assert lacking == ["country ASCENDING, population DESCENDING"]


def test_the_fields_of_the_sort_order_keep_their_order(cities: BaseQuery) -> None:
    query = cities.order_by("a").order_by("b", direction=DOWN)
    assert missing(query, declared("b DESCENDING, a")) == ["a ASCENDING, b DESCENDING"]
    assert missing(query, declared("a, b DESCENDING")) == []


def test_ranges_on_several_fields_are_sorted_by_name(cities: BaseQuery) -> None:
    query = where(cities, "population >", "density <")
    assert missing(query) == ["density ASCENDING, population ASCENDING"]


def test_an_implied_range_follows_the_explicit_direction(cities: BaseQuery) -> None:
    query = where(cities, "a >").order_by("z", direction=DOWN)
    assert missing(query) == ["z DESCENDING, a DESCENDING"]


def test_a_field_that_is_equal_in_all_results_needs_no_sorting(cities: BaseQuery) -> None:
    assert missing(where(cities, "a ==", "b ==").order_by("a")) == []


def test_a_field_that_is_one_of_several_does_need_sorting(cities: BaseQuery) -> None:
    assert missing(where(cities, "a in", "b ==").order_by("a")) == ["b ASCENDING, a ASCENDING"]


def test_names_come_last_in_the_direction_of_the_sort_order(cities: BaseQuery) -> None:
    down = cities.order_by("a", direction=DOWN)
    assert missing(down.order_by("__name__", direction=DOWN)) == []
    assert missing(down.order_by("__name__")) == ["a DESCENDING, __name__ ASCENDING"]


def test_sorting_by_name_needs_an_index_if_descending(cities: BaseQuery) -> None:
    assert missing(cities.order_by("__name__")) == []
    down = cities.order_by("__name__", direction=DOWN)
    assert missing(down) == ["__name__ DESCENDING"]
    assert missing(down, declared("__name__ DESCENDING")) == []


def test_an_equality_before_descending_names_needs_one(cities: BaseQuery) -> None:
    query = where(cities, "a ==").order_by("__name__", direction=DOWN)
    assert missing(query) == ["a ASCENDING, __name__ DESCENDING"]


def test_a_later_page_needs_the_index_of_the_first(
    cities: BaseQuery,
) -> None:
    query = where(cities, "a ==").order_by("b").order_by("__name__")
    page = query.start_after({"b": 1, "__name__": "x"})
    assert missing(page, declared("a, b")) == []


def test_indexes_with_the_same_sort_order_are_merged(cities: BaseQuery) -> None:
    query = where(cities, "category ==", "city ==", "pick ==").order_by("stars")
    file = declared("category, stars", "city, stars", "pick, stars")
    assert missing(query, file) == []


def test_indexes_with_another_sort_order_are_not_merged(cities: BaseQuery) -> None:
    query = where(cities, "category ==", "city ==").order_by("stars")
    file = declared("category, stars", "city, stars DESCENDING")
    assert missing(query, file) == ["category ASCENDING, city ASCENDING, stars ASCENDING"]


@pytest.mark.parametrize("filters", [["a ==", "b ==", "c >"], ["a in", "b ==", "c =="]])
def test_neither_ranges_nor_sorted_disjunctions_are_merged(
    cities: BaseQuery, filters: list[str]
) -> None:
    """The documentation promises merging for equalities with an order, and no more."""
    query = where(cities, *filters).order_by("z" if "c ==" in filters else "c")
    file = declared("a, c", "b, c", "a, z", "b, z", "c, z")
    assert len(missing(query, file)) == 1


def test_an_array_filter_before_an_order_needs_an_index(cities: BaseQuery) -> None:
    query = where(cities, "pending array_contains", "retry_at <=").order_by("retry_at")
    assert missing(query) == ["pending CONTAINS, retry_at ASCENDING"]
    assert missing(query, declared("pending CONTAINS, retry_at")) == []


def test_each_side_of_an_or_needs_its_index(cities: BaseQuery) -> None:
    either = Or([FieldFilter("a", ">", 2), FieldFilter("b", "==", 1)])
    assert missing(cities.where(filter=either)) == ["b ASCENDING, a ASCENDING"]
    assert missing(cities.where(filter=either).order_by("c")) == [
        "b ASCENDING, c ASCENDING, a ASCENDING",
        "c ASCENDING, a ASCENDING",
    ]


def test_an_and_over_an_or_is_multiplied_out(cities: BaseQuery) -> None:
    either = Or([FieldFilter("a", "==", 1), FieldFilter("b", "==", 1)])
    both = And([FieldFilter("c", "==", 1), either])
    assert missing(cities.where(filter=both).order_by("d")) == [
        "a ASCENDING, c ASCENDING, d ASCENDING",
        "b ASCENDING, c ASCENDING, d ASCENDING",
    ]


def test_counting_needs_what_the_query_needs(cities: BaseQuery) -> None:
    assert missing(where(cities, "a ==", "b ==").count()) == []
    assert missing(where(cities, "a ==", "b >").count()) == ["a ASCENDING, b ASCENDING"]


def test_a_sum_needs_its_field_in_the_index(cities: BaseQuery) -> None:
    assert missing(cities.sum("pages")) == []
    assert missing(where(cities, "a ==").sum("pages")) == ["a ASCENDING, pages ASCENDING"]


def test_summed_fields_follow_the_sort_order_by_name(cities: BaseQuery) -> None:
    query = where(cities, "tags array_contains", "year >").sum("rating").avg("pages")
    fields = "tags CONTAINS, year ASCENDING, pages ASCENDING, rating ASCENDING"
    assert missing(query) == [fields]


def test_a_vector_query_needs_a_vector_index(cities: BaseQuery) -> None:
    assert missing(nearest(cities)) == ["embedding VECTOR"]
    assert missing(nearest(cities), declared("embedding 768")) == []


def test_each_prefilter_of_a_vector_query_needs_its_own_index(cities: BaseQuery) -> None:
    query = nearest(where(cities, "a ==", "tags array_contains"))
    partial = declared("embedding 768", "a, embedding 768", "tags CONTAINS, embedding 768")
    assert missing(query, partial) == ["a ASCENDING, tags CONTAINS, embedding VECTOR"]
    assert missing(query, declared("tags CONTAINS, a, embedding 768")) == []


def test_a_prefilter_may_be_a_range_after_the_equalities(cities: BaseQuery) -> None:
    query = nearest(where(cities, "b <", "c =="))
    assert missing(query) == ["c ASCENDING, b ASCENDING, embedding VECTOR"]


def test_a_vector_index_needs_the_dimension_of_the_cloud(cities: BaseQuery) -> None:
    assert missing(nearest(cities), declared("embedding 3")) == ["embedding VECTOR"]


def test_a_collection_group_has_no_automatic_indexes(landmarks: BaseQuery) -> None:
    assert missing(landmarks) == []
    assert missing(where(landmarks, "a ==", "tags array_contains")) == [
        "a ASCENDING",
        "tags CONTAINS",
    ]


def test_an_override_gives_a_collection_group_an_index(landmarks: BaseQuery) -> None:
    group = {"queryScope": "COLLECTION_GROUP", "order": "DESCENDING"}
    file = declared(overrides=(override("a", group, collection="landmarks"),))
    assert missing(landmarks.order_by("a", direction=DOWN), file) == []
    assert missing(landmarks.order_by("a"), file) == ["a ASCENDING"]


def test_an_exempt_field_has_no_automatic_index(cities: BaseQuery) -> None:
    file = declared("a, b", "a, c", overrides=(override("a"),))
    assert missing(where(cities, "a =="), file) == ["a ASCENDING"]
    assert missing(where(cities, "a ==").order_by("b"), file) == []


def test_a_composite_index_replaces_an_exempt_one(cities: BaseQuery) -> None:
    file = declared("a, b", overrides=(override("a"),))
    assert missing(where(cities, "a ==", "b ==", "c =="), file) == []


def test_subfields_inherit_the_exemption_of_their_map(cities: BaseQuery) -> None:
    file = declared(overrides=(override("counts"),))
    assert missing(where(cities, "counts.word >"), file) == ["counts.word ASCENDING"]


def test_a_star_exempts_every_field_that_has_no_override(cities: BaseQuery) -> None:
    kept = override("a", {"queryScope": "COLLECTION", "order": "ASCENDING"})
    file = declared(overrides=(override("*"), kept))
    assert missing(where(cities, "a ==", "b =="), file) == ["b ASCENDING"]


def test_a_ttl_policy_alone_leaves_the_automatic_indexes(cities: BaseQuery) -> None:
    policy = {"collectionGroup": "cities", "fieldPath": "expires_at", "ttl": True}
    assert missing(where(cities, "expires_at >"), declared(overrides=(policy,))) == []


def test_a_default_name_in_the_file_makes_no_difference(cities: BaseQuery) -> None:
    query = where(cities, "a ==").order_by("b", direction=DOWN)
    assert missing(query, declared("a, b DESCENDING, __name__ DESCENDING")) == []
    assert missing(nearest(cities), declared("__name__, embedding 768")) == []
