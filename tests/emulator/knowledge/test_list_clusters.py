"""`list_clusters` returns the clusters, largest first."""

from functions.tools.knowledge.list_clusters.tool import EMPTY_MESSAGE, In, list_clusters
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.runtime.context import Context
from tests.support.clock import NOON
from tests.support.knowledge import set_fields


async def store_cluster(ctx: Context, cluster_id: str, size: int) -> None:
    """Store a cluster that says that it has `size` passages."""
    fields = {"name": cluster_id.title(), "description": "All of it.", "keywords": ["a", "b"]}
    await set_fields(ctx, f"clusters/{cluster_id}", fields | {"size": size})


async def test_every_field_of_a_cluster_is_returned(ctx: Context) -> None:
    await store_cluster(ctx, "bread", 7)
    await set_fields(ctx, "clusters/bread", {"kinds": {"books": 5, "note": 2}})
    clustering = Clustering(model="m", run_id="r", made_at=NOON, passages=9, unclustered=2)
    await Clusterings(ctx.database).save(clustering)
    assert (await list_clusters(In(), ctx)).model_dump() == {
        "total": 1,
        "unclustered": 2,
        "clusters": [
            {
                "cluster_id": "bread",
                "name": "Bread",
                "description": "All of it.",
                "keywords": ["a", "b"],
                "size": 7,
                "kinds": {"books": 5, "note": 2},
            }
        ],
        "next_cursor": None,
        "message": None,
    }


async def test_clusters_are_paged_largest_first_despite_a_deletion(ctx: Context) -> None:
    for name, size in {"a": 1, "b": 5, "c": 5, "d": 9}.items():
        await store_cluster(ctx, name, size)
    first = await list_clusters(In(limit=2), ctx)
    await ctx.database.connection.client.document("clusters/c").delete()
    second = await list_clusters(In(limit=2, cursor=first.next_cursor), ctx)
    assert [cluster.cluster_id for cluster in first.clusters] == ["d", "c"]
    assert [cluster.cluster_id for cluster in second.clusters] == ["b", "a"]
    assert second.next_cursor is None


async def test_a_base_without_clusters_has_a_message(ctx: Context) -> None:
    out = await list_clusters(In(), ctx)
    assert out.clusters == []
    assert out.next_cursor is None
    assert out.message == EMPTY_MESSAGE
