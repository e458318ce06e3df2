"""Repair makes the postings of the inverted index agree with the chunks, whatever the damage.

The postings of a term or a facet are the list of the chunks that have it, with their number (`df`);
only the best entries of long postings are stored.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import JOB as INDEX
from functions.jobs.repair.job import JOB, count_postings, repair, repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.index.bm25 import Totals, select_best
from shared.index.posting_changes import select_newest
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Budget, Report, run_job
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.index_history import History
from tests.support.index_postings import (
    assert_postings_are_exact,
    assert_postings_are_sound,
    compute_expected_postings,
    read_postings,
)
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents, read_leased_jobs

SHORT_POSTINGS: Final = {"cap": 4, "slack": 2}
"""Limits with which the index job cuts postings of more than six entries to four."""
SHORT_LIMITS: Final = RebuildLimits(cap=4, truncate_at=6, memory_budget=40)
"""The same limits for repair, which also takes several passes because of its small memory."""
SMALL_MEMORY: Final = RebuildLimits(memory_budget=40)
"""Limits with which repair takes several passes, and which cut no postings of these tests."""
SEEDS: Final = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


async def damage_postings(ctx: Context, generator: random.Random) -> None:
    """Damage or delete up to fifteen postings, add false ones, and damage the totals."""
    all_postings = await read_postings(ctx)
    for name in generator.sample(sorted(all_postings), min(len(all_postings), 15)):
        path, data = "/".join(name), all_postings[name]
        chunk_id = generator.choice(sorted(data.get("postings", {})) or ["nobody"])
        damages: list[dict[str, Any]] = [
            {"df": data.get("df", 0) + generator.choice([-1, 1, 40])},
            {"postings": {chunk_id: DELETE_FIELD}},
            {"postings": {chunk_id: 7}},
            {"postings": {"nobody": 8}},
            {"postings": DELETE_FIELD, "df": DELETE_FIELD},
            {"held": 0},
            {"held": DELETE_FIELD, "name": "somebody", "since": 2**62},
        ]
        if damage := generator.choice([None, *damages]):
            await set_fields(ctx, path, damage)
        else:
            await ctx.database.connection.client.document(path).delete()
    false_postings = {"df": 2, "postings": {"nobody": 9}, "held": 1}
    collection = generator.choice(["lexicon", "facets"])
    await set_fields(ctx, f"{collection}/tag:nothing", false_postings)
    false_totals = {"documents": generator.randrange(5), "length": DELETE_FIELD}
    await set_fields(ctx, "meta/lexicon", false_totals)


class Stopped(Exception):
    """Ends a run, as if its process were killed."""


async def make_damaged_base(ctx: Context, seed: int, **limits: int) -> History:
    """Make a base with edited chunks, pending chunks and damaged postings."""
    history = History(ctx, seed, **limits)
    for _ in range(12):
        await history.make_change()
    await damage_postings(ctx, history.generator)
    return history


async def count_writes(app: App, limits: RebuildLimits = RebuildLimits()) -> int:  # noqa: B008 - frozen
    """Run repair on intact postings; return the number of documents that it writes."""
    meter = Meter()
    report = await repair_within(limits, app.context(Caller(), meter), make_ample_budget())
    assert report == Report()
    return meter.documents_written


@pytest.mark.parametrize("seed", SEEDS)
async def test_damaged_postings_are_repaired(ctx: Context, app: App, seed: int) -> None:
    history = await make_damaged_base(ctx, seed)
    assert (await repair(ctx, make_ample_budget())).finished
    assert await count_writes(app) == 0
    await history.index()
    await assert_postings_are_exact(ctx)


@pytest.mark.parametrize("seed", SEEDS)
async def test_truncated_postings_regain_their_best_entries(
    ctx: Context, app: App, seed: int
) -> None:
    history = await make_damaged_base(ctx, seed, **SHORT_POSTINGS)
    await history.index()
    await repair_within(SHORT_LIMITS, ctx, make_ample_budget())
    assert await count_writes(app, SHORT_LIMITS) == 0
    await assert_postings_are_sound(ctx)
    expected = await compute_expected_postings(ctx)
    average_length = Totals(**expected.totals).average
    for (collection, document_id), data in (await read_postings(ctx)).items():
        entries = expected.entries[collection, document_id]
        if data["df"] >= SHORT_LIMITS.truncate_at:
            select = select_best if collection == "lexicon" else select_newest
            entries = select(entries, average_length, SHORT_LIMITS.cap)
        assert data["postings"] == entries


async def test_the_next_run_completes_one_stopped_after_any_page(ctx: Context, app: App) -> None:
    history = await make_damaged_base(ctx, 1)
    await history.index()
    await damage_postings(ctx, history.generator)

    for page_count in range(4):
        page_numbers = iter(range(page_count))

        def stop_after_pages(_count: int, page_numbers: Iterator[int] = page_numbers) -> None:
            if next(page_numbers, None) is None:
                raise Stopped

        with pytest.raises(Stopped):
            await repair_within(SMALL_MEMORY, ctx, Budget(math.inf, stop_after_pages))
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)
    assert await count_writes(app) == 0


async def test_a_run_continues_one_that_was_out_of_time(ctx: Context, app: App) -> None:
    history = await make_damaged_base(ctx, 2)
    await history.index()
    await damage_postings(ctx, history.generator)

    run_count = 1
    while not (await repair_within(SMALL_MEMORY, ctx, make_one_step_budget())).finished:
        run_count += 1

    assert run_count > 3
    assert "repair" not in await read_documents(ctx, "meta")
    await assert_postings_are_exact(ctx)
    assert await count_writes(app) == 0


async def test_a_run_without_time_repairs_nothing(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert await repair(ctx, make_spent_budget()) == Report(finished=False)


async def test_missing_postings_are_rebuilt(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    before = await read_postings(ctx)
    for name in before:
        await ctx.database.connection.client.document("/".join(name)).delete()
    report = await repair(ctx, make_ample_budget())
    assert report == Report(Counter(mended=len(before)))
    assert await read_postings(ctx) == before


async def test_a_concurrent_write_is_not_undone(settings: Settings, app: App, ctx: Context) -> None:
    """Chunks that are indexed between repair's reads and its commit stay indexed."""
    await store_sources(ctx, BAKING)
    for name, data in (await read_postings(ctx)).items():
        await set_fields(ctx, "/".join(name), {"df": data["df"] + 1})

    async def index_another_source() -> None:
        await store_sources(ctx, SAILING)

    hook = call_before_commit(1, index_another_source)
    repairing_app = WatchedApp(settings, hook, embedder=app.embedder)
    await repair(make_job_context(repairing_app), make_ample_budget())
    await repairing_app.aclose()

    all_postings = await read_postings(ctx)
    for name, entries in (await compute_expected_postings(ctx)).entries.items():
        assert all_postings[name]["postings"] == entries
    assert (await repair(ctx, make_ample_budget())).counts["mended"] > 0
    await assert_postings_are_exact(ctx)


async def test_intact_postings_are_not_written(ctx: Context, app: App) -> None:
    await store_sources(ctx, BAKING, SAILING)
    meter = Meter()

    class MeteredApp(App):
        def context(self, caller: Caller, _meter: Meter) -> Context:
            return super().context(caller, meter)

    metered_app = MeteredApp(app.settings, embedder=app.embedder)
    assert await run_job(JOB, metered_app) == Report()
    await metered_app.aclose()

    assert meter.documents_written == 3  # the lease, twice, and the record of the run
    assert await read_leased_jobs(ctx) == set()


async def test_an_empty_base_has_nothing_to_repair(ctx: Context, app: App) -> None:
    assert await count_writes(app) == 0
    assert await count_postings(ctx) == 0


async def test_repair_and_index_exclude_each_other(app: App) -> None:
    results: list[object] = []

    async def start_both_jobs(_context: Context, _budget: Budget) -> Report:
        results.append(await run_job(JOB, app))
        results.append(await run_job(INDEX, app))
        return Report()

    await run_job(replace(INDEX, run=start_both_jobs), app)
    await run_job(replace(JOB, run=start_both_jobs), app)
    assert [type(result) for result in results] == [AlreadyRunning] * 4


async def test_the_reported_progress_ends_at_the_total(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    page_sizes: list[int] = []
    total = await count_postings(ctx)
    await repair(ctx, Budget(math.inf, page_sizes.append))
    assert total == sum(page_sizes) > 40
