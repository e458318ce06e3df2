"""Clusters: read whole, by size and by likeness; put in beside those that are there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import CentredCluster, Clusters
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import Steps
from shared.knowledge.source import Section, Source
from tests.support.knowledge import BAKING, SAILING, in_chunks
from tests.support.stored_documents import documents, snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.core.meter import Meter
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in in_chunks(BAKING).chunks)
REEF, ANCHOR = (chunk.chunk_id for chunk in in_chunks(SAILING).chunks)


def centred(cluster_id: str, *, centroid: Vector = (1.0, 0.0)) -> CentredCluster:
    cluster = Cluster(cluster_id, cluster_id.title(), "A topic.", ("one", "two"), x=0.5, y=-1.0)
    return CentredCluster(cluster, centroid)


DOUGH = centred("dough", centroid=(0.0, 1.0))
OVENS = centred("ovens", centroid=(0.6, 0.8))
BOATS = centred("boats")


async def put_in(deps: Deps, *sources: Source) -> None:
    await Ingestion(deps.database).save([in_chunks(source) for source in sources], NOON)


async def save(
    deps: Deps,
    clusters: Sequence[CentredCluster],
    members: Mapping[str, Sequence[str]],
    run_id: str = "run-1",
    now: datetime = LATER,
) -> int:
    return await Clusters(deps.database).save(clusters, members, run_id, now)


async def three_clusters(deps: Deps) -> None:
    """Two about baking, one of which holds all of it, and one about boats."""
    await put_in(deps, BAKING, SAILING)
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    await save(deps, [DOUGH, OVENS, BOATS], members)


async def memberships(deps: Deps) -> dict[str, list[str]]:
    """The clusters of each chunk that has any."""
    chunks = await documents(deps, "chunks")
    return {name: data["cluster_id"] for name, data in chunks.items() if data.get("cluster_id")}


async def waiting_since(deps: Deps) -> dict[str, Any]:
    """When each chunk was put into the index's queue."""
    chunks = await documents(deps, "chunks")
    return {name: data["pending"]["index"] for name, data in chunks.items()}


async def test_a_cluster_is_read_as_it_was_saved_with_its_size(deps: Deps) -> None:
    await three_clusters(deps)
    expected = replace(DOUGH.cluster, size=3, run_id="run-1", created_at=LATER)
    assert CentredCluster(expected, (0.0, 1.0)) == await Clusters(deps.database).get("dough")


async def test_a_missing_cluster_is_none(deps: Deps) -> None:
    assert await Clusters(deps.database).get("nowhere") is None


async def test_clusters_are_read_in_the_order_in_which_they_are_named(deps: Deps) -> None:
    await three_clusters(deps)
    found = await Clusters(deps.database).get_all(["ovens", "nowhere", "boats"])
    assert ["ovens", "boats"] == [cluster.cluster_id for cluster in found]


async def test_the_largest_come_first_and_equals_by_descending_id(
    deps: Deps,
) -> None:
    await three_clusters(deps)
    found = await Clusters(deps.database).largest(3)
    expected = [("dough", 3), ("ovens", 1), ("boats", 1)]
    assert expected == [(cluster.cluster_id, cluster.size) for cluster in found]


async def test_a_page_begins_after_what_was_shown_even_if_that_is_gone(deps: Deps) -> None:
    await three_clusters(deps)
    [first] = await Clusters(deps.database).largest(1)
    [second] = await Clusters(deps.database).largest(1, (first.size, first.cluster_id))
    await deps.database.document("clusters", second.cluster_id).delete()
    rest = await Clusters(deps.database).largest(9, (second.size, second.cluster_id))
    assert ["dough", "ovens", "boats"] == [each.cluster_id for each in (first, second, *rest)]


async def test_the_nearest_come_first_with_their_similarity(deps: Deps, meter: Meter) -> None:
    await three_clusters(deps)
    read = meter.documents_read
    found = await Clusters(deps.database).nearest((0.0, 1.0), 2)
    assert [("dough", 1.0), ("ovens", pytest.approx(0.8))] == [
        (related.cluster.cluster_id, related.similarity) for related in found
    ]
    assert meter.documents_read - read == 2


async def test_chunks_know_their_clusters_in_the_order_given(
    deps: Deps,
) -> None:
    await three_clusters(deps)
    expected = {
        KNEAD: ["dough"], STARTER: ["dough"], BAKE: ["dough", "ovens"], REEF: ["boats"],
    }  # fmt: skip
    assert expected == await memberships(deps)


async def test_a_chunk_waits_for_the_index_when_its_clusters_change(deps: Deps) -> None:
    await three_clusters(deps)
    expected = dict.fromkeys((KNEAD, STARTER, BAKE, REEF), LATER) | {ANCHOR: NOON}
    assert expected == await waiting_since(deps)


async def test_a_chunk_put_into_a_cluster_waits_for_that_no_more(deps: Deps) -> None:
    await put_in(deps, BAKING)
    await deps.database.document("chunks", KNEAD).update({"pending.cluster": NOON})
    await save(deps, [DOUGH], {"dough": [KNEAD]})
    assert "cluster" not in (await documents(deps, "chunks"))[KNEAD]["pending"]


async def test_a_cluster_is_read_with_all_the_next_run_has_to_know(deps: Deps) -> None:
    known = replace(DOUGH, reach=0.5, named_by="words", central=("a", "b"), members_hash="h")
    await Clusters(deps.database).put([known, BOATS])
    assert [BOATS, known] == await Clusters(deps.database).every()
    assert [known] == await Clusters(deps.database).unnamed(9)


async def test_a_cluster_is_renamed_and_stays_what_it_is(deps: Deps) -> None:
    await Clusters(deps.database).put([DOUGH])
    called = replace(DOUGH.cluster, name="All about dough", keywords=("flour",))
    await Clusters(deps.database).rename(called, "a model")
    assert [replace(DOUGH, cluster=called, named_by="a model")] == await Clusters(
        deps.database
    ).every()


async def test_saving_what_is_there_already_writes_nothing(deps: Deps, meter: Meter) -> None:
    await three_clusters(deps)
    before = meter.documents_written
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(deps, [DOUGH, OVENS, BOATS], members) == 0
    assert meter.documents_written == before


async def test_a_cluster_of_another_name_is_written_without_its_chunks(deps: Deps) -> None:
    await three_clusters(deps)
    before = await snapshots(deps, "chunks")
    called = replace(BOATS, cluster=replace(BOATS.cluster, name="Ships"))
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(deps, [DOUGH, OVENS, called], members) == 1
    after = await snapshots(deps, "chunks")
    assert [each.update_time for each in before.values()] == [
        each.update_time for each in after.values()
    ]


async def test_a_cluster_that_is_there_keeps_what_runs_know_of_it(deps: Deps) -> None:
    await three_clusters(deps)
    before = await Clusters(deps.database).get("boats")
    moved = replace(BOATS, centroid=(0.8, 0.6), reach=0.1)
    assert await save(deps, [moved], {"boats": [REEF]}, "run-2") == 0
    assert before == await Clusters(deps.database).get("boats")


async def test_other_clusters_and_chunks_stay_what_they_are(deps: Deps) -> None:
    await three_clusters(deps)
    before = await documents(deps, "clusters")
    assert await save(deps, [OVENS], {"ovens": [KNEAD]}, "run-2") == 1
    expected = {
        KNEAD: ["ovens", "dough"], STARTER: ["dough"], BAKE: ["dough", "ovens"], REEF: ["boats"],
    }  # fmt: skip
    assert (expected, before) == (await memberships(deps), await documents(deps, "clusters"))


async def test_a_chunk_whose_index_was_given_up_waits_for_it_again(deps: Deps) -> None:
    await put_in(deps, BAKING)
    given_up = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await deps.database.document("chunks", KNEAD).update(given_up)
    await save(deps, [DOUGH], {"dough": [KNEAD]})
    data = (await documents(deps, "chunks"))[KNEAD]
    assert (LATER, {}, {}) == (data["pending"]["index"], data["tries"], data["parked"])


async def test_no_clusters_change_nothing(deps: Deps) -> None:
    await three_clusters(deps)
    assert await save(deps, [], {}) == 0
    assert 3 == len(await documents(deps, "clusters"))


async def test_missing_and_deleted_chunks_are_no_members(deps: Deps) -> None:
    await put_in(deps, BAKING)
    await put_in(deps, replace(BAKING, sections=BAKING.sections[:1]))
    await save(deps, [DOUGH, OVENS], {"dough": [KNEAD, BAKE, "nowhere"], "ovens": [BAKE]})
    assert {KNEAD: ["dough"]} == await memberships(deps)
    assert [("dough", 1)] == [
        (cluster.cluster_id, cluster.size) for cluster in await Clusters(deps.database).largest(9)
    ]


async def test_a_run_that_died_after_clusters_is_completed_by_the_next(deps: Deps) -> None:
    await three_clusters(deps)
    stale = {"cluster_id": ["ovens"]}
    await deps.database.document("chunks", KNEAD).update(stale)
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(deps, [DOUGH, OVENS, BOATS], members) == 1
    assert (await memberships(deps))[KNEAD] == ["dough"]


async def test_more_clusters_and_chunks_than_fit_one_request(deps: Deps) -> None:
    source = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(210)))
    await put_in(deps, source)
    chunk_ids = [chunk.chunk_id for chunk in in_chunks(source).chunks]
    clusters = [centred(f"c-{number}") for number in range(35)]
    members = {
        each.cluster.cluster_id: chunk_ids[place::35] for place, each in enumerate(clusters)
    } | {"c-0": chunk_ids}
    assert await save(deps, clusters, members) == 245
    assert await save(deps, clusters, members) == 0
    assert {"c-0"} == {names[0] for names in (await memberships(deps)).values()}


async def test_vectors_are_those_of_chunks_that_have_one(deps: Deps) -> None:
    await put_in(deps, BAKING)
    first, second, _ = await Steps(deps.database).pending("embed", NOON, 3)
    await Steps(deps.database).embedded(
        [first, second], [(1.0, 0.0), (0.0, 1.0)], "m-1", deps.clock()
    )
    found = await Clusters(deps.database).vectors([KNEAD, STARTER, BAKE, "nowhere"])
    assert {first.chunk_id: (1.0, 0.0), second.chunk_id: (0.0, 1.0)} == found
