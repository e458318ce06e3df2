"""The cluster job groups chunks of similar meaning, and a run costs in proportion to the change.

A run assigns new chunks to the existing clusters. If enough has changed, it clusters all chunks
again, and recognizes the former clusters. A chunk that fits no cluster is an outlier.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.cluster.job import JOB, cluster
from functions.jobs.cluster.reclustering import NO_TIME
from functions.jobs.cluster.schedule import REEMBEDDING, TOO_FEW
from functions.jobs.ingest.readers.reading import read
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import add_knowledge
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import LeaseLost
from shared.firestore.documents import Reference
from shared.firestore.leases import Leases
from shared.firestore.writes import Update
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import to_compact
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Report, run_job
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.database_dump import Contents, read_root_documents, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import (
    make_ample_budget,
    make_hasty_budget,
    make_job_context,
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

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def run_cluster(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


@pytest.fixture(scope="module")
async def stored_clusters(shared_apps: Apps) -> Contents:
    """The documents of `five_clusters`, which are made only once."""
    ctx = shared_apps.context()
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


@pytest.mark.usefixtures("five_clusters")
async def test_chunks_about_one_subject_form_a_cluster(ctx: Context) -> None:
    sources = (await read_sources_by_cluster(ctx)).values()
    assert sorted(sources, key=str) == [{theme} for theme in sorted(THEMES)]


@pytest.mark.usefixtures("five_clusters")
async def test_cluster_names_are_unique_and_short(ctx: Context) -> None:
    clusters = (await read_documents(ctx, "clusters")).values()
    assert all(3 <= len(data["name"].split()) <= 6 for data in clusters)
    assert len({data["name"] for data in clusters}) == len(THEMES)


@pytest.mark.usefixtures("five_clusters")
async def test_a_cluster_is_described_by_words_of_its_chunks(ctx: Context) -> None:
    cluster_id = await find_cluster_of_theme(ctx, "bees")
    cluster = await Clusters(ctx.database).get(cluster_id)
    assert cluster
    assert set(cluster.cluster.keywords) <= {*THEMES["bees"].split()}
    assert (cluster.cluster.description or "").endswith("from On bees.")


@pytest.mark.usefixtures("five_clusters")
async def test_sizes_are_exact_and_only_indexing_is_pending(ctx: Context) -> None:
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    assert await count_pending_chunks(ctx) == 0
    clustered = [data for data in (await read_chunks(ctx)).values() if data.get("cluster_id")]
    assert all("index" in data["pending"] for data in clustered)


@pytest.mark.usefixtures("five_clusters")
async def test_a_run_without_changes_costs_four_reads_and_no_write(app: App) -> None:
    meter = Meter()
    assert await run_cluster(app.context(Caller(), meter)) == Report()
    assert meter.documents_read == 4
    assert meter.documents_written == 0


async def test_an_empty_base_costs_one_read(ctx: Context, meter: Meter) -> None:
    assert await run_cluster(ctx) == Report()
    assert meter.documents_read == 1
    assert meter.documents_written == 0


async def test_too_few_chunks_form_no_cluster_and_the_report_says_so(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("bread"))
    report = await run_cluster(ctx)
    assert report.note == TOO_FEW
    assert await read_sources_by_cluster(ctx) == {}
    assert await count_pending_chunks(ctx) == 0


async def test_clusters_appear_once_there_are_enough_chunks(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("bread"))
    await run_cluster(ctx)
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
async def test_deleted_chunks_are_not_counted_in_their_cluster(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME - 2)))
    await run_cluster(ctx)
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
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    assert counted[boats] > PASSAGES_PER_THEME
    assert await count_pending_chunks(ctx) == 0
    assert (await run_cluster(ctx)).counts["topics"] == 5


async def test_chunks_stay_pending_if_the_first_clustering_lacks_time(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    report = await cluster(ctx, make_hasty_budget())
    assert not report.finished
    assert report.note == NO_TIME
    assert +report.counts == {}
    assert await count_pending_chunks(ctx) == len(THEMES) * PASSAGES_PER_THEME


async def test_a_dead_lettered_index_step_is_pending_again(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    chunk_id = next(iter(await read_chunks(ctx)))
    dead_letter = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await ctx.database.connection.client.collection("chunks").document(chunk_id).update(dead_letter)
    await run_cluster(ctx)
    data = (await read_chunks(ctx))[chunk_id]
    assert "index" in data["pending"]
    assert data["tries"] == {}
    assert data["parked"] == {}


@pytest.mark.usefixtures("five_clusters")
async def test_any_change_after_a_week_causes_reclustering(
    ctx: Context, clock: SettableClock
) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 1)))
    assert (await run_cluster(ctx)).counts["topics"] == 0
    clock.now += timedelta(days=7)
    assert (await run_cluster(ctx)).counts["topics"] == 5
    clock.now += timedelta(days=7)
    assert await run_cluster(ctx) == Report()


@pytest.mark.usefixtures("five_clusters")
async def test_reclustering_the_same_chunks_changes_nothing(
    ctx: Context, clock: SettableClock
) -> None:
    before = await read_cluster_ids(ctx)
    await (
        ctx.database.connection.client.collection("meta")
        .document("clustering")
        .update({"changed": 1})
    )
    clock.now += timedelta(days=7)
    report = await run_cluster(ctx)
    assert await read_cluster_ids(ctx) == before
    assert report.counts["placed"] == 0


@pytest.mark.usefixtures("five_clusters")
async def test_the_order_of_ingest_does_not_matter(
    ctx: Context, settings: Settings, clock: SettableClock
) -> None:
    project = f"{settings.google_cloud_project}-reversed"
    other_settings = settings.model_copy(update={"google_cloud_project": project})
    other_app = App(other_settings, clock=clock, embedder=WordEmbedder())
    other_ctx = make_job_context(other_app)
    for source in reversed([*map(make_themed_source, THEMES), make_unrelated_source(3)]):
        await add_sources(other_ctx, source)
    await run_cluster(other_ctx)
    assert await read_sources_by_cluster(ctx) == await read_sources_by_cluster(other_ctx)
    await other_app.aclose()


async def test_the_next_run_continues_one_out_of_time(ctx: Context) -> None:
    """Of 215 chunks, 200 are assigned with the first commit."""
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(140))

    report = await cluster(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["placed"] == 200

    report = await run_cluster(ctx)
    assert report.finished
    assert report.counts["placed"] == 15
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert stored_sizes == counted
    assert await count_pending_chunks(ctx) == 0


async def test_a_run_without_time_changes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    report = await cluster(ctx, make_spent_budget())
    assert not report.finished
    assert await read_documents(ctx, "clusters") == {}


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
    await (
        ctx.database.connection.client.collection("meta")
        .document("embedding")
        .update({"model": "other words"})
    )
    for chunk_id in await read_documents(ctx, "chunks"):
        chunk = Reference("chunks", chunk_id)
        change = {"embedding_model": "other words", "pending.cluster": NOON}
        await ctx.database.commit([Update(chunk, change)])

    assert (await run_cluster(ctx)).counts["topics"] == 5
    assert await read_sources_by_cluster(ctx) == before
    assert await count_pending_chunks(ctx) == 0
    assert (await read_documents(ctx, "meta"))["clustering"]["model"] == "other words"


async def test_concurrent_runs_exclude_each_other(ctx: Context, app: App) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    lease = await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    assert not isinstance(lease, datetime)
    assert isinstance(await run_job(JOB, app), AlreadyRunning)


async def test_a_run_that_lost_its_lease_writes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    await (
        ctx.database.connection.client.collection("leases")
        .document(JOB.name)
        .update({"holder": "another"})
    )
    with pytest.raises(LeaseLost):
        await run_cluster(ctx)
    assert await read_documents(ctx, "clusters") == {}


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
        assert after[cluster_id] | {"size": data["size"]} == data


@pytest.mark.usefixtures("five_clusters")
async def test_sample_cluster_keeps_its_name_and_chunks(ctx: Context) -> None:
    """The cluster has `named_by: "hand"` and no stored central chunks."""
    bread = await find_cluster_of_theme(ctx, "bread")
    stored = Reference("clusters", bread)
    change = {"name": "Bread at home", "named_by": "hand", "central": []}
    await ctx.database.commit([Update(stored, change)])
    await (
        ctx.database.connection.client.collection("meta")
        .document("clustering")
        .update({"changed": 20})
    )
    assert (await run_cluster(ctx)).counts["topics"] == 5
    named = (await read_documents(ctx, "clusters"))[bread]
    assert named["name"] == "Bread at home"
    assert named["named_by"] == "hand"
    assert len(named["central"]) == PASSAGES_PER_THEME
