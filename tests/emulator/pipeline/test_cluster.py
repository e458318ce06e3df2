"""The cluster job finds, keeps and fills clusters, at a cost in proportion to the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

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
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import to_compact
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job
from tests.support.database_dump import read_root_documents, write_documents
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

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.emulator.conftest import NewBase
    from tests.support.clock import SettableClock
    from tests.support.database_dump import Contents

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def run(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


@pytest.fixture(scope="module")
async def stored_clusters(new_base: NewBase) -> Contents:
    """Return the stored chunks of `five_clusters`."""
    ctx = new_base(None)
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(3))
    await run(ctx)
    return await read_root_documents(ctx.database.client)


@pytest.fixture
async def five_clusters(ctx: Context, stored_clusters: Contents) -> None:
    """Seventy-five chunks about five subjects, and three about none."""
    await write_documents(ctx.database.client, stored_clusters)


@pytest.mark.usefixtures("five_clusters")
async def test_a_vector_of_another_length_is_not_clustered(ctx: Context) -> None:
    """It cannot be compared, so the chunk belongs to no cluster."""
    chunk_id, *_ = stored = await read_chunks(ctx)
    short = to_compact(ctx.embedder.dimension // 2 * [0.1])
    for step in ("assigned", "clustered"):
        change = {"embedding_f16": short, "cluster_id": [], "pending": {"cluster": NOON}}
        await set_fields(ctx, f"chunks/{chunk_id}", change)
        if step == "clustered":
            await set_fields(ctx, "meta/clustering", {"unfinished": True})
        await run(ctx)
        assigned = {name: data.get("cluster_id") for name, data in (await read_chunks(ctx)).items()}
        assert not assigned[chunk_id]
        assert sum(map(bool, assigned.values())) >= len(stored) - 4


async def find_cluster_of_theme(ctx: Context, theme: str) -> str:
    """Return the id of the cluster that has most of a theme's chunks."""
    matches = [
        name for name, sources in (await read_sources_by_cluster(ctx)).items() if theme in sources
    ]
    assert len(matches) == 1
    return matches[0]


@pytest.mark.usefixtures("five_clusters")
async def test_chunks_about_one_subject_form_a_cluster(ctx: Context) -> None:
    assert [{theme} for theme in sorted(THEMES)] == sorted(
        (await read_sources_by_cluster(ctx)).values(), key=str
    )


@pytest.mark.usefixtures("five_clusters")
async def test_cluster_names_are_unique_and_short(ctx: Context) -> None:
    stored = (await read_documents(ctx, "clusters")).values()
    assert {3 <= len(data["name"].split()) <= 6 for data in stored} == {True}
    assert len(THEMES) == len({data["name"] for data in stored})


@pytest.mark.usefixtures("five_clusters")
async def test_cluster_is_described_by_words_of_its_chunks(ctx: Context) -> None:
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
    members = [data for data in (await read_chunks(ctx)).values() if data.get("cluster_id")]
    assert {"index" in data["pending"] for data in members} == {True}


@pytest.mark.usefixtures("five_clusters")
async def test_idle_run_costs_four_reads_and_no_write(
    app: App,
) -> None:
    meter = Meter()
    assert await run(app.context(Caller(), meter)) == Report()
    assert meter.documents_read == 4
    assert meter.documents_written == 0


async def test_empty_base_costs_one_read(ctx: Context, meter: Meter) -> None:
    assert await run(ctx) == Report()
    assert meter.documents_read == 1
    assert meter.documents_written == 0


async def test_too_few_chunks_form_no_cluster_with_a_reason(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("bread"))
    report = await run(ctx)
    assert report.note == TOO_FEW
    assert await read_sources_by_cluster(ctx) == {}
    assert await count_pending_chunks(ctx) == 0


async def test_clusters_appear_once_there_are_enough_chunks(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("bread"))
    await run(ctx)
    await add_sources(ctx, make_themed_source("bees"), make_themed_source("chess"))
    await run(ctx)
    assert len(await read_sources_by_cluster(ctx)) == 3


@pytest.mark.usefixtures("five_clusters")
async def test_new_chunk_joins_a_cluster_unless_it_is_an_outlier(ctx: Context) -> None:
    before = await find_cluster_of_theme(ctx, "boats")
    await add_sources(
        ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 1)), make_unrelated_source(4)
    )
    report = await run(ctx)
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert report.counts["placed"] == 2
    assert counted == stored_sizes
    assert {before: {"boats"}}.items() <= (await read_sources_by_cluster(ctx)).items()
    assert report.counts["topics"] == 0


@pytest.mark.usefixtures("five_clusters")
async def test_chunk_that_left_a_cluster_is_not_counted(ctx: Context) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME - 2)))
    await run(ctx)
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert counted == stored_sizes


@pytest.mark.usefixtures("five_clusters")
async def test_empty_cluster_is_deleted(ctx: Context) -> None:
    gone = await find_cluster_of_theme(ctx, "clouds")
    await add_sources(ctx, make_themed_source("clouds", range(3)))
    await run(ctx)
    await delete_source(ctx, make_themed_source("clouds"))
    await run(ctx)
    assert gone not in await read_documents(ctx, "clusters")


async def test_reclustering_keeps_the_ids_of_old_clusters(
    ctx: Context,
) -> None:
    old = [make_themed_source(theme) for theme in ("bread", "boats", "bees", "chess")]
    await add_sources(ctx, *old)
    await run(ctx)
    before = await read_documents(ctx, "clusters")
    await add_sources(ctx, make_themed_source("clouds"))
    report = await run(ctx)
    after = await read_documents(ctx, "clusters")
    assert report.counts["topics"] == 5
    assert len(after) == 5
    assert before.keys() < after.keys()
    fields = ("name", "description", "keywords", "created_at")
    for name, data in before.items():
        assert {key: data[key] for key in fields} == {key: after[name][key] for key in fields}


@pytest.mark.usefixtures("five_clusters")
async def test_run_short_of_time_assigns_new_chunks(
    ctx: Context,
) -> None:
    before = await find_cluster_of_theme(ctx, "boats")
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 12)))
    report = await cluster(ctx, make_hasty_budget())
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert (
        report.finished, report.note, report.counts["topics"], report.counts["placed"],
    ) == (False, NO_TIME, 0, 12)  # fmt: skip
    assert stored_sizes == counted
    assert await count_pending_chunks(ctx) == 0
    assert counted[before] > PASSAGES_PER_THEME
    assert (await run(ctx)).counts["topics"] == 5


async def test_chunks_stay_pending_if_first_clustering_lacks_time(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    report = await cluster(ctx, make_hasty_budget())
    assert not report.finished
    assert report.note == NO_TIME
    assert +report.counts == {}
    assert len(THEMES) * PASSAGES_PER_THEME == await count_pending_chunks(ctx)


async def test_dead_lettered_index_step_is_pending_again(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    given_up = next(iter(await read_chunks(ctx)))
    parked = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await ctx.database.document("chunks", given_up).update(parked)
    await run(ctx)
    data = (await read_chunks(ctx))[given_up]
    assert "index" in data["pending"]
    assert data["tries"] == {}
    assert data["parked"] == {}


@pytest.mark.usefixtures("five_clusters")
async def test_any_change_after_a_week_causes_reclustering(
    ctx: Context, clock: SettableClock
) -> None:
    await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 1)))
    assert (await run(ctx)).counts["topics"] == 0
    clock.now += timedelta(days=7)
    assert (await run(ctx)).counts["topics"] == 5
    clock.now += timedelta(days=7)
    assert await run(ctx) == Report()


@pytest.mark.usefixtures("five_clusters")
async def test_reclustering_the_same_chunks_changes_nothing(
    ctx: Context, clock: SettableClock
) -> None:
    before = {name: data.get("cluster_id") for name, data in (await read_chunks(ctx)).items()}
    await ctx.database.document("meta", "clustering").update({"changed": 1})
    clock.now += timedelta(days=7)
    report = await run(ctx)
    after = {name: data.get("cluster_id") for name, data in (await read_chunks(ctx)).items()}
    assert before == after
    assert report.counts["placed"] == 0


@pytest.mark.usefixtures("five_clusters")
async def test_order_of_ingest_does_not_matter(
    ctx: Context, settings: Settings, clock: SettableClock
) -> None:
    other = settings.model_copy(
        update={"google_cloud_project": f"{settings.google_cloud_project}-b"}
    )
    opened = App(other, clock=clock, embedder=WordEmbedder())
    others = opened.context(Caller(), Meter())
    for source in reversed([*map(make_themed_source, THEMES), make_unrelated_source(3)]):
        await add_sources(others, source)
    await run(others)
    assert await read_sources_by_cluster(ctx) == await read_sources_by_cluster(others)
    await opened.aclose()


async def test_next_run_continues_one_out_of_time(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES), make_unrelated_source(140))
    first = await cluster(ctx, make_one_step_budget())
    assert not first.finished
    assert first.counts["placed"] == 200
    second = await run(ctx)
    stored_sizes, counted = await read_cluster_sizes(ctx)
    assert (
        second.finished, second.counts["placed"], stored_sizes, await count_pending_chunks(ctx),
    ) == (True, 15, counted, 0)  # fmt: skip


async def test_run_without_time_changes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    report = await cluster(ctx, make_spent_budget())
    assert not report.finished
    assert await read_documents(ctx, "clusters") == {}


@pytest.mark.usefixtures("five_clusters")
async def test_clusters_stay_during_a_migration(
    ctx: Context,
) -> None:
    await add_sources(ctx, make_themed_source("boats", range(2 * PASSAGES_PER_THEME)))
    before = await read_clustering(ctx)
    there = await EmbeddingSpace(ctx.database).load_state()
    await EmbeddingSpace(ctx.database).start_migration(there, WordEmbedder(), NOON)
    assert (await run(ctx)).note == REEMBEDDING
    assert {
        **await read_clustering(ctx),
        "meta/embedding": ...,
    } == {**before, "meta/embedding": ...}


@pytest.mark.usefixtures("five_clusters")
async def test_reclustering_after_a_migration_keeps_ids(
    ctx: Context,
) -> None:
    before = await read_sources_by_cluster(ctx)
    meta = ctx.database.document("meta", "embedding")
    await meta.update({"model": "other words"})
    for chunk_id in await read_documents(ctx, "chunks"):
        reference = ctx.database.document("chunks", chunk_id)
        await reference.update({"embedding_model": "other words", "pending.cluster": NOON})
    assert (await run(ctx)).counts["topics"] == 5
    assert await read_sources_by_cluster(ctx) == before
    assert await count_pending_chunks(ctx) == 0
    assert (await read_documents(ctx, "meta"))["clustering"]["model"] == "other words"


async def test_concurrent_runs_exclude_each_other(ctx: Context, app: App) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    lease = await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    assert not isinstance(lease, datetime)
    assert isinstance(await run_job(JOB, app), AlreadyRunning)


async def test_run_without_its_lease_writes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))
    await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    await ctx.database.document("leases", JOB.name).update({"holder": "another"})
    with pytest.raises(LeaseLost):
        await run(ctx)
    assert await read_documents(ctx, "clusters") == {}


async def test_sample_clusters_stay_until_enough_has_changed(ctx: Context) -> None:
    await add_sources(ctx, *(source for source in read(SAMPLE) if isinstance(source, Source)))
    await add_knowledge(ctx)
    before = await read_documents(ctx, "clusters")
    report = await run(ctx)
    assert report.counts["topics"] == 0
    assert await count_pending_chunks(ctx) == 0
    after = await read_documents(ctx, "clusters")
    assert after.keys() == before.keys()
    changed = {
        field
        for name in after
        for field in after[name]
        if after[name][field] != before[name][field]
    }
    assert changed <= {"size"}  # summaries and notes about books are assigned to them


@pytest.mark.usefixtures("five_clusters")
async def test_sample_cluster_keeps_its_name_and_chunks(ctx: Context) -> None:
    """The cluster has `named_by: "hand"` and no stored central chunks."""
    bread = await find_cluster_of_theme(ctx, "bread")
    stored = ctx.database.document("clusters", bread)
    await stored.update({"name": "Bread at home", "named_by": "hand", "central": []})
    await ctx.database.document("meta", "clustering").update({"changed": 20})
    assert (await run(ctx)).counts["topics"] == 5
    named = (await read_documents(ctx, "clusters"))[bread]
    assert named["name"] == "Bread at home"
    assert named["named_by"] == "hand"
    assert len(named["central"]) == PASSAGES_PER_THEME
