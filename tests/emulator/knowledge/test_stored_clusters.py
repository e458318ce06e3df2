"""The repository of clusters saves them with their chunks, and reads them by id, size or vector."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.ai.embedding import Vector
from shared.index.stored_vector import to_compact
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from tests.support.clock import NOON
from tests.support.knowledge import BAKING, SAILING, chunk_source, ingest_sources, set_fields
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.stored_documents import read_documents, read_snapshots

LATER = NOON + timedelta(days=1)
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
REEF, ANCHOR = (chunk.chunk_id for chunk in chunk_source(SAILING).chunks)


def make_cluster(cluster_id: str, *, centroid: Vector = (1.0, 0.0)) -> ClusterWithCentroid:
    cluster = Cluster(cluster_id, cluster_id.title(), "A topic.", ("one", "two"))
    return ClusterWithCentroid(cluster, centroid)


DOUGH = make_cluster("dough", centroid=(0.0, 1.0))
OVENS = make_cluster("ovens", centroid=(0.6, 0.8))
BOATS = make_cluster("boats")
MEMBERS = {"dough": [KNEAD, STARTER, BAKE], "ovens": [BAKE], "boats": [REEF]}
"""The chunks of the clusters that `store_clusters` stores."""


async def save(
    ctx: Context,
    clusters: Sequence[ClusterWithCentroid],
    members: Mapping[str, Sequence[str]],
    run_id: str = "run-1",
    now: datetime = LATER,
) -> int:
    """Save clusters and their chunks; return the number of documents that were written."""
    return await Clusters(ctx.database).save_with_members(clusters, members, run_id, now)


async def store_clusters(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, SAILING, now=NOON)
    await save(ctx, [DOUGH, OVENS, BOATS], MEMBERS)


async def read_memberships(ctx: Context) -> dict[str, list[str]]:
    chunks = await read_documents(ctx, "chunks")
    return {name: data["cluster_id"] for name, data in chunks.items() if data.get("cluster_id")}


async def test_a_cluster_is_read_as_it_was_saved(ctx: Context) -> None:
    """Its chunks have their clusters in the given order, and are indexed again."""
    await store_clusters(ctx)
    clusters = Clusters(ctx.database)
    expected = replace(DOUGH.cluster, size=3, run_id="run-1", created_at=LATER)
    assert await clusters.get("dough") == ClusterWithCentroid(expected, (0.0, 1.0))
    assert await clusters.get("nowhere") is None
    read = await clusters.get_many(["ovens", "nowhere", "boats"])
    assert [cluster.cluster_id for cluster in read] == ["ovens", "boats"]
    listed = await clusters.list_largest(3)
    sizes = [("dough", 3), ("ovens", 1), ("boats", 1)]
    assert [(cluster.cluster_id, cluster.size) for cluster in listed] == sizes

    assert await read_memberships(ctx) == {
        KNEAD: ["dough"], STARTER: ["dough"], BAKE: ["dough", "ovens"], REEF: ["boats"],
    }  # fmt: skip
    chunks = await read_documents(ctx, "chunks")
    indexed_at = {name: data["pending"]["index"] for name, data in chunks.items()}
    assert indexed_at == dict.fromkeys((KNEAD, STARTER, BAKE, REEF), LATER) | {ANCHOR: NOON}


async def test_the_nearest_clusters_are_found_with_their_similarity(ctx: Context, app: App) -> None:
    await store_clusters(ctx)
    call_ctx = make_call_context(app)
    clusters = await Clusters(call_ctx.database).find_nearest((0.0, 1.0), 2)
    assert [(related.cluster.cluster_id, related.similarity) for related in clusters] == [
        ("dough", 1.0),
        ("ovens", pytest.approx(0.8)),
    ]
    assert get_read_cost(call_ctx).documents == 2


async def test_a_cluster_is_read_with_all_its_fields(ctx: Context) -> None:
    """A renamed one keeps the others."""
    stored = replace(
        DOUGH, min_similarity=0.5, named_by="words", central_chunk_ids=("a", "b"), members_hash="h"
    )
    clusters = Clusters(ctx.database)
    await clusters.put_clusters([stored, BOATS])
    assert await clusters.load_all() == [BOATS, stored]
    assert await clusters.list_named_by_words(9) == [stored]
    renamed = replace(DOUGH.cluster, name="All about dough", keywords=("flour",))
    await clusters.rename(renamed, "a model")
    assert await clusters.load_all() == [
        BOATS,
        replace(stored, cluster=renamed, named_by="a model"),
    ]


async def test_renaming_a_cluster_does_not_write_its_chunks(ctx: Context) -> None:
    """What is stored already is not written again."""
    await store_clusters(ctx)
    assert await save(ctx, [], {}) == 0
    assert await save(ctx, [DOUGH, OVENS, BOATS], MEMBERS) == 0
    before = await read_snapshots(ctx, "chunks")
    ships = replace(BOATS, cluster=replace(BOATS.cluster, name="Ships"))
    assert await save(ctx, [DOUGH, OVENS, ships], MEMBERS) == 1
    after = await read_snapshots(ctx, "chunks")
    for chunk_id, snapshot in before.items():
        assert after[chunk_id].update_time == snapshot.update_time


async def test_a_dead_lettered_index_step_is_pending_again(ctx: Context) -> None:
    """Clustering is not pending on a member."""
    await ingest_sources(ctx, BAKING, now=NOON)
    given_up = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    reference = ctx.database.connection.client.document(f"chunks/{KNEAD}")
    await reference.update(given_up | {"pending.cluster": NOON})
    await save(ctx, [DOUGH], {"dough": [KNEAD]})
    data = (await read_documents(ctx, "chunks"))[KNEAD]
    assert data["pending"]["index"] == LATER
    assert "cluster" not in data["pending"]
    assert data["tries"] == data["parked"] == {}


async def test_missing_and_deleted_chunks_do_not_become_members(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, now=NOON)
    await ingest_sources(
        ctx, replace(BAKING, sections=BAKING.sections[:1]), now=NOON
    )  # deletes BAKE
    await save(ctx, [DOUGH, OVENS], {"dough": [KNEAD, BAKE, "nowhere"], "ovens": [BAKE]})
    assert await read_memberships(ctx) == {KNEAD: ["dough"]}
    [cluster] = await Clusters(ctx.database).list_largest(9)
    assert cluster.cluster_id == "dough"
    assert cluster.size == 1


async def test_a_run_killed_after_clusters_is_completed_later(ctx: Context) -> None:
    await store_clusters(ctx)
    await set_fields(ctx, f"chunks/{KNEAD}", {"cluster_id": ["ovens"]})
    assert await save(ctx, [DOUGH, OVENS, BOATS], MEMBERS) == 1
    assert (await read_memberships(ctx))[KNEAD] == ["dough"]


async def test_clusters_of_many_chunks_are_saved_in_several_requests(ctx: Context) -> None:
    source = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(210)))
    await ingest_sources(ctx, source, now=NOON)
    chunk_ids = [chunk.chunk_id for chunk in chunk_source(source).chunks]
    # Every 35th chunk belongs to a cluster, and all of them to the first cluster, too.
    members = {f"c-{number}": chunk_ids[number::35] for number in range(35)} | {"c-0": chunk_ids}
    clusters = [make_cluster(cluster_id) for cluster_id in members]
    assert await save(ctx, clusters, members) == len(clusters) + len(chunk_ids)
    assert await save(ctx, clusters, members) == 0
    assert {names[0] for names in (await read_memberships(ctx)).values()} == {"c-0"}
    more = [make_cluster(f"d-{number}") for number in range(201)]  # one more than a page
    await Clusters(ctx.database).put_clusters(more)
    assert len(await Clusters(ctx.database).load_all()) == len(clusters) + len(more)


async def test_vectors_are_loaded_for_chunks_that_have_one(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, now=NOON)
    first, second, _ = await ChunkQueue(ctx.database).load_pending("embed", NOON, 3)
    await ChunkQueue(ctx.database).store_vectors(
        [first, second], [(1.0, 0.0), (0.0, 1.0)], "m-1", ctx.clock()
    )
    vectors = await Clusters(ctx.database).load_chunk_vectors([KNEAD, STARTER, BAKE, "nowhere"])
    assert vectors == {
        first.chunk_id: to_compact([1.0, 0.0]),
        second.chunk_id: to_compact([0.0, 1.0]),
    }
