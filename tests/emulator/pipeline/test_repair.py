"""Repair makes the postings of the inverted index agree with chunks and traces.

The postings of a term or a facet are the list of the chunks, or of the traces, that have it, with
their number (`df`); only the best entries of long postings are stored. A trace is a solved coding
problem.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from functions.jobs.index.job import JOB as INDEX
from functions.jobs.repair.job import JOB, count_postings, repair, repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from shared.index.bm25 import Totals, select_best
from shared.index.posting_changes import select_newest
from shared.index.postings import KNOWLEDGE, TRACES
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Budget, Report, run_job
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_before_commit
from tests.support.index_history import History
from tests.support.index_postings import (
    assert_postings_are_exact,
    assert_postings_are_sound,
    compute_expected_postings,
    damage_postings,
    read_postings,
)
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.killable_app import Killed
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents
from tests.support.stored_traces import assert_trace_postings_are_exact
from tests.support.tool_calls import call, call_result
from tests.support.traces import contribute, make_sample_trace

SHORT_POSTINGS: Final = {"cap": 4, "slack": 2}
"""Limits with which the index job cuts postings of more than six entries to four."""
SHORT_LIMITS: Final = RebuildLimits(cap=4, truncate_at=6, memory_budget=40)
"""The same limits for repair, which also takes several passes because of its small memory."""
SMALL_MEMORY: Final = RebuildLimits(memory_budget=40)
"""Limits with which repair takes several passes, and which cut no postings of these tests."""
SEEDS: Final = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands after all changes of a history."""
    return SettableClock()


async def make_damaged_base(ctx: Context, seed: int, **limits: int) -> History:
    """Make a base with edited chunks, pending chunks and damaged postings."""
    history = History(ctx, seed, **limits)
    for _ in range(12):
        await history.make_change()
    await damage_postings(ctx, history.generator, KNOWLEDGE)
    return history


async def make_traces(app: App) -> list[str]:
    """Contribute four traces, withdraw the first, and amend the second; return their ids."""
    trace_ids = [await contribute(app, number, "anna") for number in range(4)]
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_ids[0])
    await call_result(app, "amend_trace", "anna", trace_id=trace_ids[1], tags=["rare", "python"])
    return trace_ids


async def assert_intact(app: App, limits: RebuildLimits = RebuildLimits()) -> None:  # noqa: B008 - frozen
    """Assert that repair finds nothing to write."""
    ctx = make_job_context(app)
    assert await repair_within(limits, ctx, make_ample_budget()) == Report()
    assert ctx.meter.documents_written == 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_damaged_postings_are_repaired(ctx: Context, app: App, seed: int) -> None:
    history = await make_damaged_base(ctx, seed)
    assert (await repair(ctx, make_ample_budget())).finished
    await assert_intact(app)
    await history.index()
    await assert_postings_are_exact(ctx)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_damaged_postings_of_traces_are_repaired(app: App, ctx: Context, seed: int) -> None:
    await make_traces(app)
    await damage_postings(ctx, random.Random(seed), TRACES, limit=30)  # noqa: S311 - no secret
    limits = SMALL_MEMORY if seed % 2 else RebuildLimits()
    report = await repair_within(limits, ctx, make_ample_budget())
    assert report.finished
    assert report.counts["mended"] > 10
    await assert_trace_postings_are_exact(app)
    await assert_intact(app)


@pytest.mark.parametrize("seed", SEEDS)
async def test_truncated_postings_regain_their_best_entries(
    ctx: Context, app: App, seed: int
) -> None:
    history = await make_damaged_base(ctx, seed, **SHORT_POSTINGS)
    await history.index()
    await repair_within(SHORT_LIMITS, ctx, make_ample_budget())
    await assert_intact(app, SHORT_LIMITS)
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
    await damage_postings(ctx, history.generator, KNOWLEDGE)

    for page_count in range(4):
        page_numbers = iter(range(page_count))

        def stop_after_pages(_count: int, page_numbers: Iterator[int] = page_numbers) -> None:
            if next(page_numbers, None) is None:
                raise Killed

        with pytest.raises(Killed):
            await repair_within(SMALL_MEMORY, ctx, Budget(math.inf, stop_after_pages))
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)
    await assert_intact(app)


async def test_a_run_continues_one_that_was_out_of_time(ctx: Context, app: App) -> None:
    await make_traces(app)
    history = await make_damaged_base(ctx, 2)
    await history.index()
    for names in (KNOWLEDGE, TRACES):
        await damage_postings(ctx, history.generator, names)

    assert await repair(ctx, make_spent_budget()) == Report(finished=False)
    run_count = 1
    while not (await repair_within(SMALL_MEMORY, ctx, make_one_step_budget())).finished:
        run_count += 1
        assert run_count < 1_000

    assert run_count > 3
    assert "repair" not in await read_documents(ctx, "meta")
    await assert_postings_are_exact(ctx)
    await assert_trace_postings_are_exact(app)
    await assert_intact(app)


async def test_missing_postings_are_rebuilt(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    before = await read_postings(ctx)
    for name in before:
        await ctx.database.connection.client.document("/".join(name)).delete()
    report = await repair(ctx, make_ample_budget())
    assert report == Report(Counter(mended=len(before)))
    assert await read_postings(ctx) == before


async def test_postings_without_traces_are_removed(app: App, ctx: Context) -> None:
    trace_id = await contribute(app, 0, "anna")
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id)
    count = await count_postings(ctx)
    assert count > 10
    assert await repair(ctx, make_ample_budget()) == Report(Counter(removed=count))
    assert await count_postings(ctx) == 0
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
    await assert_trace_postings_are_exact(app)


async def test_a_concurrent_write_is_not_undone(apps: Apps, ctx: Context) -> None:
    """Chunks that are indexed between repair's reads and its commit stay indexed."""
    await store_sources(ctx, BAKING)
    for name, data in (await read_postings(ctx)).items():
        await set_fields(ctx, "/".join(name), {"df": data["df"] + 1})

    async def index_another_source() -> None:
        await store_sources(ctx, SAILING)

    repairing_app = apps(call_before_commit(1, index_another_source))
    await repair(make_job_context(repairing_app), make_ample_budget())
    all_postings = await read_postings(ctx)
    for name, entries in (await compute_expected_postings(ctx)).entries.items():
        assert all_postings[name]["postings"] == entries
    assert (await repair(ctx, make_ample_budget())).counts["mended"] > 0
    await assert_postings_are_exact(ctx)


async def test_a_concurrent_write_of_a_trace_is_not_undone(
    apps: Apps, app: App, ctx: Context
) -> None:
    """Repair corrects only postings that the new trace did not change."""
    trace_ids = await make_traces(app)
    generator = random.Random(3)  # noqa: S311 - no secret
    for commit in range(1, 5):
        await damage_postings(ctx, generator, TRACES, limit=30)

        async def contribute_and_amend(commit: int = commit) -> None:
            trace = make_sample_trace(10 + commit, tags=["python"])
            await call(app, "contribute_trace", "ben", **trace)
            tags = ["python", f"at-{commit}"]
            await call_result(app, "amend_trace", "anna", trace_id=trace_ids[2], tags=tags)

        repairing_app = apps(call_before_commit(commit, contribute_and_amend))
        await repair(make_job_context(repairing_app), make_ample_budget())
        await repair(ctx, make_ample_budget())
        await assert_trace_postings_are_exact(app)


@pytest.mark.slow
async def test_postings_are_exact_after_repairs_during_many_writes(app: App, ctx: Context) -> None:
    _, _, amended, withdrawn = await make_traces(app)
    generator = random.Random(5)  # noqa: S311 - no secret

    async def write_traces() -> None:
        for number in range(6):
            amendment = {"trace_id": amended, "tags": [f"at-{number}"]}
            withdrawal = {"trace_id": withdrawn, "withdrawn": number % 2 == 0}
            await asyncio.gather(
                contribute(app, 10 + number, f"user-{number}"),
                call_result(app, "amend_trace", "anna", **amendment),
                call_result(app, "withdraw_trace", "anna", **withdrawal),
            )

    async def damage_and_repair() -> None:
        for _ in range(5):
            await damage_postings(ctx, generator, TRACES, limit=30)
            await repair(ctx, make_ample_budget())

    await asyncio.gather(write_traces(), damage_and_repair())
    await repair(ctx, make_ample_budget())
    await assert_trace_postings_are_exact(app)


async def test_repair_and_index_exclude_each_other(app: App) -> None:
    results: list[object] = []

    async def start_both_jobs(_context: Context, _budget: Budget) -> Report:
        results.append(await run_job(JOB, app))
        results.append(await run_job(INDEX, app))
        return Report()

    await run_job(replace(INDEX, run=start_both_jobs), app)
    await run_job(replace(JOB, run=start_both_jobs), app)
    assert [type(result) for result in results] == [AlreadyRunning] * 4


async def test_the_reported_progress_ends_at_the_total(ctx: Context, app: App) -> None:
    assert await count_postings(ctx) == 0
    await assert_intact(app)
    await store_sources(ctx, BAKING, SAILING)
    page_sizes: list[int] = []
    total = await count_postings(ctx)
    await repair(ctx, Budget(math.inf, page_sizes.append))
    assert total == sum(page_sizes) > 40
