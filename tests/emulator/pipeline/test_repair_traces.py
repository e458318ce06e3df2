"""Repair makes the postings of traces exact, even while traces are written.

A trace is a solved coding problem. The postings of a term or a facet are the list of the traces
that have it, with their number (`df`).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.repair.job import count_postings, repair, repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.index.postings import TRACES
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_one_step_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_documents
from tests.support.stored_traces import assert_trace_postings_are_exact
from tests.support.tool_calls import call, call_result
from tests.support.traces import contribute, make_sample_trace

COLLECTIONS: Final = (TRACES.facets, TRACES.lexicon)
SMALL_MEMORY: Final = RebuildLimits(memory_budget=200)
"""Limits with which repair takes several passes."""


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    """An app with an embedder for traces."""
    opened = WatchedApp(settings, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    """The context of a run of the job."""
    return make_job_context(app)


async def make_traces(app: App) -> list[str]:
    """Contribute four traces, withdraw the first, and amend the second; return their ids."""
    trace_ids = [await contribute(app, number, "anna") for number in range(4)]
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_ids[0])
    await call_result(app, "amend_trace", "anna", trace_id=trace_ids[1], tags=["rare", "python"])
    return trace_ids


def make_generator(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


async def damage_postings(ctx: Context, generator: random.Random) -> None:
    """Damage or delete some postings, add false ones, and damage the totals."""
    for collection in COLLECTIONS:
        all_postings = await read_documents(ctx, collection)
        for name in generator.sample(sorted(all_postings), min(len(all_postings), 12)):
            path, data = f"{collection}/{name}", all_postings[name]
            trace_id = generator.choice(sorted(data.get("postings", {})) or ["nobody"])
            damages: list[dict[str, Any] | None] = [
                {"df": data["df"] + generator.choice([-1, 1, 40])},
                {"postings": {trace_id: DELETE_FIELD}},
                {"postings": {trace_id: 7, "nobody": 8}},
                {"held": 0, "name": "somebody", "since": 2**62},
                None,
            ]
            if damage := generator.choice(damages):
                await set_fields(ctx, path, damage)
            else:
                await ctx.database.connection.client.document(path).delete()
    false_postings = {"df": 2, "postings": {"nobody": 9}, "held": 1}
    await set_fields(ctx, "trace_lexicon/nothing", false_postings)
    false_totals = {"documents": generator.randrange(9), "length": 3}
    await set_fields(ctx, "meta/trace_lexicon", false_totals)


async def count_writes(app: App) -> int:
    """Run repair on intact postings; return the number of documents that it writes."""
    meter = Meter()
    assert (await repair(app.context(Caller(), meter), make_ample_budget())).finished
    return meter.documents_written


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_damaged_postings_are_repaired(app: App, ctx: Context, seed: int) -> None:
    await make_traces(app)
    await damage_postings(ctx, make_generator(seed))
    limits = SMALL_MEMORY if seed % 2 else RebuildLimits()
    report = await repair_within(limits, ctx, make_ample_budget())
    assert report.finished
    assert report.counts["mended"] > 10
    await assert_trace_postings_are_exact(app)
    assert await count_writes(app) == 0


async def test_postings_without_traces_are_removed(app: App, ctx: Context) -> None:
    trace_id = await contribute(app, 0, "anna")
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id)
    count = await count_postings(ctx)
    assert count > 10

    assert await repair(ctx, make_ample_budget()) == Report(Counter(removed=count))
    assert await count_postings(ctx) == 0

    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
    await assert_trace_postings_are_exact(app)


async def test_intact_postings_are_not_written(app: App) -> None:
    await contribute(app, 0, "anna")
    await contribute(app, 1, "ben")
    assert await count_writes(app) == 0


async def test_a_run_continues_one_that_was_out_of_time(app: App, ctx: Context) -> None:
    await make_traces(app)
    await damage_postings(ctx, make_generator(7))

    run_count = 1
    while not (await repair_within(SMALL_MEMORY, ctx, make_one_step_budget())).finished:
        run_count += 1

    assert run_count > 3
    assert "repair" not in await read_documents(ctx, "meta")
    await assert_trace_postings_are_exact(app)


async def test_a_concurrent_write_is_not_undone(settings: Settings, app: App, ctx: Context) -> None:
    """Repair corrects only postings that the new trace did not change."""
    trace_ids = await make_traces(app)
    generator = make_generator(3)
    for commit in range(1, 5):
        await damage_postings(ctx, generator)

        async def contribute_and_amend(commit: int = commit) -> None:
            await call(
                app, "contribute_trace", "ben", **make_sample_trace(10 + commit, tags=["python"])
            )
            tags = ["python", f"at-{commit}"]
            await call_result(app, "amend_trace", "anna", trace_id=trace_ids[2], tags=tags)

        hook = call_before_commit(commit, contribute_and_amend)
        repairing_app = WatchedApp(settings, hook, embedder=WordEmbedder())
        await repair(make_job_context(repairing_app), make_ample_budget())
        await repairing_app.aclose()

        await repair(ctx, make_ample_budget())
        await assert_trace_postings_are_exact(app)


@pytest.mark.slow
async def test_postings_are_exact_after_repairs_during_many_writes(app: App, ctx: Context) -> None:
    _, _, amended, withdrawn = await make_traces(app)
    generator = make_generator(5)

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
            await damage_postings(ctx, generator)
            await repair(ctx, make_ample_budget())

    await asyncio.gather(write_traces(), damage_and_repair())
    await repair(ctx, make_ample_budget())
    await assert_trace_postings_are_exact(app)
