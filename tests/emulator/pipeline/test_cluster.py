"""The cluster job: topics are found, kept, filled and left, at a cost that follows the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.cluster.due import MOVING, TOO_FEW
from functions.jobs.cluster.job import JOB, cluster
from functions.jobs.cluster.making import NO_TIME
from functions.jobs.ingest.readers.reading import read
from infra.local.local_database import SAMPLE
from infra.local.sample.load import add_knowledge
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.source import Source
from shared.runtime.context import Backend
from shared.runtime.job import Busy, Report, run_job
from tests.support.database_dump import copy_into, top_level
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import ample, chunks, documents, nothing, one_step
from tests.support.topic_chunks import (
    SIZE,
    THEMES,
    about,
    hasty,
    loners,
    put_in,
    sizes,
    standing,
    take_out,
    topics,
    waiting,
)

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Deps
    from tests.emulator.conftest import NewBase
    from tests.support.clock import SettableClock
    from tests.support.database_dump import Contents

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def run(deps: Deps) -> Report:
    return await cluster(deps, ample())


@pytest.fixture(scope="module")
async def stored_topics(new_base: NewBase) -> Contents:
    """What is stored of `five_topics`."""
    deps = new_base(None)
    await put_in(deps, *map(about, THEMES), loners(3))
    await run(deps)
    return await top_level(deps.database.client)


@pytest.fixture
async def five_topics(deps: Deps, stored_topics: Contents) -> None:
    """Seventy-five passages about five things, and three about nothing."""
    await copy_into(deps.database.client, stored_topics)


async def topic_of(deps: Deps, theme: str) -> str:
    """The id of the topic that most of a theme's passages belong to."""
    found = [name for name, sources in (await topics(deps)).items() if theme in sources]
    assert 1 == len(found)
    return found[0]


@pytest.mark.usefixtures("five_topics")
async def test_passages_about_one_thing_become_a_topic(deps: Deps) -> None:
    assert [{theme} for theme in sorted(THEMES)] == sorted((await topics(deps)).values(), key=str)


@pytest.mark.usefixtures("five_topics")
async def test_every_topic_has_its_own_name_of_three_to_six_words(deps: Deps) -> None:
    found = (await documents(deps, "clusters")).values()
    assert {True} == {3 <= len(data["name"].split()) <= 6 for data in found}
    assert len(THEMES) == len({data["name"] for data in found})


@pytest.mark.usefixtures("five_topics")
async def test_a_topic_is_described_by_words_of_its_passages(deps: Deps) -> None:
    cluster_id = await topic_of(deps, "bees")
    found = await Clusters(deps.database).get(cluster_id)
    assert found
    assert set(found.cluster.keywords) <= {*THEMES["bees"].split()}
    assert (found.cluster.description or "").endswith("from On bees.")


@pytest.mark.usefixtures("five_topics")
async def test_sizes_are_true_and_nothing_waits_but_the_index(deps: Deps) -> None:
    said, counted = await sizes(deps)
    assert (counted, 0) == (said, await waiting(deps))
    members = [data for data in (await chunks(deps)).values() if data.get("cluster_id")]
    assert {True} == {"index" in data["pending"] for data in members}


@pytest.mark.usefixtures("five_topics")
async def test_a_run_with_nothing_to_do_costs_four_reads_and_no_write(
    backend: Backend,
) -> None:
    meter = Meter()
    assert Report() == await run(backend.deps(Caller(), meter))
    assert (4, 0) == (meter.documents_read, meter.documents_written)


async def test_an_empty_base_costs_one_read(deps: Deps, meter: Meter) -> None:
    assert Report() == await run(deps)
    assert (1, 0) == (meter.documents_read, meter.documents_written)


async def test_of_few_passages_no_topics_are_made_and_the_run_says_why(deps: Deps) -> None:
    await put_in(deps, about("bread"))
    report = await run(deps)
    assert (TOO_FEW, {}, 0) == (report.note, await topics(deps), await waiting(deps))


async def test_few_passages_become_topics_once_there_are_enough(deps: Deps) -> None:
    await put_in(deps, about("bread"))
    await run(deps)
    await put_in(deps, about("bees"), about("chess"))
    await run(deps)
    assert 3 == len(await topics(deps))


@pytest.mark.usefixtures("five_topics")
async def test_a_new_passage_joins_its_topic_and_a_stray_joins_none(deps: Deps) -> None:
    before = await topic_of(deps, "boats")
    await put_in(deps, about("boats", range(SIZE + 1)), loners(4))
    report = await run(deps)
    said, counted = await sizes(deps)
    assert (2, counted) == (report.counts["placed"], said)
    assert {before: {"boats"}}.items() <= (await topics(deps)).items()
    assert 0 == report.counts["topics"]


@pytest.mark.usefixtures("five_topics")
async def test_a_passage_that_left_a_topic_no_longer_counts(deps: Deps) -> None:
    await put_in(deps, about("boats", range(SIZE - 2)))
    await run(deps)
    said, counted = await sizes(deps)
    assert counted == said


@pytest.mark.usefixtures("five_topics")
async def test_a_topic_that_lost_all_its_passages_goes(deps: Deps) -> None:
    gone = await topic_of(deps, "clouds")
    await put_in(deps, about("clouds", range(3)))
    await run(deps)
    await take_out(deps, about("clouds"))
    await run(deps)
    assert gone not in await documents(deps, "clusters")


async def test_many_new_passages_make_topics_and_old_ones_keep_ids(
    deps: Deps,
) -> None:
    old = [about(theme) for theme in ("bread", "boats", "bees", "chess")]
    await put_in(deps, *old)
    await run(deps)
    before = await documents(deps, "clusters")
    await put_in(deps, about("clouds"))
    report = await run(deps)
    after = await documents(deps, "clusters")
    assert (5, 5) == (report.counts["topics"], len(after))
    assert before.keys() < after.keys()
    kept = ("name", "description", "keywords", "created_at")
    for name, data in before.items():
        assert {key: data[key] for key in kept} == {key: after[name][key] for key in kept}


@pytest.mark.usefixtures("five_topics")
async def test_without_time_to_read_all_new_passages_find_their_topics(
    deps: Deps,
) -> None:
    before = await topic_of(deps, "boats")
    await put_in(deps, about("boats", range(SIZE + 12)))
    report = await cluster(deps, hasty())
    said, counted = await sizes(deps)
    assert (False, NO_TIME, 0, 12) == (
        report.finished, report.note, report.counts["topics"], report.counts["placed"],
    )  # fmt: skip
    assert (counted, 0) == (said, await waiting(deps))
    assert counted[before] > SIZE
    assert 5 == (await run(deps)).counts["topics"]


async def test_without_time_for_first_topics_passages_go_on_waiting(deps: Deps) -> None:
    await put_in(deps, *map(about, THEMES))
    report = await cluster(deps, hasty())
    assert (False, NO_TIME, {}) == (report.finished, report.note, +report.counts)
    assert len(THEMES) * SIZE == await waiting(deps)


async def test_a_chunk_whose_index_was_given_up_waits_for_it_again(deps: Deps) -> None:
    await put_in(deps, *map(about, THEMES))
    given_up = next(iter(await chunks(deps)))
    parked = {"pending.index": DELETE_FIELD, "tries.index": 5, "parked.index": {"reason": "x"}}
    await deps.database.document("chunks", given_up).update(parked)
    await run(deps)
    data = (await chunks(deps))[given_up]
    assert (True, {}, {}) == ("index" in data["pending"], data["tries"], data["parked"])


@pytest.mark.usefixtures("five_topics")
async def test_after_a_week_any_change_makes_the_topics_anew(
    deps: Deps, clock: SettableClock
) -> None:
    await put_in(deps, about("boats", range(SIZE + 1)))
    assert 0 == (await run(deps)).counts["topics"]
    clock.now += timedelta(days=7)
    assert 5 == (await run(deps)).counts["topics"]
    clock.now += timedelta(days=7)
    assert Report() == await run(deps)


@pytest.mark.usefixtures("five_topics")
async def test_making_topics_again_of_the_same_passages_moves_nothing(
    deps: Deps, clock: SettableClock
) -> None:
    before = {name: data.get("cluster_id") for name, data in (await chunks(deps)).items()}
    await deps.database.document("meta", "clustering").update({"changed": 1})
    clock.now += timedelta(days=7)
    report = await run(deps)
    after = {name: data.get("cluster_id") for name, data in (await chunks(deps)).items()}
    assert (before, 0) == (after, report.counts["placed"])


@pytest.mark.usefixtures("five_topics")
async def test_the_order_in_which_passages_came_makes_no_difference(
    deps: Deps, settings: Settings, clock: SettableClock
) -> None:
    other = settings.model_copy(
        update={"google_cloud_project": f"{settings.google_cloud_project}-b"}
    )
    opened = Backend(other, clock=clock, embedder=WordEmbedder())
    others = opened.deps(Caller(), Meter())
    for source in reversed([*map(about, THEMES), loners(3)]):
        await put_in(others, source)
    await run(others)
    assert await topics(deps) == await topics(others)
    await opened.aclose()


async def test_out_of_time_it_goes_on_where_it_stopped(deps: Deps) -> None:
    await put_in(deps, *map(about, THEMES), loners(140))
    first = await cluster(deps, one_step())
    assert (False, 200) == (first.finished, first.counts["placed"])
    second = await run(deps)
    said, counted = await sizes(deps)
    assert (True, 15, counted, 0) == (
        second.finished, second.counts["placed"], said, await waiting(deps),
    )  # fmt: skip


async def test_without_time_it_changes_nothing(deps: Deps) -> None:
    await put_in(deps, *map(about, THEMES))
    report = await cluster(deps, nothing())
    assert (False, {}) == (report.finished, await documents(deps, "clusters"))


@pytest.mark.usefixtures("five_topics")
async def test_during_a_move_to_another_model_topics_stay_as_they_are(
    deps: Deps,
) -> None:
    await put_in(deps, about("boats", range(2 * SIZE)))
    before = await standing(deps)
    there = await EmbeddingSpace(deps.database).standing()
    await EmbeddingSpace(deps.database).announce(there, WordEmbedder(), NOON)
    assert MOVING == (await run(deps)).note
    assert {**before, "meta/embedding": ...} == {**await standing(deps), "meta/embedding": ...}


@pytest.mark.usefixtures("five_topics")
async def test_after_a_move_topics_are_made_anew_and_keep_their_ids(
    deps: Deps,
) -> None:
    before = await topics(deps)
    meta = deps.database.document("meta", "embedding")
    await meta.update({"model": "other words"})
    for chunk_id in await documents(deps, "chunks"):
        reference = deps.database.document("chunks", chunk_id)
        await reference.update({"embedding_model": "other words", "pending.cluster": NOON})
    assert 5 == (await run(deps)).counts["topics"]
    assert (before, 0) == (await topics(deps), await waiting(deps))
    assert "other words" == (await documents(deps, "meta"))["clustering"]["model"]


async def test_two_runs_at_once_are_one(deps: Deps, backend: Backend) -> None:
    await put_in(deps, *map(about, THEMES))
    lease = await Leases(deps.database).acquire(JOB.name, 60, deps.clock, "cluster.x")
    assert not isinstance(lease, datetime)
    assert isinstance(await run_job(JOB, backend), Busy)


async def test_a_run_that_lost_its_lease_writes_nothing(deps: Deps) -> None:
    await put_in(deps, *map(about, THEMES))
    await Leases(deps.database).acquire(JOB.name, 60, deps.clock, "cluster.x")
    await deps.database.document("leases", JOB.name).update({"holder": "another"})
    with pytest.raises(LeaseLost):
        await run(deps)
    assert {} == await documents(deps, "clusters")


async def test_topics_of_the_sample_stay_until_enough_has_changed(deps: Deps) -> None:
    await put_in(deps, *(source for source in read(SAMPLE) if isinstance(source, Source)))
    await add_knowledge(deps)
    before = await documents(deps, "clusters")
    report = await run(deps)
    assert (0, 0) == (report.counts["topics"], await waiting(deps))
    assert before == await documents(deps, "clusters")


@pytest.mark.usefixtures("five_topics")
async def test_a_topic_of_the_sample_keeps_name_and_passages(deps: Deps) -> None:
    """It has `named_by: "hand"`, and no central passages are stored of it."""
    bread = await topic_of(deps, "bread")
    stored = deps.database.document("clusters", bread)
    await stored.update({"name": "Bread at home", "named_by": "hand", "central": []})
    await deps.database.document("meta", "clustering").update({"changed": 20})
    assert 5 == (await run(deps)).counts["topics"]
    named = (await documents(deps, "clusters"))[bread]
    assert ("Bread at home", "hand", SIZE) == (
        named["name"],
        named["named_by"],
        len(named["central"]),
    )
