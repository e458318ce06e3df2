"""`get_cluster`, against the emulator."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore_v1.vector import Vector
from pydantic import ValidationError

from functions.tools.knowledge.get_cluster.tool import In, format_result, get_cluster
from shared.core.errors import InvalidInput, NotFound
from tests.support.knowledge import index_all, set_fields
from tests.support.small_sources import (
    NOON,
    get_read_cost,
    make_metered_context,
    make_source,
    store_and_index,
)

if TYPE_CHECKING:
    from functions.tools.knowledge.get_cluster.tool import Out
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

CENTROIDS = {"bread": [1.0, 0.0], "pizza": [0.8, 0.6], "sails": [0.0, 1.0]}


async def topics(ctx: Context) -> None:
    """Three clusters; the passages of three days belong to the first."""
    dates = [NOON - timedelta(days=days) for days in range(3)]
    chunks = await store_and_index(
        ctx, make_source("kitchen", dates=dates), make_source("harbour", dates=[NOON])
    )
    for chunk in chunks[:3]:
        await assign(ctx, chunk.chunk_id, "bread")
    for name, centroid in CENTROIDS.items():
        described: dict[str, Any] = {"name": name.title(), "keywords": [name], "size": 3}
        described |= {"description": f"On {name}.", "centroid": Vector(centroid)}
        await set_fields(ctx, f"clusters/{name}", described)


async def assign(ctx: Context, chunk_id: str, cluster_id: str) -> None:
    """Add a passage to a cluster, as the clustering job does."""
    change: dict[str, Any] = {"cluster_id": [cluster_id], "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{chunk_id}", change)
    await index_all(ctx)


def dates(out: Out) -> list[str | None]:
    return [member.date for member in out.members]


async def test_a_cluster_with_passages_and_neighbours_is_returned(ctx: Context) -> None:
    await topics(ctx)
    out = await get_cluster(In(cluster_id="bread"), ctx)
    assert out.model_dump(exclude={"members", "related_clusters"}) == {
        "cluster_id": "bread",
        "name": "Bread",
        "description": "On bread.",
        "keywords": ["bread"],
        "size": 3,
        "next_cursor": None,
    }
    assert dates(out) == ["2024-06-12", "2024-06-11", "2024-06-10"]
    assert {member.title for member in out.members} == {"Kitchen"}
    related = [(neighbour.cluster_id, neighbour.similarity) for neighbour in out.related_clusters]
    assert related == [("pizza", 0.8), ("sails", 0.0)]


async def test_the_text_has_what_is_needed_to_choose(ctx: Context) -> None:
    await topics(ctx)
    out = await get_cluster(In(cluster_id="bread", limit=1), ctx)
    [member] = out.members
    assert (
        format_result(out)
        == f"""\
Bread
On bread.
Keywords: bread
Passages: 3, ID: bread
Related: Pizza (ID: pizza)
Related: Sails (ID: sails)

- Kitchen (2024-06-12)
   {member.snippet}
   ID: {member.chunk_id}

There are more: call again with cursor {out.next_cursor}"""
    )


async def test_later_pages_have_passages_but_no_neighbours(ctx: Context) -> None:
    await topics(ctx)
    first = await get_cluster(In(cluster_id="bread", member_limit=2), ctx)
    new = await store_and_index(ctx, make_source("bakery", dates=[NOON + timedelta(days=1)]))
    await assign(ctx, new[0].chunk_id, "bread")
    args = In(cluster_id="bread", member_limit=5, include_related=False, cursor=first.next_cursor)
    second = await get_cluster(args, ctx)
    assert [*dates(first), *dates(second)] == ["2024-06-12", "2024-06-11", "2024-06-10"]
    assert (second.next_cursor, second.related_clusters) == (None, [])


async def test_passages_and_neighbours_are_left_out_on_request(ctx: Context) -> None:
    await topics(ctx)
    args = In(cluster_id="bread", include_members=False, include_related=False)
    out = await get_cluster(args, ctx)
    assert (out.members, out.next_cursor, out.related_clusters) == ([], None, [])


async def test_the_limit_bounds_neighbours(ctx: Context) -> None:
    await topics(ctx)
    out = await get_cluster(In(cluster_id="sails", related_limit=1), ctx)
    assert [neighbour.cluster_id for neighbour in out.related_clusters] == ["pizza"]


async def test_an_unknown_id_says_how_to_find_ids(ctx: Context) -> None:
    with pytest.raises(NotFound, match=r"There is no cluster nobody.*list_clusters"):
        await get_cluster(In(cluster_id="nobody"), ctx)


async def test_a_cursor_of_another_cluster_is_refused(ctx: Context) -> None:
    await topics(ctx)
    cursor = (await get_cluster(In(cluster_id="bread", member_limit=1), ctx)).next_cursor
    with pytest.raises(InvalidInput, match="cursor"):
        await get_cluster(In(cluster_id="sails", cursor=cursor), ctx)


@pytest.mark.parametrize(
    "arguments", [{"member_limit": 51}, {"related_limit": 0}, {"related_limit": 21}, {"limit": 0}]
)
def test_what_is_out_of_range_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(cluster_id="bread", **arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"member_limit": 2, "related_limit": 1}, (2, 1 + 3 + 2)),
        ({"member_limit": 2, "include_related": False}, (1, 1 + 3)),
        ({"include_members": False, "include_related": False}, (1, 1)),
    ],
)
async def test_a_call_is_two_round_trips_and_few_documents(
    ctx: Context, app: App, arguments: dict[str, Any], expected: tuple[int, int]
) -> None:
    await topics(ctx)
    own, meter = make_metered_context(app)
    await get_cluster(In(cluster_id="bread", **arguments), own)
    assert get_read_cost(meter) == expected
