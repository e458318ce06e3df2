"""Repair makes the postings of traces exact, even while traces are written."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.repair.job import count_postings, repair, repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.postings import TRACES
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_one_step_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_app_documents, read_documents
from tests.support.stored_traces import assert_postings_exact
from tests.support.tool_calls import call, call_result
from tests.support.traces import contribute, make_sample

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import App, Context
    from tests.support.commit_hooks import Results, Send

pytestmark = pytest.mark.anyio

COLLECTIONS: Final = (TRACES.facets, TRACES.lexicon)
SMALL: Final = RebuildLimits(memory_budget=200)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    opened = WatchedApp(settings, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    return make_job_context(app)


async def make_traces(app: App) -> list[str]:
    """Contribute traces, withdraw one, and amend one."""
    made = [await contribute(app, number, "anna") for number in range(4)]
    await call_result(app, "withdraw_trace", "anna", trace_id=made[0])
    await call_result(app, "amend_trace", "anna", trace_id=made[1], tags=["rare", "python"])
    return made


async def damage_postings(ctx: Context, chance: random.Random) -> None:
    """Damage some postings, and the totals, in various ways."""
    for collection in COLLECTIONS:
        stored = await read_documents(ctx, collection)
        for name in chance.sample(sorted(stored), min(len(stored), 12)):
            trace = chance.choice(sorted(stored[name].get("postings", {})) or ["nobody"])
            wrong: list[dict[str, Any] | None] = [
                {"df": stored[name]["df"] + chance.choice([-1, 1, 40])},
                {"postings": {trace: DELETE_FIELD}},
                {"postings": {trace: 7, "nobody": 8}},
                {"held": 0, "name": "somebody", "since": 2**62},
                None,
            ]
            if change := chance.choice(wrong):
                await set_fields(ctx, f"{collection}/{name}", change)
            else:
                await ctx.database.client.document(f"{collection}/{name}").delete()
    await set_fields(ctx, "trace_lexicon/nothing", {"df": 2, "postings": {"nobody": 9}, "held": 1})
    await set_fields(ctx, "meta/trace_lexicon", {"documents": chance.randrange(9), "length": 3})


async def count_writes(app: App) -> int:
    """Return the number of documents that another run writes."""
    meter = Meter()
    assert (await repair(app.context(Caller(), meter), make_ample_budget())).finished
    return meter.documents_written


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_damaged_postings_are_repaired(app: App, ctx: Context, seed: int) -> None:
    await make_traces(app)
    await damage_postings(ctx, random.Random(seed))  # noqa: S311 - no secret
    report = await repair_within(SMALL if seed % 2 else RebuildLimits(), ctx, make_ample_budget())
    assert report.finished
    assert report.counts["mended"] > 10
    await assert_postings_exact(app)
    assert await count_writes(app) == 0


async def test_postings_without_traces_are_removed(app: App, ctx: Context) -> None:
    trace_id = await contribute(app, 0, "anna")
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id)
    empty = await count_postings(ctx)
    assert empty > 10
    assert Report(Counter(removed=empty)) == await repair(ctx, make_ample_budget())
    assert await count_postings(ctx) == 0
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
    await assert_postings_exact(app)


async def test_intact_postings_are_not_written(app: App) -> None:
    await contribute(app, 0, "anna")
    await contribute(app, 1, "ben")
    assert await count_writes(app) == 0


async def test_a_run_continues_one_that_was_out_of_time(app: App, ctx: Context) -> None:
    await make_traces(app)
    await damage_postings(ctx, random.Random(7))  # noqa: S311 - no secret
    runs = 0
    while not (await repair_within(SMALL, ctx, make_one_step_budget())).finished:
        runs += 1
    assert runs > 2
    assert "repair" not in await read_documents(ctx, "meta")
    await assert_postings_exact(app)


async def test_a_concurrent_write_is_not_undone(settings: Settings, app: App, ctx: Context) -> None:
    """Repair corrects only postings that the new trace did not change."""
    made = await make_traces(app)
    chance = random.Random(3)  # noqa: S311 - no secret
    for number in range(1, 5):
        await damage_postings(ctx, chance)

        async def meanwhile(number: int = number) -> None:
            await call(app, "contribute_trace", "ben", **make_sample(10 + number, tags=["python"]))
            more = {"trace_id": made[2], "tags": ["python", f"at-{number}"]}
            await call_result(app, "amend_trace", "anna", **more)

        raced = WatchedApp(settings, call_before(number, meanwhile), embedder=WordEmbedder())
        await repair(make_job_context(raced), make_ample_budget())
        await raced.aclose()
        await repair(ctx, make_ample_budget())
        await assert_postings_exact(app)


@pytest.mark.slow
async def test_postings_are_exact_after_repairs_during_many_writes(app: App, ctx: Context) -> None:
    made = await make_traces(app)
    chance = random.Random(5)  # noqa: S311 - no secret

    async def people() -> None:
        for number in range(6):
            await asyncio.gather(
                contribute(app, 10 + number, f"user-{number}"),
                call_result(app, "amend_trace", "anna", trace_id=made[2], tags=[f"at-{number}"]),
                call_result(
                    app,
                    "withdraw_trace",
                    "anna",
                    trace_id=made[3],
                    withdrawn=number % 2 == 0,
                ),
            )

    async def run() -> None:
        for _ in range(5):
            await damage_postings(ctx, chance)
            await repair(ctx, make_ample_budget())

    await asyncio.gather(people(), run())
    await repair(ctx, make_ample_budget())
    await assert_postings_exact(app)


async def test_the_next_run_completes_one_killed_after_any_commit(
    settings: Settings, app: App, ctx: Context
) -> None:
    class DiedError(Exception):
        pass

    async def die(_commit: int, send: Send) -> Results:
        await send()
        raise DiedError

    await make_traces(app)
    await damage_postings(ctx, random.Random(1))  # noqa: S311 - no secret
    deaths = 0
    while True:
        dying = WatchedApp(settings, die, embedder=WordEmbedder())
        try:
            await repair_within(SMALL, make_job_context(dying), make_ample_budget())
        except DiedError:
            deaths += 1
        else:
            break
        finally:
            await dying.aclose()
    assert deaths > 3
    await assert_postings_exact(app)
    assert {} != await read_app_documents(app, TRACES.facets)
