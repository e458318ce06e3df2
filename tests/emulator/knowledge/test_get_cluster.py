"""`get_cluster` returns a cluster, a page of its passages, and the clusters near it."""

from datetime import timedelta
from typing import Any

from google.cloud.firestore_v1.vector import Vector
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_cluster.tool import In, Out, format_result, get_cluster
from shared.runtime.context import Context
from tests.support.knowledge import index_all, set_fields
from tests.support.small_sources import NOON, make_source, store_and_index

CENTROIDS = {"bread": [1.0, 0.0], "pizza": [0.8, 0.6], "sails": [0.0, 1.0]}
"""The centroids of the clusters by id. The cosine similarity of two is their scalar product."""
BREAD_DAYS = 3
"""The cluster `bread` has a passage for each of this many days."""


async def store_clusters(ctx: Context) -> None:
    """Store the three clusters. Only `bread` has passages."""
    bread_dates = [NOON - timedelta(days=days) for days in range(BREAD_DAYS)]
    kitchen = make_source("kitchen", dates=bread_dates)
    harbour = make_source("harbour", dates=[NOON])
    chunks = await store_and_index(ctx, kitchen, harbour)
    for chunk in chunks[:BREAD_DAYS]:
        await add_to_cluster(ctx, chunk.chunk_id, "bread")
    for name, centroid in CENTROIDS.items():
        fields: dict[str, Any] = {
            "name": name.title(),
            "description": f"On {name}.",
            "keywords": [name],
            "size": BREAD_DAYS,
            "kinds": {"books": 2, "note": 1},
            "centroid": Vector(centroid),
        }
        await set_fields(ctx, f"clusters/{name}", fields)


async def add_to_cluster(ctx: Context, chunk_id: str, cluster_id: str) -> None:
    change: dict[str, Any] = {"cluster_id": [cluster_id], "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{chunk_id}", change)
    await index_all(ctx)


def read_dates(out: Out) -> list[str]:
    return [(member.date or "").removeprefix("highlighted ") for member in out.members]


async def test_a_cluster_is_returned_with_passages_and_neighbours(ctx: Context) -> None:
    await store_clusters(ctx)
    out = await get_cluster(In(cluster_id="bread"), ctx)
    cluster = {"name": "Bread", "description": "On bread.", "keywords": ["bread"], "size": 3}
    kinds = {"books": 2, "note": 1}
    fields = cluster | {"cluster_id": "bread", "next_cursor": None, "kinds": kinds}
    assert out.model_dump(exclude={"members", "related_clusters"}) == fields
    assert read_dates(out) == ["2024-06-12", "2024-06-11", "2024-06-10"]
    assert {member.title for member in out.members} == {"Kitchen"}
    related = [(neighbour.cluster_id, neighbour.similarity) for neighbour in out.related_clusters]
    assert related == [("pizza", 0.8), ("sails", 0.0)]

    args = In.model_validate({"cluster_id": "sails", "limit": 2, "related_limit": 1})
    assert args.member_limit == 2
    [neighbour] = (await get_cluster(args, ctx)).related_clusters
    assert neighbour.cluster_id == "pizza"
    args = In(cluster_id="bread", include_members=False, include_related=False)
    out = await get_cluster(args, ctx)
    assert (out.members, out.next_cursor, out.related_clusters) == ([], None, [])


async def test_the_text_shows_all_ids_and_the_next_cursor(
    ctx: Context, snapshot: SnapshotAssertion
) -> None:
    await store_clusters(ctx)
    out = await get_cluster(In(cluster_id="bread", member_limit=1), ctx)
    assert format_result(out).replace(out.next_cursor or "", "CURSOR") == snapshot


async def test_later_pages_have_passages_but_no_neighbours(ctx: Context) -> None:
    await store_clusters(ctx)
    first = await get_cluster(In(cluster_id="bread", member_limit=2), ctx)
    [new_chunk] = await store_and_index(
        ctx, make_source("bakery", dates=[NOON + timedelta(days=1)])
    )
    await add_to_cluster(ctx, new_chunk.chunk_id, "bread")
    args = In(cluster_id="bread", member_limit=5, include_related=False, cursor=first.next_cursor)
    second = await get_cluster(args, ctx)
    assert [*read_dates(first), *read_dates(second)] == ["2024-06-12", "2024-06-11", "2024-06-10"]
    assert second.next_cursor is None
    assert second.related_clusters == []
