"""Clusters: read by id, by size and by similarity, and saved next to others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from tests.support.knowledge import BAKING, SAILING, chunk_source
from tests.support.stored_documents import read_documents, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.core.meter import Meter
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
REEF, ANCHOR = (chunk.chunk_id for chunk in chunk_source(SAILING).chunks)


def make_cluster(cluster_id: str, *, centroid: Vector = (1.0, 0.0)) -> ClusterWithCentroid:
    cluster = Cluster(cluster_id, cluster_id.title(), "A topic.", ("one", "two"))
    return ClusterWithCentroid(cluster, centroid)


DOUGH = make_cluster("dough", centroid=(0.0, 1.0))
OVENS = make_cluster("ovens", centroid=(0.6, 0.8))
BOATS = make_cluster("boats")


async def put_in(ctx: Context, *sources: Source) -> None:
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], NOON)


async def save(
    ctx: Context,
    clusters: Sequence[ClusterWithCentroid],
    members: Mapping[str, Sequence[str]],
    run_id: str = "run-1",
    now: datetime = LATER,
) -> int:
    return await Clusters(ctx.database).save_with_members(clusters, members, run_id, now)


async def store_clusters(ctx: Context) -> None:
    """Store two clusters about baking and one about boats. One of the first lacks chunks."""
    await put_in(ctx, BAKING, SAILING)
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    await save(ctx, [DOUGH, OVENS, BOATS], members)


async def read_memberships(ctx: Context) -> dict[str, list[str]]:
    """Return the cluster ids of each chunk that has any."""
    chunks = await read_documents(ctx, "chunks")
    return {name: data["cluster_id"] for name, data in chunks.items() if data.get("cluster_id")}


async def read_pending_since(ctx: Context) -> dict[str, Any]:
    """Return the time from which indexing is pending, by chunk id."""
    chunks = await read_documents(ctx, "chunks")
    return {name: data["pending"]["index"] for name, data in chunks.items()}


async def test_a_cluster_is_read_as_it_was_saved_with_its_size(ctx: Context) -> None:
    await store_clusters(ctx)
    expected = replace(DOUGH.cluster, size=3, run_id="run-1", created_at=LATER)
    assert await Clusters(ctx.database).get("dough") == ClusterWithCentroid(expected, (0.0, 1.0))


async def test_a_missing_cluster_is_none(ctx: Context) -> None:
    assert await Clusters(ctx.database).get("nowhere") is None


async def test_clusters_are_read_in_the_order_in_which_they_are_named(ctx: Context) -> None:
    await store_clusters(ctx)
    clusters = await Clusters(ctx.database).get_many(["ovens", "nowhere", "boats"])
    assert [cluster.cluster_id for cluster in clusters] == ["ovens", "boats"]


async def test_the_largest_come_first_and_equals_by_descending_id(ctx: Context) -> None:
    await store_clusters(ctx)
    clusters = await Clusters(ctx.database).list_largest(3)
    expected = [("dough", 3), ("ovens", 1), ("boats", 1)]
    assert [(cluster.cluster_id, cluster.size) for cluster in clusters] == expected


async def test_a_page_begins_after_a_deleted_cluster_too(ctx: Context) -> None:
    await store_clusters(ctx)
    [first] = await Clusters(ctx.database).list_largest(1)
    [second] = await Clusters(ctx.database).list_largest(1, (first.size, first.cluster_id))
    await ctx.database.document("clusters", second.cluster_id).delete()
    rest = await Clusters(ctx.database).list_largest(9, (second.size, second.cluster_id))
    assert [item.cluster_id for item in (first, second, *rest)] == ["dough", "ovens", "boats"]


async def test_the_nearest_come_first_with_their_similarity(ctx: Context, meter: Meter) -> None:
    await store_clusters(ctx)
    read = meter.documents_read
    clusters = await Clusters(ctx.database).find_nearest((0.0, 1.0), 2)
    assert [(related.cluster.cluster_id, related.similarity) for related in clusters] == [
        ("dough", 1.0),
        ("ovens", pytest.approx(0.8)),
    ]
    assert meter.documents_read - read == 2


async def test_chunks_know_their_clusters_in_the_order_given(ctx: Context) -> None:
    await store_clusters(ctx)
    expected = {
        KNEAD: ["dough"], STARTER: ["dough"], BAKE: ["dough", "ovens"], REEF: ["boats"],
    }  # fmt: skip
    assert await read_memberships(ctx) == expected


async def test_a_chunk_waits_for_the_index_when_its_clusters_change(ctx: Context) -> None:
    await store_clusters(ctx)
    expected = dict.fromkeys((KNEAD, STARTER, BAKE, REEF), LATER) | {ANCHOR: NOON}
    assert await read_pending_since(ctx) == expected


async def test_clustering_is_not_pending_on_a_member(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await ctx.database.document("chunks", KNEAD).update({"pending.cluster": NOON})
    await save(ctx, [DOUGH], {"dough": [KNEAD]})
    assert "cluster" not in (await read_documents(ctx, "chunks"))[KNEAD]["pending"]


async def test_a_cluster_is_read_with_all_its_fields(ctx: Context) -> None:
    stored = replace(
        DOUGH, min_similarity=0.5, named_by="words", central_chunk_ids=("a", "b"), members_hash="h"
    )
    await Clusters(ctx.database).put_clusters([stored, BOATS])
    assert await Clusters(ctx.database).load_all() == [BOATS, stored]
    assert await Clusters(ctx.database).list_named_by_words(9) == [stored]


async def test_a_renamed_cluster_keeps_its_other_fields(ctx: Context) -> None:
    await Clusters(ctx.database).put_clusters([DOUGH])
    called = replace(DOUGH.cluster, name="All about dough", keywords=("flour",))
    await Clusters(ctx.database).rename(called, "a model")
    assert [replace(DOUGH, cluster=called, named_by="a model")] == await Clusters(
        ctx.database
    ).load_all()


async def test_saving_stored_clusters_writes_nothing(ctx: Context, meter: Meter) -> None:
    await store_clusters(ctx)
    before = meter.documents_written
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(ctx, [DOUGH, OVENS, BOATS], members) == 0
    assert meter.documents_written == before


async def test_a_cluster_of_another_name_is_written_without_its_chunks(ctx: Context) -> None:
    await store_clusters(ctx)
    before = await read_snapshots(ctx, "chunks")
    called = replace(BOATS, cluster=replace(BOATS.cluster, name="Ships"))
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(ctx, [DOUGH, OVENS, called], members) == 1
    after = await read_snapshots(ctx, "chunks")
    assert [item.update_time for item in before.values()] == [
        entry.update_time for entry in after.values()
    ]


async def test_an_existing_cluster_keeps_its_run_fields(ctx: Context) -> None:
    await store_clusters(ctx)
    before = await Clusters(ctx.database).get("boats")
    moved = replace(BOATS, centroid=(0.8, 0.6), min_similarity=0.1)
    assert await save(ctx, [moved], {"boats": [REEF]}, "run-2") == 0
    assert await Clusters(ctx.database).get("boats") == before


async def test_other_clusters_and_chunks_stay_the_same(ctx: Context) -> None:
    await store_clusters(ctx)
    before = await read_documents(ctx, "clusters")
    assert await save(ctx, [OVENS], {"ovens": [KNEAD]}, "run-2") == 1
    expected = {
        KNEAD: ["ovens", "dough"], STARTER: ["dough"], BAKE: ["dough", "ovens"], REEF: ["boats"],
    }  # fmt: skip
    assert (await read_memberships(ctx), await read_documents(ctx, "clusters")) == (
        expected,
        before,
    )


async def test_a_dead_lettered_index_step_is_pending_again(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    given_up = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await ctx.database.document("chunks", KNEAD).update(given_up)
    await save(ctx, [DOUGH], {"dough": [KNEAD]})
    data = (await read_documents(ctx, "chunks"))[KNEAD]
    assert (data["pending"]["index"], data["tries"], data["parked"]) == (LATER, {}, {})


async def test_no_clusters_change_nothing(ctx: Context) -> None:
    await store_clusters(ctx)
    assert await save(ctx, [], {}) == 0
    assert len(await read_documents(ctx, "clusters")) == 3


async def test_missing_and_deleted_chunks_are_no_members(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await put_in(ctx, replace(BAKING, sections=BAKING.sections[:1]))
    await save(ctx, [DOUGH, OVENS], {"dough": [KNEAD, BAKE, "nowhere"], "ovens": [BAKE]})
    assert await read_memberships(ctx) == {KNEAD: ["dough"]}
    assert [
        (cluster.cluster_id, cluster.size)
        for cluster in await Clusters(ctx.database).list_largest(9)
    ] == [("dough", 1)]


async def test_a_run_killed_after_clusters_is_completed_later(ctx: Context) -> None:
    await store_clusters(ctx)
    stale = {"cluster_id": ["ovens"]}
    await ctx.database.document("chunks", KNEAD).update(stale)
    members = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
    assert await save(ctx, [DOUGH, OVENS, BOATS], members) == 1
    assert (await read_memberships(ctx))[KNEAD] == ["dough"]


async def test_more_clusters_and_chunks_than_fit_one_request(ctx: Context) -> None:
    source = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(210)))
    await put_in(ctx, source)
    chunk_ids = [chunk.chunk_id for chunk in chunk_source(source).chunks]
    clusters = [make_cluster(f"c-{number}") for number in range(35)]
    members = {
        cluster.cluster.cluster_id: chunk_ids[place::35] for place, cluster in enumerate(clusters)
    } | {"c-0": chunk_ids}
    assert await save(ctx, clusters, members) == 245
    assert await save(ctx, clusters, members) == 0
    assert {names[0] for names in (await read_memberships(ctx)).values()} == {"c-0"}


async def test_vectors_are_those_of_chunks_that_have_one(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    first, second, _ = await ChunkQueue(ctx.database).load_pending("embed", NOON, 3)
    await ChunkQueue(ctx.database).store_vectors(
        [first, second], [(1.0, 0.0), (0.0, 1.0)], "m-1", ctx.clock()
    )
    clusters = await Clusters(ctx.database).load_chunk_vectors([KNEAD, STARTER, BAKE, "nowhere"])
    assert {first.chunk_id: (1.0, 0.0), second.chunk_id: (0.0, 1.0)} == clusters
