"""The repository of clusters saves them, and reads them by id, size or vector."""

from dataclasses import replace

import pytest

from shared.ai.embedding import Vector
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import BY_WORDS, Clusters, ClusterWithCentroid
from shared.runtime.context import App, Context
from tests.support.read_cost import get_read_cost, make_call_context


def make_cluster(
    cluster_id: str, size: int = 0, *, centroid: Vector = (1.0, 0.0)
) -> ClusterWithCentroid:
    cluster = Cluster(cluster_id, cluster_id.title(), "A topic.", ("one", "two"), size)
    return ClusterWithCentroid(cluster, centroid)


DOUGH = make_cluster("dough", 3, centroid=(0.0, 1.0))
OVENS = make_cluster("ovens", 1, centroid=(0.6, 0.8))
BOATS = make_cluster("boats", 1)


async def store_clusters(ctx: Context) -> None:
    await Clusters(ctx.database).put_clusters([DOUGH, OVENS, BOATS])


async def test_a_cluster_is_read_as_it_was_saved(ctx: Context) -> None:
    await store_clusters(ctx)
    clusters = Clusters(ctx.database)
    assert await clusters.get("dough") == DOUGH
    assert await clusters.get("nowhere") is None
    assert await clusters.get_many(["ovens", "nowhere", "boats"]) == [OVENS.cluster, BOATS.cluster]
    assert await clusters.list_largest(3) == [DOUGH.cluster, OVENS.cluster, BOATS.cluster]


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
        DOUGH, min_similarity=0.5, named_by=BY_WORDS, central_chunk_ids=("a", "b"), members_hash="h"
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


async def test_many_clusters_are_loaded_page_by_page(ctx: Context) -> None:
    many = [make_cluster(f"d-{number:03}") for number in range(201)]  # one more than a page
    await Clusters(ctx.database).put_clusters(many)
    assert await Clusters(ctx.database).load_all() == many
