"""`list_clusters` returns the clusters, largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from functions.tools.knowledge.list_clusters.tool import EMPTY_MESSAGE, In, list_clusters
from shared.core.errors import InvalidInput
from tests.support.knowledge import set_fields
from tests.support.small_sources import get_read_cost, make_metered_context

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio


async def make_cluster(ctx: Context, cluster_id: str, size: int) -> None:
    described = {"name": cluster_id.title(), "description": "All of it.", "keywords": ["a", "b"]}
    await set_fields(ctx, f"clusters/{cluster_id}", described | {"size": size})


async def test_every_field_of_a_cluster_is_returned(ctx: Context) -> None:
    await make_cluster(ctx, "bread", 7)
    assert (await list_clusters(In(), ctx)).model_dump() == {
        "clusters": [
            {
                "cluster_id": "bread",
                "name": "Bread",
                "description": "All of it.",
                "keywords": ["a", "b"],
                "size": 7,
            }
        ],
        "next_cursor": None,
        "message": None,
    }


async def test_the_largest_come_first_though_one_is_deleted(ctx: Context) -> None:
    for name, size in {"a": 1, "b": 5, "c": 5, "d": 9}.items():
        await make_cluster(ctx, name, size)
    first = await list_clusters(In(limit=2), ctx)
    await ctx.database.client.document("clusters/c").delete()
    second = await list_clusters(In(limit=2, cursor=first.next_cursor), ctx)
    ids = [item.cluster_id for out in (first, second) for item in out.clusters]
    assert (ids, second.next_cursor) == (["d", "c", "b", "a"], None)


async def test_a_base_without_clusters_says_so(ctx: Context) -> None:
    out = await list_clusters(In(), ctx)
    assert (out.clusters, out.next_cursor, out.message) == ([], None, EMPTY_MESSAGE)


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 51}, {"cursor": ""}, {"order": "x"}])
def test_what_is_out_of_range_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(**arguments)


async def test_a_damaged_cursor_is_refused(ctx: Context) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await list_clusters(In(cursor="abc"), ctx)


async def test_a_page_is_one_round_trip(ctx: Context, app: App) -> None:
    for size in range(4):
        await make_cluster(ctx, f"c{size}", size)
    own, meter = make_metered_context(app)
    await list_clusters(In(limit=2), own)
    assert get_read_cost(meter) == (1, 3)
