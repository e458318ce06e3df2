"""The check follows Firestore's rules about which queries need which composite index."""

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

DESCENDING = Query.DESCENDING


@pytest.fixture
def client() -> Client:
    """A client to build queries, which are never run."""
    anonymous = AnonymousCredentials()
    return Client(project="rules", credentials=anonymous)


@pytest.fixture
def cities(client: Client) -> BaseQuery:
    """A query of a whole collection."""
    return client.collection("cities").select([])


@pytest.fixture
def landmarks(client: Client) -> BaseQuery:
    """A query of a whole collection group."""
    return client.collection_group("landmarks")


def add_filters(query: Any, *filters: str) -> Any:
    """Add filters like `state ==` or `tags array_contains`; the values do not matter."""
    for field, operator in (text.split() for text in filters):
        plural = operator in ("in", "not-in", "array_contains_any")
        query = query.where(filter=FieldFilter(field, operator, ["x", "y"] if plural else "x"))
    return query


def add_vector_search(query: Any) -> Any:
    """Add a vector search on `embedding`, with a vector of three dimensions."""
    vector = Vector([1.0, 0.0, 0.0])
    return query.find_nearest("embedding", vector, limit=5, distance_measure=DistanceMeasure.COSINE)


def make_file(*indexes: str, overrides: tuple[dict[str, Any], ...] = ()) -> IndexFile:
    """Make a file with composite indexes like `state, population DESCENDING, embedding 768`."""
    entries = [
        {
            "collectionGroup": "cities",
            "queryScope": "COLLECTION",
            "fields": [make_field_entry(*field.split()) for field in index.split(", ")],
        }
        for index in indexes
    ]
    return IndexFile.parse(json.dumps({"indexes": entries, "fieldOverrides": overrides}))


def make_field_entry(path: str, mode: str = "ASCENDING") -> dict[str, Any]:
    """Make a field of an index."""
    if mode.isdigit():
        return {"fieldPath": path, "vectorConfig": {"dimension": int(mode), "flat": {}}}
    return {"fieldPath": path, "arrayConfig" if mode == "CONTAINS" else "order": mode}


def make_override(
    path: str, *indexes: dict[str, str], collection: str = "cities"
) -> dict[str, Any]:
    """Make an entry of `fieldOverrides`."""
    return {"collectionGroup": collection, "fieldPath": path, "indexes": indexes}


def find_missing_indexes(query: Any, file: IndexFile | None = None) -> list[str]:
    """Return the fields of the indexes that a query needs and a file lacks."""
    verdict = check(build_shapes([query]), file or make_file(), 768)
    return sorted(str(index).partition(": ")[2] for index in verdict.missing)


def test_reading_a_whole_collection_needs_no_index(cities: BaseQuery) -> None:
    assert find_missing_indexes(cities) == []


@pytest.mark.parametrize(
    "filter_",
    ["a ==", "a in", "a <", "a !=", "a not-in", "a array_contains", "a array_contains_any"],
)
def test_one_filter_uses_the_automatic_index(cities: BaseQuery, filter_: str) -> None:
    assert find_missing_indexes(add_filters(cities, filter_)) == []


def test_sorting_by_one_field_uses_an_automatic_index(cities: BaseQuery) -> None:
    assert find_missing_indexes(cities.order_by("a")) == []
    assert find_missing_indexes(cities.order_by("a", direction=DESCENDING)) == []


def test_equalities_merge_the_automatic_indexes(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_filters(cities, "a ==", "b ==", "c in")) == []


def test_an_array_filter_merges_with_equalities(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_filters(cities, "tags array_contains", "a ==")) == []


def test_is_null_is_an_equality_and_not_null_a_range(cities: BaseQuery) -> None:
    null = cities.where(filter=FieldFilter("a", "==", None))
    not_null = cities.where(filter=FieldFilter("a", "!=", None))
    assert find_missing_indexes(add_filters(null, "b ==")) == []
    assert find_missing_indexes(add_filters(not_null, "b ==")) == ["b ASCENDING, a ASCENDING"]


def test_an_equality_before_a_range_needs_a_composite_index(cities: BaseQuery) -> None:
    query = add_filters(cities, "country ==", "population >")
    assert find_missing_indexes(query) == ["country ASCENDING, population ASCENDING"]
    assert find_missing_indexes(query, make_file("country, population")) == []


def test_an_equality_field_may_be_indexed_in_either_direction(cities: BaseQuery) -> None:
    file = make_file("country DESCENDING, population")
    assert find_missing_indexes(add_filters(cities, "country ==", "population >"), file) == []


def test_in_and_equality_share_an_index(cities: BaseQuery) -> None:
    file = make_file("country, population")
    assert find_missing_indexes(add_filters(cities, "country in", "population >"), file) == []


def test_equality_fields_in_any_order_precede_the_sort_order(cities: BaseQuery) -> None:
    query = add_filters(cities, "a ==", "b ==").order_by("c")
    assert find_missing_indexes(query, make_file("b, a, c")) == []
    assert find_missing_indexes(query, make_file("a, c, b")) == [
        "a ASCENDING, b ASCENDING, c ASCENDING"
    ]


def test_an_index_is_not_read_backwards(cities: BaseQuery) -> None:
    query = add_filters(cities, "country ==").order_by("population", direction=DESCENDING)
    missing = find_missing_indexes(query, make_file("country, population"))
    assert missing == ["country ASCENDING, population DESCENDING"]


def test_the_fields_of_the_sort_order_keep_their_order(cities: BaseQuery) -> None:
    query = cities.order_by("a").order_by("b", direction=DESCENDING)
    assert find_missing_indexes(query, make_file("b DESCENDING, a")) == [
        "a ASCENDING, b DESCENDING"
    ]
    assert find_missing_indexes(query, make_file("a, b DESCENDING")) == []


def test_ranges_on_several_fields_are_sorted_by_name(cities: BaseQuery) -> None:
    query = add_filters(cities, "population >", "density <")
    assert find_missing_indexes(query) == ["density ASCENDING, population ASCENDING"]


def test_an_implied_range_follows_the_explicit_direction(cities: BaseQuery) -> None:
    query = add_filters(cities, "a >").order_by("z", direction=DESCENDING)
    assert find_missing_indexes(query) == ["z DESCENDING, a DESCENDING"]


def test_a_field_that_is_equal_in_all_results_needs_no_sorting(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_filters(cities, "a ==", "b ==").order_by("a")) == []


def test_a_field_that_is_one_of_several_does_need_sorting(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_filters(cities, "a in", "b ==").order_by("a")) == [
        "b ASCENDING, a ASCENDING"
    ]


def test_document_names_sort_last_in_the_direction_of_the_order(cities: BaseQuery) -> None:
    descending_query = cities.order_by("a", direction=DESCENDING)
    assert find_missing_indexes(descending_query.order_by("__name__", direction=DESCENDING)) == []
    assert find_missing_indexes(descending_query.order_by("__name__")) == [
        "a DESCENDING, __name__ ASCENDING"
    ]


def test_sorting_by_descending_name_needs_an_index(cities: BaseQuery) -> None:
    assert find_missing_indexes(cities.order_by("__name__")) == []
    descending_query = cities.order_by("__name__", direction=DESCENDING)
    assert find_missing_indexes(descending_query) == ["__name__ DESCENDING"]
    assert find_missing_indexes(descending_query, make_file("__name__ DESCENDING")) == []


def test_an_equality_before_descending_names_needs_an_index(cities: BaseQuery) -> None:
    query = add_filters(cities, "a ==").order_by("__name__", direction=DESCENDING)
    assert find_missing_indexes(query) == ["a ASCENDING, __name__ DESCENDING"]


def test_a_later_page_needs_the_index_of_the_first(cities: BaseQuery) -> None:
    query = add_filters(cities, "a ==").order_by("b").order_by("__name__")
    page = query.start_after({"b": 1, "__name__": "x"})
    assert find_missing_indexes(page, make_file("a, b")) == []


def test_indexes_with_the_same_sort_order_are_merged(cities: BaseQuery) -> None:
    query = add_filters(cities, "category ==", "city ==", "pick ==").order_by("stars")
    file = make_file("category, stars", "city, stars", "pick, stars")
    assert find_missing_indexes(query, file) == []


def test_indexes_with_another_sort_order_are_not_merged(cities: BaseQuery) -> None:
    query = add_filters(cities, "category ==", "city ==").order_by("stars")
    file = make_file("category, stars", "city, stars DESCENDING")
    assert find_missing_indexes(query, file) == [
        "category ASCENDING, city ASCENDING, stars ASCENDING"
    ]


@pytest.mark.parametrize("filters", [["a ==", "b ==", "c >"], ["a in", "b ==", "c =="]])
def test_neither_ranges_nor_sorted_disjunctions_are_merged(
    cities: BaseQuery, filters: list[str]
) -> None:
    """The documentation promises merging for equalities with an order, and no more."""
    query = add_filters(cities, *filters).order_by("z" if "c ==" in filters else "c")
    file = make_file("a, c", "b, c", "a, z", "b, z", "c, z")
    assert len(find_missing_indexes(query, file)) == 1


def test_an_array_filter_before_an_order_needs_an_index(cities: BaseQuery) -> None:
    query = add_filters(cities, "pending array_contains", "retry_at <=").order_by("retry_at")
    assert find_missing_indexes(query) == ["pending CONTAINS, retry_at ASCENDING"]
    assert find_missing_indexes(query, make_file("pending CONTAINS, retry_at")) == []


def test_each_side_of_an_or_needs_its_index(cities: BaseQuery) -> None:
    either = Or([FieldFilter("a", ">", 2), FieldFilter("b", "==", 1)])
    assert find_missing_indexes(cities.where(filter=either)) == ["b ASCENDING, a ASCENDING"]
    assert find_missing_indexes(cities.where(filter=either).order_by("c")) == [
        "b ASCENDING, c ASCENDING, a ASCENDING",
        "c ASCENDING, a ASCENDING",
    ]


def test_an_and_over_an_or_is_multiplied_out(cities: BaseQuery) -> None:
    either = Or([FieldFilter("a", "==", 1), FieldFilter("b", "==", 1)])
    condition = And([FieldFilter("c", "==", 1), either])
    assert find_missing_indexes(cities.where(filter=condition).order_by("d")) == [
        "a ASCENDING, c ASCENDING, d ASCENDING",
        "b ASCENDING, c ASCENDING, d ASCENDING",
    ]


def test_counting_needs_the_same_indexes_as_the_query(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_filters(cities, "a ==", "b ==").count()) == []
    assert find_missing_indexes(add_filters(cities, "a ==", "b >").count()) == [
        "a ASCENDING, b ASCENDING"
    ]


def test_a_sum_needs_its_field_in_the_index(cities: BaseQuery) -> None:
    assert find_missing_indexes(cities.sum("pages")) == []
    assert find_missing_indexes(add_filters(cities, "a ==").sum("pages")) == [
        "a ASCENDING, pages ASCENDING"
    ]


def test_summed_fields_follow_the_sort_order_by_name(cities: BaseQuery) -> None:
    query = add_filters(cities, "tags array_contains", "year >").sum("rating").avg("pages")
    fields = "tags CONTAINS, year ASCENDING, pages ASCENDING, rating ASCENDING"
    assert find_missing_indexes(query) == [fields]


def test_a_vector_query_needs_a_vector_index(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_vector_search(cities)) == ["embedding VECTOR"]
    assert find_missing_indexes(add_vector_search(cities), make_file("embedding 768")) == []


def test_each_prefilter_of_a_vector_query_needs_its_own_index(cities: BaseQuery) -> None:
    query = add_vector_search(add_filters(cities, "a ==", "tags array_contains"))
    partial = make_file("embedding 768", "a, embedding 768", "tags CONTAINS, embedding 768")
    assert find_missing_indexes(query, partial) == ["a ASCENDING, tags CONTAINS, embedding VECTOR"]
    assert find_missing_indexes(query, make_file("tags CONTAINS, a, embedding 768")) == []


def test_a_prefilter_may_be_a_range_after_the_equalities(cities: BaseQuery) -> None:
    query = add_vector_search(add_filters(cities, "b <", "c =="))
    assert find_missing_indexes(query) == ["c ASCENDING, b ASCENDING, embedding VECTOR"]


def test_a_vector_index_needs_the_dimension_of_the_cloud(cities: BaseQuery) -> None:
    assert find_missing_indexes(add_vector_search(cities), make_file("embedding 3")) == [
        "embedding VECTOR"
    ]


def test_a_collection_group_has_no_automatic_indexes(landmarks: BaseQuery) -> None:
    assert find_missing_indexes(landmarks) == []
    assert find_missing_indexes(add_filters(landmarks, "a ==", "tags array_contains")) == [
        "a ASCENDING",
        "tags CONTAINS",
    ]


def test_an_override_gives_a_collection_group_an_index(landmarks: BaseQuery) -> None:
    group = {"queryScope": "COLLECTION_GROUP", "order": "DESCENDING"}
    file = make_file(overrides=(make_override("a", group, collection="landmarks"),))
    assert find_missing_indexes(landmarks.order_by("a", direction=DESCENDING), file) == []
    assert find_missing_indexes(landmarks.order_by("a"), file) == ["a ASCENDING"]


def test_an_exempt_field_has_no_automatic_index(cities: BaseQuery) -> None:
    file = make_file("a, b", "a, c", overrides=(make_override("a"),))
    assert find_missing_indexes(add_filters(cities, "a =="), file) == ["a ASCENDING"]
    assert find_missing_indexes(add_filters(cities, "a ==").order_by("b"), file) == []


def test_a_composite_index_replaces_the_index_of_an_exempt_field(cities: BaseQuery) -> None:
    file = make_file("a, b", overrides=(make_override("a"),))
    assert find_missing_indexes(add_filters(cities, "a ==", "b ==", "c =="), file) == []


def test_subfields_inherit_the_exemption_of_their_map(cities: BaseQuery) -> None:
    file = make_file(overrides=(make_override("counts"),))
    assert find_missing_indexes(add_filters(cities, "counts.word >"), file) == [
        "counts.word ASCENDING"
    ]


def test_a_star_exempts_every_field_that_has_no_override(cities: BaseQuery) -> None:
    field_override = make_override("a", {"queryScope": "COLLECTION", "order": "ASCENDING"})
    file = make_file(overrides=(make_override("*"), field_override))
    assert find_missing_indexes(add_filters(cities, "a ==", "b =="), file) == ["b ASCENDING"]


def test_a_ttl_policy_alone_leaves_the_automatic_indexes(cities: BaseQuery) -> None:
    policy = {"collectionGroup": "cities", "fieldPath": "expires_at", "ttl": True}
    file = make_file(overrides=(policy,))
    assert find_missing_indexes(add_filters(cities, "expires_at >"), file) == []


def test_an_index_file_may_list_the_default_document_name(cities: BaseQuery) -> None:
    query = add_filters(cities, "a ==").order_by("b", direction=DESCENDING)
    assert find_missing_indexes(query, make_file("a, b DESCENDING, __name__ DESCENDING")) == []
    vector_query = add_vector_search(cities)
    assert find_missing_indexes(vector_query, make_file("__name__, embedding 768")) == []
