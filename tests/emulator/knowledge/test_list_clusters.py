"""`list_clusters` returns the clusters, largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from functions.tools.knowledge.list_clusters.tool import EMPTY_MESSAGE, In, list_clusters
from shared.core.errors import InvalidInput
from tests.support.knowledge import set_fields
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio


async def store_cluster(ctx: Context, cluster_id: str, size: int) -> None:
    """Store a cluster that says that it has `size` passages."""
    fields = {"name": cluster_id.title(), "description": "All of it.", "keywords": ["a", "b"]}
    await set_fields(ctx, f"clusters/{cluster_id}", fields | {"size": size})


async def test_every_field_of_a_cluster_is_returned(ctx: Context) -> None:
    await store_cluster(ctx, "bread", 7)
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


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 51}, {"cursor": ""}, {"order": "x"}])
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(**arguments)


async def test_a_damaged_cursor_is_refused(ctx: Context) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await list_clusters(In(cursor="abc"), ctx)


async def test_a_page_costs_one_round_trip(ctx: Context, app: App) -> None:
    for size in range(4):
        await store_cluster(ctx, f"c{size}", size)
    call_ctx = make_call_context(app)
    await list_clusters(In(limit=2), call_ctx)
    documents = 2 + 1  # one more cluster than the limit shows whether there is another page
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=documents)
