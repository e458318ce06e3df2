"""The cluster job groups chunks of similar meaning, and a run costs in proportion to the change.

A run assigns new chunks to the existing clusters. If enough has changed, it clusters all chunks
again, and recognizes the former clusters. A chunk that fits no cluster is an outlier.
"""

from datetime import timedelta
from typing import Any

import pytest

from functions.jobs.cluster.job import cluster
from functions.jobs.cluster.reclustering import NO_TIME
from functions.jobs.cluster.schedule import REEMBEDDING, TOO_FEW
from functions.jobs.ingest.listing import read
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import add_knowledge
from shared.core.meter import Meter
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import to_compact
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.clock import NOON, SettableClock
from tests.support.database_dump import Contents, read_root_documents, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import (
    make_ample_budget,
    make_hasty_budget,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    THEMES,
    add_sources,
    count_pending_chunks,
    delete_source,
    make_themed_source,
    make_unrelated_source,
    read_cluster_sizes,
    read_clustering,
    read_sources_by_cluster,
)


async def run_cluster(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


@pytest.fixture(scope="module")
async def stored_clusters(shared_apps: Apps) -> Contents:
    """The documents of `five_clusters`, which are made only once."""
    ctx = shared_apps.context(NOON)
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(3))
    await run_cluster(ctx)
    return await read_root_documents(ctx.database.connection.client)


@pytest.fixture
async def five_clusters(ctx: Context, stored_clusters: Contents) -> None:
    """Five clustered themes of fifteen chunks each, and three chunks about nothing else."""
    await write_documents(ctx.database.connection.client, stored_clusters)


@pytest.mark.usefixtures("five_clusters")
async def test_a_vector_of_another_length_is_not_clustered(ctx: Context) -> None:
    """The vector cannot be compared with others, so that its chunk belongs to no cluster."""
    chunk_id, *other_ids = await read_chunks(ctx)
    short_vector = to_compact(ctx.embedder.dimension // 2 * [0.1])
    for is_reclustered in (False, True):
        change = {"embedding_f16": short_vector, "cluster_id": [], "pending": {"cluster": NOON}}
        await set_fields(ctx, f"chunks/{chunk_id}", change)
        if is_reclustered:
            await set_fields(ctx, "meta/clustering", {"unfinished": True})

        await run_cluster(ctx)

        cluster_ids = await read_cluster_ids(ctx)
        assert not cluster_ids[chunk_id]
        clustered_count = sum(bool(cluster_ids[other_id]) for other_id in other_ids)
        assert clustered_count >= len(other_ids) - 3  # the three unrelated chunks


async def read_cluster_ids(ctx: Context) -> dict[str, Any]:
    """Return the cluster ids of each chunk, by its id."""
    chunks = await read_chunks(ctx)
    return {chunk_id: data.get("cluster_id") for chunk_id, data in chunks.items()}


async def find_cluster_of_theme(ctx: Context, theme: str) -> str:
    """Return the id of the only cluster that has chunks of a theme."""
    sources_by_cluster = await read_sources_by_cluster(ctx)
    [cluster_id] = [name for name, sources in sources_by_cluster.items() if theme in sources]
    return cluster_id


async def assert_sizes_are_exact(ctx: Context) -> dict[str, int]:
    """Assert that the stored sizes of clusters are the counted ones; return them."""
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    return counted


@pytest.mark.usefixtures("five_clusters")
async def test_chunks_about_one_subject_form_a_cluster(ctx: Context, meter: Meter) -> None:
    """It has the words of its chunks, and a name. A run without changes costs four reads."""
    sources = (await read_sources_by_cluster(ctx)).values()
    assert sorted(sources, key=str) == [{theme} for theme in sorted(THEMES)]
    await assert_sizes_are_exact(ctx)
    clusters = (await read_documents(ctx, "clusters")).values()
    assert {data["name"] for data in clusters} == {f"On {theme}" for theme in THEMES}
    bees = await Clusters(ctx.database).get(await find_cluster_of_theme(ctx, "bees"))
    assert bees
    assert set(bees.cluster.keywords) <= {*THEMES["bees"].split()}
    assert (bees.cluster.description or "").endswith("from On bees.")
    clustered = [data for data in (await read_chunks(ctx)).values() if data.get("cluster_id")]
    assert all("index" in data["pending"] for data in clustered)
    assert await count_pending_chunks(ctx) == 0

    reads_before, writes_before = meter.documents_read, meter.documents_written
    assert await run_cluster(ctx) == Report()
    assert meter.documents_read - reads_before == 4
    assert meter.documents_written == writes_before


async def test_clusters_appear_once_there_are_enough_chunks(ctx: Context, meter: Meter) -> None:
    assert await run_cluster(ctx) == Report()
    assert (meter.documents_read, meter.documents_written) == (1, 0)
    await add_sources(ctx, make_themed_source("bread"))
    assert not (await cluster(ctx, make_spent_budget())).finished
    assert (await run_cluster(ctx)).note == TOO_FEW
    assert await read_sources_by_cluster(ctx) == {}
    assert await count_pending_chunks(ctx) == 0
    await add_sources(ctx, make_themed_source("bees"), make_themed_source("chess"))
    await run_cluster(ctx)
    assert len(await read_sources_by_cluster(ctx)) == 3


@pytest.mark.usefixtures("five_clusters")
async def test_a_new_chunk_joins_a_cluster_unless_it_is_an_outlier(ctx: Context) -> None:
    boats = await find_cluster_of_theme(ctx, "boats")
    await add_sources(
        ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 1)), make_unrelated_source(4)
    )

    report = await run_cluster(ctx)

    assert report.counts["placed"] == 2
    assert report.counts["topics"] == 0
    assert (await read_sources_by_cluster(ctx))[boats] == {"boats"}
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted


@pytest.mark.usefixtures("five_clusters")
async def test_an_empty_cluster_is_deleted(ctx: Context) -> None:
    clouds = await find_cluster_of_theme(ctx, "clouds")
    await add_sources(ctx, make_themed_source("clouds", range(3)))
    await run_cluster(ctx)
    await delete_source(ctx, make_themed_source("clouds"))
    await run_cluster(ctx)
    assert clouds not in await read_documents(ctx, "clusters")


async def test_reclustering_keeps_the_ids_of_old_clusters(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, ("bread", "boats", "bees", "chess")))
    await run_cluster(ctx)
    before = await read_documents(ctx, "clusters")

    await add_sources(ctx, make_themed_source("clouds"))
    report = await run_cluster(ctx)

    after = await read_documents(ctx, "clusters")
    assert report.counts["topics"] == 5
    assert len(after) == 5
    assert before.keys() < after.keys()
    for cluster_id, data in before.items():
        for field in ("name", "description", "keywords", "created_at"):
            assert after[cluster_id][field] == data[field]


@pytest.mark.usefixtures("five_clusters")
async def test_a_run_short_of_time_only_assigns_new_chunks(ctx: Context) -> None:
    boats = await find_cluster_of_theme(ctx, "boats")
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 12)))

    report = await cluster(ctx, make_hasty_budget())

    assert not report.finished
    assert report.note == NO_TIME
    assert report.counts["topics"] == 0
    assert report.counts["placed"] == 12
    assert (await assert_sizes_are_exact(ctx))[boats] > PASSAGES_PER_THEME
    assert await count_pending_chunks(ctx) == 0
    assert (await run_cluster(ctx)).counts["topics"] == 5


async def test_chunks_stay_pending_if_the_first_clustering_lacks_time(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    report = await cluster(ctx, make_hasty_budget())
    assert not report.finished
    assert report.note == NO_TIME
    assert +report.counts == {}
    assert await count_pending_chunks(ctx) == len(THEMES) * PASSAGES_PER_THEME


@pytest.mark.usefixtures("five_clusters")
async def test_any_change_after_a_week_causes_reclustering(
    ctx: Context, clock: SettableClock
) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 1)))
    assert (await run_cluster(ctx)).counts["topics"] == 0
    before = await read_cluster_ids(ctx)
    clock.now += timedelta(days=7)
    report = await run_cluster(ctx)
    assert (report.counts["topics"], report.counts["placed"]) == (5, 0)
    assert await read_cluster_ids(ctx) == before
    clock.now += timedelta(days=7)
    assert await run_cluster(ctx) == Report()


async def test_the_next_run_continues_one_out_of_time(ctx: Context) -> None:
    """Of 215 chunks, 200 are assigned with the first commit."""
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(140))

    report = await cluster(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["placed"] == 200

    report = await run_cluster(ctx)
    assert report.finished
    assert report.counts["placed"] == 15
    await assert_sizes_are_exact(ctx)
    assert await count_pending_chunks(ctx) == 0


@pytest.mark.usefixtures("five_clusters")
async def test_clusters_are_unchanged_during_a_migration(ctx: Context) -> None:
    """The migration is that of all vectors to another embedding model."""
    await add_sources(ctx, make_themed_source("boats", range(2 * PASSAGES_PER_THEME)))
    space = EmbeddingSpace(ctx.database)
    await space.start_migration(await space.load_state(), WordEmbedder(), NOON)
    before = await read_clustering(ctx)
    assert (await run_cluster(ctx)).note == REEMBEDDING
    assert await read_clustering(ctx) == before


@pytest.mark.usefixtures("five_clusters")
async def test_reclustering_after_a_migration_keeps_ids(ctx: Context) -> None:
    before = await read_sources_by_cluster(ctx)
    await set_fields(ctx, "meta/embedding", {"model": "other words"})
    for chunk_id in await read_documents(ctx, "chunks"):
        chunk = Reference("chunks", chunk_id)
        change = {"embedding_model": "other words", "pending.cluster": NOON}
        await ctx.database.commit([Update(chunk, change)])

    assert (await run_cluster(ctx)).counts["topics"] == 5
    assert await read_sources_by_cluster(ctx) == before
    assert await count_pending_chunks(ctx) == 0
    assert (await read_documents(ctx, "meta"))["clustering"]["model"] == "other words"


async def test_sample_clusters_stay_until_enough_has_changed(ctx: Context) -> None:
    await add_sources(ctx, *(source for source in read(SAMPLE) if isinstance(source, Source)))
    await add_knowledge(ctx)
    before = await read_documents(ctx, "clusters")

    report = await run_cluster(ctx)

    assert report.counts["topics"] == 0
    assert await count_pending_chunks(ctx) == 0
    after = await read_documents(ctx, "clusters")
    assert after.keys() == before.keys()
    for cluster_id, data in before.items():
        # Summaries of books and notes about them are added to the clusters.
        kinds = after[cluster_id].pop("kinds")
        assert sum(kinds.values()) == after[cluster_id]["size"]
        assert after[cluster_id] | {"size": data["size"]} == data


@pytest.mark.usefixtures("five_clusters")
async def test_sample_cluster_keeps_its_name_and_chunks(ctx: Context) -> None:
    """The cluster has `named_by: "hand"` and no stored central chunks."""
    bread = await find_cluster_of_theme(ctx, "bread")
    stored = Reference("clusters", bread)
    change = {"name": "Bread at home", "named_by": "hand", "central": []}
    await ctx.database.commit([Update(stored, change)])
    await set_fields(ctx, "meta/clustering", {"changed": 20})
    assert (await run_cluster(ctx)).counts["topics"] == 5
    named = (await read_documents(ctx, "clusters"))[bread]
    assert named["name"] == "Bread at home"
    assert named["named_by"] == "hand"
    assert len(named["central"]) == PASSAGES_PER_THEME
