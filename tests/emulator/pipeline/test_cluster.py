"""The cluster job: clusters are found, kept, filled and left, at a cost that follows the change."""

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
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job
from tests.support.cluster_chunks import (
    SIZE,
    THEMES,
    add_sources,
    cluster_sizes,
    count_pending_chunks,
    delete_source,
    hasty_budget,
    sources_by_cluster,
    stored_documents,
    themed_source,
    unrelated_source,
)
from tests.support.database_dump import copy_into, top_level
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import ample, chunks, documents, nothing, one_step

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.emulator.conftest import NewBase
    from tests.support.clock import SettableClock
    from tests.support.database_dump import Contents

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def run(ctx: Context) -> Report:
    return await cluster(ctx, ample())


@pytest.fixture(scope="module")
async def stored_clusters(new_base: NewBase) -> Contents:
    """What is stored of `five_clusters`."""
    ctx = new_base(None)
    await add_sources(ctx, *map(themed_source, THEMES), unrelated_source(3))
    await run(ctx)
    return await top_level(ctx.database.client)


@pytest.fixture
async def five_clusters(ctx: Context, stored_clusters: Contents) -> None:
    """Seventy-five passages about five things, and three about nothing."""
    await copy_into(ctx.database.client, stored_clusters)


async def cluster_of(ctx: Context, theme: str) -> str:
    """The id of the cluster that most of a theme's passages belong to."""
    matches = [
        name for name, sources in (await sources_by_cluster(ctx)).items() if theme in sources
    ]
    assert 1 == len(matches)
    return matches[0]


@pytest.mark.usefixtures("five_clusters")
async def test_passages_about_one_thing_become_a_cluster(ctx: Context) -> None:
    assert [{theme} for theme in sorted(THEMES)] == sorted(
        (await sources_by_cluster(ctx)).values(), key=str
    )


@pytest.mark.usefixtures("five_clusters")
async def test_every_cluster_has_its_own_name_of_three_to_six_words(ctx: Context) -> None:
    stored = (await documents(ctx, "clusters")).values()
    assert {True} == {3 <= len(data["name"].split()) <= 6 for data in stored}
    assert len(THEMES) == len({data["name"] for data in stored})


@pytest.mark.usefixtures("five_clusters")
async def test_a_cluster_is_described_by_words_of_its_passages(ctx: Context) -> None:
    cluster_id = await cluster_of(ctx, "bees")
    cluster = await Clusters(ctx.database).get(cluster_id)
    assert cluster
    assert set(cluster.cluster.keywords) <= {*THEMES["bees"].split()}
    assert (cluster.cluster.description or "").endswith("from On bees.")


@pytest.mark.usefixtures("five_clusters")
async def test_sizes_are_true_and_nothing_waits_but_the_index(ctx: Context) -> None:
    stored_sizes, counted = await cluster_sizes(ctx)
    assert (counted, 0) == (stored_sizes, await count_pending_chunks(ctx))
    members = [data for data in (await chunks(ctx)).values() if data.get("cluster_id")]
    assert {True} == {"index" in data["pending"] for data in members}


@pytest.mark.usefixtures("five_clusters")
async def test_a_run_with_nothing_to_do_costs_four_reads_and_no_write(
    app: App,
) -> None:
    meter = Meter()
    assert Report() == await run(app.context(Caller(), meter))
    assert (4, 0) == (meter.documents_read, meter.documents_written)


async def test_an_empty_base_costs_one_read(ctx: Context, meter: Meter) -> None:
    assert Report() == await run(ctx)
    assert (1, 0) == (meter.documents_read, meter.documents_written)


async def test_of_few_passages_no_clusters_are_made_and_the_run_says_why(ctx: Context) -> None:
    await add_sources(ctx, themed_source("bread"))
    report = await run(ctx)
    assert (TOO_FEW, {}, 0) == (
        report.note,
        await sources_by_cluster(ctx),
        await count_pending_chunks(ctx),
    )


async def test_few_passages_become_clusters_once_there_are_enough(ctx: Context) -> None:
    await add_sources(ctx, themed_source("bread"))
    await run(ctx)
    await add_sources(ctx, themed_source("bees"), themed_source("chess"))
    await run(ctx)
    assert 3 == len(await sources_by_cluster(ctx))


@pytest.mark.usefixtures("five_clusters")
async def test_a_new_passage_joins_its_cluster_and_a_stray_joins_none(ctx: Context) -> None:
    before = await cluster_of(ctx, "boats")
    await add_sources(ctx, themed_source("boats", range(SIZE + 1)), unrelated_source(4))
    report = await run(ctx)
    stored_sizes, counted = await cluster_sizes(ctx)
    assert (2, counted) == (report.counts["placed"], stored_sizes)
    assert {before: {"boats"}}.items() <= (await sources_by_cluster(ctx)).items()
    assert 0 == report.counts["topics"]


@pytest.mark.usefixtures("five_clusters")
async def test_a_passage_that_left_a_cluster_no_longer_counts(ctx: Context) -> None:
    await add_sources(ctx, themed_source("boats", range(SIZE - 2)))
    await run(ctx)
    stored_sizes, counted = await cluster_sizes(ctx)
    assert counted == stored_sizes


@pytest.mark.usefixtures("five_clusters")
async def test_a_cluster_that_lost_all_its_passages_goes(ctx: Context) -> None:
    gone = await cluster_of(ctx, "clouds")
    await add_sources(ctx, themed_source("clouds", range(3)))
    await run(ctx)
    await delete_source(ctx, themed_source("clouds"))
    await run(ctx)
    assert gone not in await documents(ctx, "clusters")


async def test_many_new_passages_make_clusters_and_old_ones_keep_ids(
    ctx: Context,
) -> None:
    old = [themed_source(theme) for theme in ("bread", "boats", "bees", "chess")]
    await add_sources(ctx, *old)
    await run(ctx)
    before = await documents(ctx, "clusters")
    await add_sources(ctx, themed_source("clouds"))
    report = await run(ctx)
    after = await documents(ctx, "clusters")
    assert (5, 5) == (report.counts["topics"], len(after))
    assert before.keys() < after.keys()
    fields = ("name", "description", "keywords", "created_at")
    for name, data in before.items():
        assert {key: data[key] for key in fields} == {key: after[name][key] for key in fields}


@pytest.mark.usefixtures("five_clusters")
async def test_without_time_to_read_all_new_passages_find_their_clusters(
    ctx: Context,
) -> None:
    before = await cluster_of(ctx, "boats")
    await add_sources(ctx, themed_source("boats", range(SIZE + 12)))
    report = await cluster(ctx, hasty_budget())
    stored_sizes, counted = await cluster_sizes(ctx)
    assert (False, NO_TIME, 0, 12) == (
        report.finished, report.note, report.counts["topics"], report.counts["placed"],
    )  # fmt: skip
    assert (counted, 0) == (stored_sizes, await count_pending_chunks(ctx))
    assert counted[before] > SIZE
    assert 5 == (await run(ctx)).counts["topics"]


async def test_without_time_for_first_clusters_passages_go_on_waiting(ctx: Context) -> None:
    await add_sources(ctx, *map(themed_source, THEMES))
    report = await cluster(ctx, hasty_budget())
    assert (False, NO_TIME, {}) == (report.finished, report.note, +report.counts)
    assert len(THEMES) * SIZE == await count_pending_chunks(ctx)


async def test_a_chunk_whose_index_was_given_up_waits_for_it_again(ctx: Context) -> None:
    await add_sources(ctx, *map(themed_source, THEMES))
    given_up = next(iter(await chunks(ctx)))
    parked = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await ctx.database.document("chunks", given_up).update(parked)
    await run(ctx)
    data = (await chunks(ctx))[given_up]
    assert (True, {}, {}) == ("index" in data["pending"], data["tries"], data["parked"])


@pytest.mark.usefixtures("five_clusters")
async def test_after_a_week_any_change_makes_the_clusters_again(
    ctx: Context, clock: SettableClock
) -> None:
    await add_sources(ctx, themed_source("boats", range(SIZE + 1)))
    assert 0 == (await run(ctx)).counts["topics"]
    clock.now += timedelta(days=7)
    assert 5 == (await run(ctx)).counts["topics"]
    clock.now += timedelta(days=7)
    assert Report() == await run(ctx)


@pytest.mark.usefixtures("five_clusters")
async def test_making_clusters_again_of_the_same_passages_moves_nothing(
    ctx: Context, clock: SettableClock
) -> None:
    before = {name: data.get("cluster_id") for name, data in (await chunks(ctx)).items()}
    await ctx.database.document("meta", "clustering").update({"changed": 1})
    clock.now += timedelta(days=7)
    report = await run(ctx)
    after = {name: data.get("cluster_id") for name, data in (await chunks(ctx)).items()}
    assert (before, 0) == (after, report.counts["placed"])


@pytest.mark.usefixtures("five_clusters")
async def test_the_order_in_which_passages_came_makes_no_difference(
    ctx: Context, settings: Settings, clock: SettableClock
) -> None:
    other = settings.model_copy(
        update={"google_cloud_project": f"{settings.google_cloud_project}-b"}
    )
    opened = App(other, clock=clock, embedder=WordEmbedder())
    others = opened.context(Caller(), Meter())
    for source in reversed([*map(themed_source, THEMES), unrelated_source(3)]):
        await add_sources(others, source)
    await run(others)
    assert await sources_by_cluster(ctx) == await sources_by_cluster(others)
    await opened.aclose()


async def test_out_of_time_it_goes_on_where_it_stopped(ctx: Context) -> None:
    await add_sources(ctx, *map(themed_source, THEMES), unrelated_source(140))
    first = await cluster(ctx, one_step())
    assert (False, 200) == (first.finished, first.counts["placed"])
    second = await run(ctx)
    stored_sizes, counted = await cluster_sizes(ctx)
    assert (True, 15, counted, 0) == (
        second.finished, second.counts["placed"], stored_sizes, await count_pending_chunks(ctx),
    )  # fmt: skip


async def test_without_time_it_changes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(themed_source, THEMES))
    report = await cluster(ctx, nothing())
    assert (False, {}) == (report.finished, await documents(ctx, "clusters"))


@pytest.mark.usefixtures("five_clusters")
async def test_during_a_move_to_another_model_clusters_stay_as_they_are(
    ctx: Context,
) -> None:
    await add_sources(ctx, themed_source("boats", range(2 * SIZE)))
    before = await stored_documents(ctx)
    there = await EmbeddingSpace(ctx.database).state()
    await EmbeddingSpace(ctx.database).start_migration(there, WordEmbedder(), NOON)
    assert REEMBEDDING == (await run(ctx)).note
    assert {**before, "meta/embedding": ...} == {
        **await stored_documents(ctx),
        "meta/embedding": ...,
    }


@pytest.mark.usefixtures("five_clusters")
async def test_after_a_move_clusters_are_made_again_and_keep_their_ids(
    ctx: Context,
) -> None:
    before = await sources_by_cluster(ctx)
    meta = ctx.database.document("meta", "embedding")
    await meta.update({"model": "other words"})
    for chunk_id in await documents(ctx, "chunks"):
        reference = ctx.database.document("chunks", chunk_id)
        await reference.update({"embedding_model": "other words", "pending.cluster": NOON})
    assert 5 == (await run(ctx)).counts["topics"]
    assert (before, 0) == (await sources_by_cluster(ctx), await count_pending_chunks(ctx))
    assert "other words" == (await documents(ctx, "meta"))["clustering"]["model"]


async def test_two_runs_at_once_are_one(ctx: Context, app: App) -> None:
    await add_sources(ctx, *map(themed_source, THEMES))
    lease = await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    assert not isinstance(lease, datetime)
    assert isinstance(await run_job(JOB, app), AlreadyRunning)


async def test_a_run_that_lost_its_lease_writes_nothing(ctx: Context) -> None:
    await add_sources(ctx, *map(themed_source, THEMES))
    await Leases(ctx.database).acquire(JOB.name, 60, ctx.clock, "cluster.x")
    await ctx.database.document("leases", JOB.name).update({"holder": "another"})
    with pytest.raises(LeaseLost):
        await run(ctx)
    assert {} == await documents(ctx, "clusters")


async def test_clusters_of_the_sample_stay_until_enough_has_changed(ctx: Context) -> None:
    await add_sources(ctx, *(source for source in read(SAMPLE) if isinstance(source, Source)))
    await add_knowledge(ctx)
    before = await documents(ctx, "clusters")
    report = await run(ctx)
    assert (0, 0) == (report.counts["topics"], await count_pending_chunks(ctx))
    assert before == await documents(ctx, "clusters")


@pytest.mark.usefixtures("five_clusters")
async def test_a_cluster_of_the_sample_keeps_name_and_passages(ctx: Context) -> None:
    """It has `named_by: "hand"`, and no central passages are stored of it."""
    bread = await cluster_of(ctx, "bread")
    stored = ctx.database.document("clusters", bread)
    await stored.update({"name": "Bread at home", "named_by": "hand", "central": []})
    await ctx.database.document("meta", "clustering").update({"changed": 20})
    assert 5 == (await run(ctx)).counts["topics"]
    named = (await documents(ctx, "clusters"))[bread]
    assert ("Bread at home", "hand", SIZE) == (
        named["name"],
        named["named_by"],
        len(named["central"]),
    )
