"""What Firestore promises, and what is easy to get wrong, on the emulator and the embedded one."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from google.api_core import exceptions
from google.cloud.firestore import (
    DELETE_FIELD,
    SERVER_TIMESTAMP,
    ArrayRemove,
    ArrayUnion,
    AsyncClient,
    AsyncCollectionReference,
    ExistsOption,
    GeoPoint,
    Increment,
    LastUpdateOption,
)
from google.cloud.firestore_v1.base_query import FieldFilter, Or
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.types import CommitRequest, DocumentTransform, Value, Write
from google.cloud.firestore_v1.vector import Vector

BIG = 2**53


async def write_all(client: AsyncClient, values: dict[str, Any]) -> AsyncCollectionReference:
    """Write documents with one field each, and return their collection."""
    batch = client.batch()
    for name, value in values.items():
        batch.set(client.collection("c").document(name), {"a": value})
    await batch.commit()
    return client.collection("c")


async def ids(query: Any) -> list[str]:
    return [snapshot.id for snapshot in await query.get()]


def where(query: Any, field: str, operator: str, value: object) -> Any:
    return query.where(filter=FieldFilter(field, operator, value))


async def test_orders_values_by_type_and_then_by_value(client: AsyncClient) -> None:
    ordered = [
        None,
        False,
        True,
        math.nan,
        -math.inf,
        -(2**63),
        -1.5,
        0,
        0.5,
        1,
        BIG,
        BIG + 1,
        2**63 - 1,
        math.inf,
        datetime(1960, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        "",
        "a",
        "a\0",
        "ab",
        "b",
        "\uffff",
        "\U0001f600",
        b"",
        b"\0",
        b"\xff",
        client.document("c/1"),
        client.document("c/1/d/1"),
        client.document("c/10"),
        client.document("c/2"),
        GeoPoint(-1, 5),
        GeoPoint(0, -5),
        GeoPoint(0, 5),
        [],
        [1],
        [1, 2],
        ["a"],
        Vector([5.0]),
        Vector([1.0, 2.0]),
        {},
        {"a": 1},
        {"a": 1, "b": 1},
        {"a": 2},
        {"b": 0},
    ]
    collection = await write_all(
        client, {f"{number:02}": value for number, value in enumerate(ordered)}
    )

    ascending = await ids(collection.order_by("a"))
    descending = await ids(collection.order_by("a", direction="DESCENDING"))

    assert [f"{number:02}" for number in range(len(ordered))] == ascending
    assert ascending == descending[::-1]


async def test_numbers_are_equal_by_value_not_by_type(client: AsyncClient) -> None:
    values = {"1": 1, "1.0": 1.0, "0": 0, "-0.0": -0.0, "b": BIG, "b.0": float(BIG), "b+1": BIG + 1}
    collection = await write_all(client, values)

    assert ["1", "1.0"] == await ids(where(collection, "a", "==", 1.0))
    assert ["-0.0", "0"] == await ids(where(collection, "a", "==", 0))
    assert ["b", "b.0"] == await ids(where(collection, "a", "==", float(BIG)))
    assert ["b+1"] == await ids(where(collection, "a", ">", float(BIG)))


async def test_comparisons_leave_out_nan_and_null(client: AsyncClient) -> None:
    collection = await write_all(client, {"nan": math.nan, "null": None, "1": 1, "inf": -math.inf})

    assert ["inf", "1"] == await ids(where(collection, "a", "<", 5))
    assert ["inf", "1"] == await ids(where(collection, "a", ">=", -math.inf))
    assert ["nan"] == await ids(where(collection, "a", "==", math.nan))
    assert ["null"] == await ids(where(collection, "a", "==", None))


async def test_not_equal_leaves_out_null_and_missing(client: AsyncClient) -> None:
    collection = await write_all(client, {"nan": math.nan, "null": None, "1": 1, "a": "a"})
    await collection.document("none").set({"b": 1})

    assert ["nan", "a"] == await ids(where(collection, "a", "!=", 1))
    assert ["nan", "1", "a"] == await ids(where(collection, "a", "!=", None))
    assert ["1", "a"] == await ids(where(collection, "a", "!=", math.nan))
    assert ["nan"] == await ids(where(collection, "a", "not-in", [1, "a"]))


async def test_ranges_keep_to_the_type_of_their_bound(client: AsyncClient) -> None:
    collection = await write_all(
        client, {"empty": [], "one": [1], "map": {"a": 1}, "text": "a", "number": 5}
    )

    assert ["one"] == await ids(where(collection, "a", ">", []))
    assert ["empty", "one"] == await ids(where(collection, "a", ">=", []))
    assert ["map"] == await ids(where(collection, "a", ">=", {}))
    assert ["number"] == await ids(where(collection, "a", "<", 6))
    assert ["text"] == await ids(where(collection, "a", ">=", ""))


async def test_an_order_leaves_out_documents_without_the_field(client: AsyncClient) -> None:
    collection = await write_all(client, {"null": None, "1": 1})
    await collection.document("none").set({"b": 1})

    query: Any = collection.order_by("a")

    assert ["null", "1"] == await ids(query)
    assert 2 == (await query.count().get())[0][0].value


async def test_an_inequality_orders_and_the_last_direction_decides(client: AsyncClient) -> None:
    collection = await write_all(client, {"x": 1, "y": 1, "z": 0})

    assert ["z", "x", "y"] == await ids(where(collection, "a", ">=", 0))
    descending = where(collection, "a", ">=", 0).order_by("a", direction="DESCENDING")
    assert ["y", "x", "z"] == await ids(descending)


async def test_cursors_are_before_or_after_their_values(client: AsyncClient) -> None:
    collection = await write_all(client, {name: int(name) for name in "1234"})
    query = collection.order_by("a")

    assert ["2", "3", "4"] == await ids(query.start_at({"a": 2}))
    assert ["3", "4"] == await ids(query.start_after({"a": 2}))
    assert ["1", "2", "3"] == await ids(query.end_at({"a": 3}))
    assert ["1", "2"] == await ids(query.end_before({"a": 3}))

    await collection.document("22").set({"a": 2})
    by_name = query.order_by("__name__")
    assert ["3", "4"] == await ids(by_name.start_after({"a": 2}))  # a prefix of the order
    after = {"a": 2, "__name__": collection.document("2")}
    assert ["22", "3", "4"] == await ids(by_name.start_after(after))


async def test_ids_are_ordered_by_their_bytes(client: AsyncClient) -> None:
    names = ["10", "2", "A", "a", "~", "é", "\uffff", "\U0001f600"]
    collection = await write_all(client, dict.fromkeys(reversed(names), 1))

    assert names == await ids(collection)
    assert names == await ids(where(collection, "a", "==", 1))


async def test_in_and_array_contains_any_are_unions(client: AsyncClient) -> None:
    collection = await write_all(client, {"1": 1, "2": 2, "3": [1, 2], "4": [2, 3], "5": None})

    assert ["1", "2"] == await ids(where(collection, "a", "in", [2, 1, 1.0, 7]))
    assert ["3"] == await ids(where(collection, "a", "in", [[1, 2]]))
    assert ["3", "4"] == await ids(where(collection, "a", "array_contains_any", [1, 2, 3]))
    either = Or([FieldFilter("a", "==", 1), FieldFilter("a", "in", [1, 2])])
    assert ["1", "2"] == await ids(collection.where(filter=either))  # each document once


@pytest.mark.parametrize("operator", ["in", "array_contains_any", "not-in"])
async def test_lists_of_values_have_1_to_30(client: AsyncClient, operator: str) -> None:
    collection = client.collection("c")
    limit = 10 if operator == "not-in" else 30
    for values in ([], list(range(limit + 1))):
        with pytest.raises(exceptions.InvalidArgument):
            await where(collection, "a", operator, values).get()
    await where(collection, "a", operator, list(range(limit))).get()


async def test_filters_that_exclude_each_other_are_refused(client: AsyncClient) -> None:
    def nearest(limit: int) -> Any:
        vector, measure = Vector([1.0, 0.0]), DistanceMeasure.COSINE
        return collection.find_nearest("e", vector, distance_measure=measure, limit=limit)

    collection: Any = client.collection("c")
    containing = where(collection, "a", "array_contains", 1)
    named = where(collection, "__name__", "==", client.document("c/x"))
    await where(containing, "a", "array_contains", 1).get()  # the same one
    await where(named, "__name__", ">", client.document("c/a")).get()
    await nearest(1_000).get()
    for query in (
        where(containing, "a", "array_contains", 2),
        where(named, "a", "<", 5),
        nearest(0),
        nearest(1_001),
    ):
        with pytest.raises(exceptions.InvalidArgument):
            await query.get()


async def test_array_union_adds_new_values_and_remove_all_equal_ones(client: AsyncClient) -> None:
    document = (await write_all(client, {"x": [1, 1, "a"]})).document("x")

    await document.update({"a": ArrayUnion([1.0, 2, 2, "a"]), "new": ArrayUnion([3])})
    assert {"a": [1, 1, "a", 2], "new": [3]} == (await document.get()).to_dict()

    await document.update({"a": ArrayRemove([1.0, "b"]), "other": ArrayRemove([3])})
    assert {"a": ["a", 2], "new": [3], "other": []} == (await document.get()).to_dict()


async def test_increments_clamp_and_replace_what_is_no_number(client: AsyncClient) -> None:
    fields = {"top": 2**63 - 1, "bottom": -(2**63), "mixed": 1, "text": "a"}
    document = client.document("c/x")
    await document.set(fields)

    await document.update(
        {
            "top": Increment(1),
            "bottom": Increment(-1),
            "mixed": Increment(0.5),
            "text": Increment(2),
            "new.deep": Increment(3),
        }
    )

    stored = (await document.get()).to_dict()
    assert stored == {
        "top": 2**63 - 1,
        "bottom": -(2**63),
        "mixed": 1.5,
        "text": 2,
        "new": {"deep": 3},
    }
    assert isinstance(stored["top"], int)


async def test_a_commit_has_one_server_time_in_milliseconds(client: AsyncClient) -> None:
    batch = client.batch()
    for name in "xy":
        batch.set(client.document(f"c/{name}"), {"a": SERVER_TIMESTAMP})
    await batch.commit()

    first, second = [await client.document(f"c/{name}").get() for name in "xy"]
    assert first.get("a") == second.get("a")
    assert 0 == first.get("a").microsecond % 1000
    assert abs(first.get("a") - first.update_time) < timedelta(seconds=5)


async def test_a_path_of_the_mask_deletes_or_replaces_a_map(client: AsyncClient) -> None:
    document = client.document("c/x")
    await document.set({"a": 1, "m": {"x": 1, "y": 2}, "n": {"x": 1}})

    await document.update(
        {"a": DELETE_FIELD, "m.x": DELETE_FIELD, "none": DELETE_FIELD, "n": {"z": 3}, "s.deep": 4}
    )

    stored = (await document.get()).to_dict()
    assert {"m": {"y": 2}, "n": {"z": 3}, "s": {"deep": 4}} == stored


async def test_paths_quote_names_with_dots_and_quotes(client: AsyncClient) -> None:
    document = client.document("c/x")
    await document.set({"a.b": 1, "m": {"c`d\\": 2}})

    await document.update({client.field_path("a.b"): 3, client.field_path("m", "c`d\\"): 4})

    assert {"a.b": 3, "m": {"c`d\\": 4}} == (await document.get()).to_dict()
    assert ["x"] == await ids(where(client.collection("c"), client.field_path("a.b"), "==", 3))


async def test_preconditions_fail_with_their_own_errors(client: AsyncClient) -> None:
    document = client.document("c/x")
    with pytest.raises(exceptions.NotFound):
        await document.update({"a": 1})
    await document.create({"a": 1})
    with pytest.raises(exceptions.AlreadyExists):
        await document.create({"a": 1})
    stale = LastUpdateOption(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(exceptions.FailedPrecondition):
        await document.update({"a": 2}, option=stale)
    with pytest.raises(exceptions.FailedPrecondition):
        await client.document("c/gone").update({"a": 2}, option=stale)
    with pytest.raises(exceptions.NotFound):
        await client.document("c/gone").delete(option=ExistsOption(exists=True))
    await client.document("c/gone").delete()


async def test_a_failed_commit_writes_nothing(client: AsyncClient) -> None:
    batch = client.batch()
    batch.set(client.document("c/x"), {"a": 1})
    batch.update(client.document("c/gone"), {"a": 1})

    with pytest.raises(exceptions.NotFound):
        await batch.commit()

    assert [] == await ids(client.collection("c"))


async def test_a_write_that_changes_nothing_keeps_update_time(client: AsyncClient) -> None:
    document = client.document("c/x")
    first = await document.set({"a": 1})
    second = await document.set({"a": 1})
    third = await document.set({"a": 2})

    assert first.update_time == second.update_time < third.update_time
    assert (await document.get()).create_time == first.update_time

    await document.delete()
    fourth = await document.set({"a": 2})
    assert third.update_time < fourth.update_time == (await document.get()).create_time

    batch = client.batch()
    batch.delete(document)
    batch.set(document, {"a": 2})
    [_, fifth] = await batch.commit()
    assert fourth.update_time < fifth.update_time == (await document.get()).create_time


async def test_a_transform_in_a_write_of_its_own_is_applied(client: AsyncClient) -> None:
    """Older clients send one, instead of `update_transforms`."""
    document = client.document("c/x")
    await document.set({"a": 1})
    increment = DocumentTransform.FieldTransform(field_path="a", increment=Value(integer_value=2))
    path = document._document_path  # noqa: SLF001 - there is no public one
    transform = DocumentTransform(document=path, field_transforms=[increment])
    request = CommitRequest(
        database=path.partition("/documents/")[0], writes=[Write(transform=transform)]
    )
    await client._firestore_api.commit(request)  # noqa: SLF001
    assert (await document.get()).to_dict() == {"a": 3}


async def test_writes_to_one_document_apply_in_order(client: AsyncClient) -> None:
    document = client.document("c/x")
    batch = client.batch()
    batch.set(document, {"a": 1})
    batch.set(document, {"b": 2}, merge=True)
    batch.set(document, {"a": 3}, merge=True)
    await batch.commit()

    assert {"a": 3, "b": 2} == (await document.get()).to_dict()


async def test_a_batch_answers_duplicates_once_and_all_times(client: AsyncClient) -> None:
    collection = await write_all(client, {"x": 1})
    references = [collection.document(name) for name in ("x", "gone", "x")]

    snapshots = [snapshot async for snapshot in client.get_all(references)]

    assert [("gone", False), ("x", True)] == sorted(
        (snapshot.id, snapshot.exists) for snapshot in snapshots
    )
    assert all(snapshot.read_time for snapshot in snapshots)


async def test_masks_select_fields_of_answers(client: AsyncClient) -> None:
    document = client.document("c/x")
    await document.set({"a": 1, "m": {"x": 1, "y": 2}})

    assert {"m": {"x": 1}} == (await document.get(field_paths=["m.x", "none"])).to_dict()
    [name_only] = await client.collection("c").select([]).get()
    assert {} == name_only.to_dict()
    [selected] = await client.collection("c").select(["m.y"]).get()
    assert {"m": {"y": 2}} == selected.to_dict()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((name, {"a": 1}) for name in ("__x__", "x" * 1_501, ".", "..")),
        ("x", {"__a__": 1}),
        ("x", {"a": [[1]]}),
        pytest.param("x", {"a": "x" * 2**20}, id="1 MiB"),
        ("x", {"a": Vector([math.nan])}),
        pytest.param("x", {"a": Vector([1.0] * 2_049)}, id="vector of 2049"),
    ],
)
async def test_rejects_what_no_document_may_have(
    client: AsyncClient, name: str, fields: Any
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await client.collection("c").document(name).set(fields)


def nest(depth: int) -> dict[str, Any]:
    return {"a": nest(depth - 1)} if depth > 1 else {"a": 1}


@pytest.mark.emulator_differs("the emulator accepts 21")
async def test_maps_are_at_most_20_deep(client: AsyncClient) -> None:
    await client.document("c/x").set(nest(20))
    with pytest.raises(exceptions.InvalidArgument):
        await client.document("c/x").set(nest(21))


async def test_missing_parents_are_listed_when_asked_for(client: AsyncClient) -> None:
    await client.document("c/parent/d/child").set({"a": 1})

    assert [] == await ids(client.collection("c"))
    listed = [document.id async for document in client.collection("c").list_documents()]
    assert ["parent"] == listed
    assert ["c"] == [collection.id async for collection in client.collections()]
    assert ["d"] == [
        collection.id async for collection in client.document("c/parent").collections()
    ]


async def test_a_collection_group_has_any_depth_by_full_name(client: AsyncClient) -> None:
    paths = ["d/1", "c/1/d/2", "c/1/d/1", "a/1/b/1/d/9", "c/1/dd/1"]
    for path in paths:
        await client.document(path).set({"a": 1})

    snapshots = await client.collection_group("d").order_by("__name__").get()

    assert ["a/1/b/1/d/9", "c/1/d/1", "c/1/d/2", "d/1"] == [
        snapshot.reference.path for snapshot in snapshots
    ]


async def test_limits_and_offsets_cut_the_answers(client: AsyncClient) -> None:
    collection = await write_all(client, {name: int(name) for name in "1234"})
    query = collection.order_by("a")

    assert ["1", "2"] == await ids(query.limit(2))
    assert ["2", "3"] == await ids(query.offset(1).limit(2))
    assert ["3", "4"] == await ids(query.limit_to_last(2))


async def test_aggregations_count_add_and_average(client: AsyncClient) -> None:
    collection = await write_all(client, {"1": 1, "2": 2.5, "3": "text", "4": None})

    query: Any = collection.count(alias="n").sum("a", alias="s").avg("a", alias="m")
    [results] = await query.get()

    assert {"n": 4, "s": 3.5, "m": 1.75} == {result.alias: result.value for result in results}
    limited: Any = await cast("Any", collection.limit(2).count()).get()
    assert 2 == limited[0][0].value


async def test_finds_the_nearest_with_their_distance(client: AsyncClient) -> None:
    collection = client.collection("c")
    vectors = {"x": [1.0, 0.0], "xy": [1.0, 1.0], "y": [0.0, 2.0], "short": [1.0]}
    for name, vector in vectors.items():
        await collection.document(name).set({"e": Vector(vector), "t": [name[0]]})
    await collection.document("none").set({"e": [1.0, 0.0], "t": ["x"]})

    async def find(query: Any, measure: DistanceMeasure, **options: Any) -> Any:
        nearest = query.find_nearest(
            "e",
            Vector([1.0, 0.0]),
            distance_measure=measure,
            distance_result_field="d",
            **{"limit": 10, **options},
        )
        return [(snapshot.id, pytest.approx(snapshot.get("d"))) for snapshot in await nearest.get()]

    cosines = [("x", 0.0), ("xy", 1 - 0.5**0.5), ("y", 1.0)]
    assert cosines == await find(collection, DistanceMeasure.COSINE)
    assert cosines[:2] == await find(collection, DistanceMeasure.COSINE, limit=2)
    assert cosines == await find(collection, DistanceMeasure.COSINE, distance_threshold=1.0)
    assert [("x", 0.0), ("xy", 1.0), ("y", 5**0.5)] == await find(
        collection, DistanceMeasure.EUCLIDEAN
    )
    assert [("x", 1.0), ("xy", 1.0)] == await find(
        collection, DistanceMeasure.DOT_PRODUCT, distance_threshold=0.5
    )
    prefiltered = where(collection, "t", "array_contains_any", ["y", "z"])
    assert [("y", 1.0)] == await find(prefiltered, DistanceMeasure.COSINE)


async def test_a_transaction_reads_its_beginning_and_conflicts(client: AsyncClient) -> None:
    document = client.document("c/x")
    await document.set({"a": 1})
    transaction = client.transaction(max_attempts=1)
    await transaction._begin()  # noqa: SLF001 - there is no public one
    snapshot = await document.get(transaction=transaction)
    transaction.set(document, {"a": snapshot.get("a") + 1})

    assert {"a": 1} == (await document.get()).to_dict()
    await transaction._commit()  # noqa: SLF001 - there is no public one

    assert {"a": 2} == (await document.get()).to_dict()
