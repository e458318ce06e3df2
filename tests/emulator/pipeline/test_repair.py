"""Repair makes postings agree with the chunks' indexed states, whatever the damage."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import JOB as INDEX
from functions.jobs.repair.job import JOB, count_postings, repair, repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.bm25 import Totals, select_best
from shared.index.posting_changes import select_newest
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Budget, Report, run_job
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.index_history import History
from tests.support.index_postings import (
    assert_postings_are_exact,
    assert_postings_are_sound,
    compute_expected_postings,
    read_postings,
)
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents, read_leased_jobs

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

CAP: Final = {"cap": 4, "slack": 2}
SMALL: Final = RebuildLimits(cap=4, truncate_at=6, memory_budget=40)
SMALL_UNCUT: Final = RebuildLimits(memory_budget=40)
SEEDS: Final = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


async def damage(ctx: Context, chance: random.Random) -> None:
    """Damage some postings, and perhaps the totals, in various ways."""
    stored = await read_postings(ctx)
    for name in chance.sample(sorted(stored), min(len(stored), 15)):
        path, data = "/".join(name), stored[name]
        chunk = chance.choice(sorted(data.get("postings", {})) or ["nobody"])
        wrong: list[dict[str, Any]] = [
            {"df": data.get("df", 0) + chance.choice([-1, 1, 40])},
            {"postings": {chunk: DELETE_FIELD}},
            {"postings": {chunk: 7}},
            {"postings": {"nobody": 8}},
            {"postings": DELETE_FIELD, "df": DELETE_FIELD},
            {"held": 0},
            {"held": DELETE_FIELD, "name": "somebody", "since": 2**62},
        ]
        if change := chance.choice([None, *wrong]):
            await set_fields(ctx, path, change)
        else:
            await ctx.database.client.document(path).delete()
    bogus = {"df": 2, "postings": {"nobody": 9}, "held": 1}
    await set_fields(ctx, f"{chance.choice(['lexicon', 'facets'])}/tag:nothing", bogus)
    await set_fields(
        ctx, "meta/lexicon", {"documents": chance.randrange(5), "length": DELETE_FIELD}
    )


async def make_damaged_base(ctx: Context, seed: int, **limits: int) -> History:
    """Make a base with edited chunks, pending chunks and damaged postings."""
    history = History(ctx, seed, **limits)
    for _ in range(12):
        await history.make_change()
    await damage(ctx, history.generator)
    return history


async def count_writes(app: App, limits: RebuildLimits = RebuildLimits()) -> int:  # noqa: B008 - frozen
    """Return the number of documents that another run writes."""
    meter = Meter()
    assert (
        await repair_within(limits, app.context(Caller(), meter), make_ample_budget()) == Report()
    )
    return meter.documents_written


@pytest.mark.parametrize("seed", SEEDS)
async def test_damaged_postings_equal_rebuilt_ones(ctx: Context, app: App, seed: int) -> None:
    history = await make_damaged_base(ctx, seed)
    assert (await repair(ctx, make_ample_budget())).finished
    assert await count_writes(app) == 0
    await history.index()
    await assert_postings_are_exact(ctx)


@pytest.mark.parametrize("seed", SEEDS)
async def test_truncated_postings_regain_their_best_entries(
    ctx: Context, app: App, seed: int
) -> None:
    history = await make_damaged_base(ctx, seed, **CAP)
    await history.index()
    await repair_within(SMALL, ctx, make_ample_budget())
    assert await count_writes(app, SMALL) == 0
    await assert_postings_are_sound(ctx)
    expected = await compute_expected_postings(ctx)
    average = Totals(**expected.totals).average
    for name, data in (await read_postings(ctx)).items():
        entries = expected.entries[name]
        if data["df"] >= SMALL.truncate_at:
            keep = select_best if name[0] == "lexicon" else select_newest
            entries = keep(entries, average, SMALL.cap)
        assert entries == data["postings"]


async def test_next_run_completes_one_stopped_anywhere(ctx: Context, app: App) -> None:
    history = await make_damaged_base(ctx, 1)
    await history.index()
    await damage(ctx, history.generator)
    for pages in range(4):
        left = iter(range(pages))

        def stop(_count: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyError

        with pytest.raises(KeyError):
            await repair_within(SMALL_UNCUT, ctx, Budget(math.inf, stop))
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)
    assert await count_writes(app) == 0


async def test_run_without_time_continues_the_previous_one(ctx: Context, app: App) -> None:
    history = await make_damaged_base(ctx, 2)
    await history.index()
    await damage(ctx, history.generator)
    runs = 0
    while not (await repair_within(SMALL_UNCUT, ctx, make_one_step_budget())).finished:
        runs += 1
    assert runs > 2
    assert "repair" not in await read_documents(ctx, "meta")
    await assert_postings_are_exact(ctx)
    assert await count_writes(app) == 0


async def test_run_without_any_time_repairs_nothing(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert await repair(ctx, make_spent_budget()) == Report(finished=False)


async def test_missing_postings_are_rebuilt(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    before = await read_postings(ctx)
    for name in before:
        await ctx.database.client.document("/".join(name)).delete()
    report = await repair(ctx, make_ample_budget())
    assert report == Report(Counter(mended=len(before)))
    assert await read_postings(ctx) == before


async def test_concurrent_write_is_not_undone_by_repair(
    settings: Settings, app: App, ctx: Context
) -> None:
    """Chunks that are indexed between repair's reads and its commit stay indexed."""
    await store_sources(ctx, BAKING)
    for name, data in (await read_postings(ctx)).items():
        await set_fields(ctx, "/".join(name), {"df": data["df"] + 1})

    async def meanwhile() -> None:
        await store_sources(ctx, SAILING)

    raced = WatchedApp(settings, call_before(1, meanwhile), embedder=app.embedder)
    await repair(raced.context(Caller(), Meter()), make_ample_budget())
    await raced.aclose()
    stored = await read_postings(ctx)
    for name, entries in (await compute_expected_postings(ctx)).entries.items():
        assert entries == stored[name]["postings"]
    assert (await repair(ctx, make_ample_budget())).counts["mended"] > 0
    await assert_postings_are_exact(ctx)


async def test_intact_postings_cost_no_write_but_the_lease(ctx: Context, app: App) -> None:
    await store_sources(ctx, BAKING, SAILING)
    meter = Meter()

    class Metered(App):
        def context(self, caller: Caller, _meter: Meter) -> Context:
            return super().context(caller, meter)

    make_metered_context = Metered(app.settings, embedder=app.embedder)
    assert await run_job(JOB, make_metered_context) == Report()
    await make_metered_context.aclose()
    assert meter.documents_written == 3  # and what is kept of the run
    assert await read_leased_jobs(ctx) == set()


async def test_empty_base_has_nothing_to_repair(ctx: Context, app: App) -> None:
    assert await count_writes(app) == 0
    assert await count_postings(ctx) == 0


async def test_repair_and_index_exclude_each_other(app: App) -> None:
    outcomes: list[object] = []

    async def meanwhile(_context: Context, _budget: Budget) -> Report:
        outcomes.append(await run_job(JOB, app))
        outcomes.append(await run_job(INDEX, app))
        return Report()

    await run_job(replace(INDEX, run=meanwhile), app)
    await run_job(replace(JOB, run=meanwhile), app)
    assert [type(outcome) for outcome in outcomes] == [AlreadyRunning] * 4


async def test_progress_ends_at_the_total(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    done: list[int] = []
    announce_migration = await count_postings(ctx)
    await repair(ctx, Budget(math.inf, done.append))
    assert announce_migration == sum(done) > 40
