"""`get_map` returns a point for each passage and a disc for each cluster, as the jobs drew them.

The cluster job draws the map and adds new passages. The index job removes deleted ones. A map is
stored in pages, each a document.
"""

import math
from collections import Counter
from typing import Any, NamedTuple

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.cluster.job import cluster
from functions.jobs.index.job import index
from functions.tools.knowledge.get_map.tool import explain_no_map, explain_no_points
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.knowledge.map_repository import (
    MAX_POINTS_PER_PAGE,
    POINTS_PER_PAGE,
    KnowledgeMap,
    MapPoint,
    Maps,
)
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    CommitHook,
    Response,
    Send,
    call_after_commit,
    send_commit,
)
from tests.support.database_dump import Contents, read_root_documents, write_documents
from tests.support.forgetting import OWNER
from tests.support.jobs import make_ample_budget, make_hasty_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    THEMES,
    add_sources,
    delete_source,
    make_themed_source,
    make_unrelated_source,
)
from tests.support.tool_calls import call, call_result

STRAYS = 3
"""The number of passages that belong to no cluster."""
PASSAGES = len(THEMES) * PASSAGES_PER_THEME + STRAYS


class Point(NamedTuple):
    """A point of the map: its coordinates, and the number of its cluster or -1."""

    x: int
    y: int
    cluster: int


@pytest.fixture(scope="module")
async def stored_map(shared_apps: Apps) -> Contents:
    ctx = shared_apps.context()
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(STRAYS))
    await run_cluster_job(ctx)
    return await read_root_documents(ctx.database.connection.client)


@pytest.fixture
async def five_clusters(ctx: Context, stored_map: Contents) -> None:
    await write_documents(ctx.database.connection.client, stored_map)


async def run_cluster_job(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


async def get_map(app: App, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "get_map", None, **arguments)


def read_points(drawn: dict[str, Any]) -> dict[str, Point]:
    points = map(Point._make, zip(drawn["x"], drawn["y"], drawn["cluster"], strict=True))
    return dict(zip(drawn["chunk_ids"], points, strict=True))


async def read_clusters(ctx: Context) -> dict[str, str | None]:
    return {
        chunk_id: next(iter(data.get("cluster_id") or ()), None)
        for chunk_id, data in (await read_chunks(ctx)).items()
    }


async def assert_map_matches(app: App, ctx: Context) -> None:
    """Assert that the map has all stored chunks and clusters, and no others."""
    drawn = await get_map(app)
    assert drawn["total"] == len(drawn["chunk_ids"])

    cluster_ids = [cluster["cluster_id"] for cluster in drawn["clusters"]]
    drawn_clusters = {
        chunk_id: cluster_ids[point.cluster] if point.cluster >= 0 else None
        for chunk_id, point in read_points(drawn).items()
    }
    assert drawn_clusters == await read_clusters(ctx)

    names_and_sizes = {
        cluster["cluster_id"]: (cluster["name"], cluster["size"]) for cluster in drawn["clusters"]
    }
    assert names_and_sizes == {
        cluster_id: (data["name"], data["size"])
        for cluster_id, data in (await read_documents(ctx, "clusters")).items()
    }


@pytest.mark.usefixtures("five_clusters")
async def test_every_chunk_is_near_the_centre_of_its_cluster(app: App, ctx: Context) -> None:
    """A cluster has its current name. A limit gives a sample, and the total."""
    await assert_map_matches(app, ctx)
    drawn = await get_map(app)
    centres = [(cluster["x"], cluster["y"]) for cluster in drawn["clusters"]]
    for x, y, cluster_number in read_points(drawn).values():
        assert 0 <= x <= 10_000
        assert 0 <= y <= 10_000
        distances = [math.hypot(x - centre_x, y - centre_y) for centre_x, centre_y in centres]
        assert cluster_number in (-1, distances.index(min(distances)))
    assert Counter(drawn["cluster"])[-1] == STRAYS
    sample = await get_map(app, limit=10)
    assert (len(sample["chunk_ids"]), sample["total"]) == (10, PASSAGES)

    cluster_id = drawn["clusters"][0]["cluster_id"]
    await set_fields(ctx, f"clusters/{cluster_id}", {"name": "All about it"})
    await set_fields(ctx, "meta/clustering", {"uncounted": True})
    await run_cluster_job(ctx)
    assert (await get_map(app))["clusters"][0]["name"] == "All about it"


@pytest.mark.usefixtures("five_clusters")
async def test_new_chunks_are_added_and_no_other_chunk_moves(app: App, ctx: Context) -> None:
    former = read_points(await get_map(app))
    one_more_boat = make_themed_source("boats", range(PASSAGES_PER_THEME + 1))
    one_more_stray = make_unrelated_source(STRAYS + 1)
    await add_sources(ctx, one_more_boat, one_more_stray)
    report = await run_cluster_job(ctx)
    assert report.counts["topics"] == 0  # no new clusters
    assert report.counts["placed"] == 2
    await assert_map_matches(app, ctx)
    assert former.items() <= read_points(await get_map(app)).items()


@pytest.mark.usefixtures("five_clusters")
async def test_the_index_job_removes_deleted_chunks_from_the_map(app: App, ctx: Context) -> None:
    await delete_source(ctx, make_themed_source("bees"))
    await index(ctx, make_ample_budget())
    drawn = await get_map(app)
    assert set(drawn["chunk_ids"]) == set(await read_chunks(ctx))
    assert drawn["total"] == PASSAGES - PASSAGES_PER_THEME
    await run_cluster_job(ctx)
    await assert_map_matches(app, ctx)


@pytest.mark.usefixtures("five_clusters")
async def test_a_forgotten_chunk_leaves_the_map_until_it_is_restored(
    app: App, ctx: Context
) -> None:
    await index(ctx, make_ample_budget())
    chunk_id = next(iter(await read_chunks(ctx)))
    former = read_points(await get_map(app))

    await call(app, "forget", OWNER, chunk_id=chunk_id)
    assert chunk_id not in str([await read_documents(ctx, name) for name in ("map", "meta")])
    assert former.keys() - {chunk_id} == read_points(await get_map(app)).keys()

    await index(ctx, make_ample_budget())
    await call(app, "forget", OWNER, chunk_id=chunk_id, forgotten=False)
    await run_cluster_job(ctx)
    assert read_points(await get_map(app)) == former


@pytest.mark.usefixtures("five_clusters")
async def test_an_emptied_map_has_a_message(app: App, ctx: Context, apps: Apps) -> None:
    """So has a base without a map."""
    for source in (*map(make_themed_source, THEMES), make_unrelated_source(STRAYS)):
        await delete_source(ctx, source)
    await index(ctx, make_ample_budget())
    await run_cluster_job(ctx)
    for base, message in ((app, explain_no_points()), (apps(project="empty"), explain_no_map())):
        drawn = await get_map(base)
        assert drawn["message"] == message
        assert (drawn["clusters"], drawn["chunk_ids"], drawn["total"]) == ([], [], 0)


async def delete_map(ctx: Context) -> None:
    """Delete the map, and what the clustering says of it."""
    client = ctx.database.connection.client
    for name in await read_documents(ctx, "map"):
        await client.document(f"map/{name}").delete()
    await client.document("meta/map").delete()
    await client.document("meta/clustering").update({"mapped": DELETE_FIELD})


@pytest.mark.usefixtures("five_clusters")
async def test_a_deleted_map_is_drawn_again_with_the_same_points(app: App, ctx: Context) -> None:
    """The sample has clusters, but no map either."""
    expected = await get_map(app)
    await delete_map(ctx)

    assert await run_cluster_job(ctx) == Report()
    drawn = await get_map(app)
    assert read_points(drawn) == read_points(expected)
    assert drawn["clusters"] == expected["clusters"]


@pytest.mark.usefixtures("five_clusters")
async def test_a_run_that_assigns_passages_also_draws_a_map(app: App, ctx: Context) -> None:
    await delete_map(ctx)
    await add_sources(ctx, make_unrelated_source(STRAYS + 1))
    await run_cluster_job(ctx)
    await assert_map_matches(app, ctx)


@pytest.mark.usefixtures("five_clusters")
async def test_a_full_map_is_drawn_again(app: App, ctx: Context) -> None:
    await set_fields(ctx, "meta/map", {"added_count": MAX_POINTS_PER_PAGE - PASSAGES})
    await add_sources(ctx, make_unrelated_source(STRAYS + 1))
    await run_cluster_job(ctx)
    await assert_map_matches(app, ctx)
    current = await Maps(ctx.database).load()
    assert current
    assert (current.version, current.drawn_count, current.added_count) == (2, PASSAGES + 1, 0)


@pytest.mark.usefixtures("five_clusters")
async def test_a_run_without_time_leaves_the_map_as_it_was(app: App, ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 12)))
    await cluster(ctx, make_hasty_budget())
    await assert_map_matches(app, ctx)


async def prepare_reclustering(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, ("bread", "boats", "bees")))
    await run_cluster_job(ctx)
    await add_sources(ctx, make_themed_source("chess"))


async def test_a_reader_sees_the_former_map_or_the_new_one(
    app: App, ctx: Context, apps: Apps
) -> None:
    await prepare_reclustering(ctx)
    readings = [set((await get_map(app))["chunk_ids"])]

    async def read_after_commit(_commit: int, send: Send) -> Response:
        results = await send()
        readings.append(set((await get_map(app))["chunk_ids"]))
        return results

    await run_cluster_job(apps(read_after_commit).context(Caller(), Meter()))

    former_map, new_map = readings[0], readings[-1]
    assert len(former_map) == 3 * PASSAGES_PER_THEME
    assert len(new_map) == 4 * PASSAGES_PER_THEME
    assert all(ids in (former_map, new_map) for ids in readings)


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_chunks_deleted_while_the_map_is_drawn_are_not_on_it(
    ctx: Context, app: App, apps: Apps, step: int
) -> None:
    await prepare_reclustering(ctx)
    stored = await read_root_documents(ctx.database.connection.client)
    counting = apps(send_commit)
    await run_cluster_job(counting.context(Caller(), Meter()))

    async def delete_bees() -> None:
        await delete_source(ctx, make_themed_source("bees"))
        await index(ctx, make_ample_budget())

    def delete_bees_after(number: int) -> CommitHook:
        async def hook(commit: int, send: Send) -> Response:
            response = await delete(commit, send)
            if commit >= number:
                assert "bees-" not in str((await get_map(app))["chunk_ids"])
            return response

        delete = call_after_commit(number, delete_bees)
        return hook

    for commit in range(0, counting.commits, step):
        for name in ("map", "meta", "chunks", "clusters", "sources", "lexicon", "facets"):
            for document_id in await read_documents(ctx, name):
                await ctx.database.connection.client.document(f"{name}/{document_id}").delete()
        await write_documents(ctx.database.connection.client, stored)
        deleting = apps(delete_bees_after(commit))
        await run_cluster_job(deleting.context(Caller(), Meter()))
        drawn = await get_map(app)
        remaining = await read_chunks(ctx)
        assert set(drawn["chunk_ids"]) == set(remaining), f"deleted after commit {commit}"
        assert "bees-" not in str(await read_documents(ctx, "map"))


async def store_map(ctx: Context, count: int) -> dict[str, MapPoint]:
    """Store a map with this many points and no clusters; return the points by chunk id."""
    new_map = KnowledgeMap(
        version=1,
        page_count=count // POINTS_PER_PAGE,
        run_id="run",
        model="words",
        made_at=ctx.clock(),
        axes=b"",
        clusters=(),
        drawn_count=count,
    )
    points = {
        f"a-book-with-a-long-title-{number:012x}": MapPoint(number // 2, number % 10_000, -1)
        for number in range(count)
    }

    async def load_chunk_ids() -> set[str]:
        return set(points)

    await Maps(ctx.database).replace(new_map, points, load_chunk_ids)
    return points


async def test_20_000_points_cost_30_reads(app: App, ctx: Context) -> None:
    count = 20_000
    points = await store_map(ctx, count)

    answer = await call(app, "get_map")
    assert answer.result
    assert read_points(answer.result) == {
        chunk_id: Point(point.x, point.y, point.cluster) for chunk_id, point in points.items()
    }
    assert answer.receipt.documents_read <= 30
    assert answer.receipt.round_trips == 2

    sample = await call(app, "get_map", limit=2_500)
    assert sample.result
    assert len(sample.result["chunk_ids"]) == 2_500
    assert sample.receipt.documents_read == 4
    assert sample.result["total"] == pytest.approx(count, rel=0.1)


@pytest.mark.parametrize("limit", [900, 1_500])
async def test_a_map_with_many_removed_points_still_fills_the_limit(
    app: App, ctx: Context, limit: int
) -> None:
    """No write counts the points that it removes or moves, so the first estimate is too low."""
    chunk_ids = list(await store_map(ctx, 4_000))
    removed = chunk_ids[1_000:]
    await ctx.database.commit(await Maps(ctx.database).build_removal_writes(removed))
    drawn = await get_map(app, limit=limit)
    assert len(drawn["chunk_ids"]) == min(limit, 1_000)
    assert drawn["total"] == pytest.approx(1_000, rel=0.1)


async def test_a_map_with_a_missing_page_is_unavailable(app: App, ctx: Context) -> None:
    await store_map(ctx, 2_000)
    await ctx.database.connection.client.collection("map").document("1-1").delete()
    answer = await call(app, "get_map")
    assert answer.error
    assert answer.error.code == Unavailable.code
    assert answer.error.retry_after == 60
