"""Repair makes the lists of traces exact too, though these write them themselves meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.repair.job import lists, repair, repair_within
from functions.jobs.repair.part import Limits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.postings import TRACES
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedBackend, before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import write
from tests.support.stored_documents import ample, documents, one_step
from tests.support.stored_traces import assert_exact
from tests.support.tool_calls import call, call_result
from tests.support.traces import contribute, sample, stored
from tests.support.workspaces import of_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import Backend, Deps
    from tests.support.commit_hooks import Results, Send

pytestmark = pytest.mark.anyio

COLLECTIONS: Final = (TRACES.facets, TRACES.lexicon)
SMALL: Final = Limits(room=200)


@pytest.fixture
async def backend(settings: Settings) -> AsyncIterator[Backend]:
    opened = WatchedBackend(settings, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
def deps(backend: Backend) -> Deps:
    return of_job(backend)


async def filled(backend: Backend) -> list[str]:
    """Some traces, one of which was withdrawn and one amended."""
    made = [await contribute(backend, number, "anna") for number in range(4)]
    await call_result(backend, "withdraw_trace", "anna", trace_id=made[0])
    await call_result(backend, "amend_trace", "anna", trace_id=made[1], tags=["rare", "python"])
    return made


async def damage(deps: Deps, chance: random.Random) -> None:
    """Some lists, and the totals, become wrong in ways of all kinds."""
    for collection in COLLECTIONS:
        stored = await documents(deps, collection)
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
                await write(deps, f"{collection}/{name}", change)
            else:
                await deps.database.client.document(f"{collection}/{name}").delete()
    await write(deps, "trace_lexicon/nothing", {"df": 2, "postings": {"nobody": 9}, "held": 1})
    await write(deps, "meta/trace_lexicon", {"documents": chance.randrange(9), "length": 3})


async def written(backend: Backend) -> int:
    """How many documents another run writes."""
    meter = Meter()
    assert (await repair(backend.deps(Caller(), meter), ample())).finished
    return meter.documents_written


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_damaged_lists_become_those_made_from_scratch(
    backend: Backend, deps: Deps, seed: int
) -> None:
    await filled(backend)
    await damage(deps, random.Random(seed))  # noqa: S311 - no secret
    report = await repair_within(SMALL if seed % 2 else Limits(), deps, ample())
    assert report.finished
    assert report.counts["mended"] > 10
    await assert_exact(backend)
    assert 0 == await written(backend)


async def test_lists_that_no_trace_stands_on_any_more_are_removed(
    backend: Backend, deps: Deps
) -> None:
    trace_id = await contribute(backend, 0, "anna")
    await call_result(backend, "withdraw_trace", "anna", trace_id=trace_id)
    empty = await lists(deps)
    assert empty > 10
    assert Report(Counter(removed=empty)) == await repair(deps, ample())
    assert 0 == await lists(deps)
    await call_result(backend, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
    await assert_exact(backend)


async def test_sound_lists_cost_no_write(backend: Backend) -> None:
    await contribute(backend, 0, "anna")
    await contribute(backend, 1, "ben")
    assert 0 == await written(backend)


async def test_a_run_without_time_goes_on_where_the_last_one_ended(
    backend: Backend, deps: Deps
) -> None:
    await filled(backend)
    await damage(deps, random.Random(7))  # noqa: S311 - no secret
    runs = 0
    while not (await repair_within(SMALL, deps, one_step())).finished:
        runs += 1
    assert runs > 2
    assert "repair" not in await documents(deps, "meta")
    await assert_exact(backend)


async def test_what_is_written_before_a_list_is_mended_is_not_undone(
    settings: Settings, backend: Backend, deps: Deps
) -> None:
    """Whatever is told to be wrong was, before the trace came; what it changed is left to it."""
    made = await filled(backend)
    chance = random.Random(3)  # noqa: S311 - no secret
    for number in range(1, 5):
        await damage(deps, chance)

        async def meanwhile(number: int = number) -> None:
            await call(backend, "contribute_trace", "ben", **sample(10 + number, tags=["python"]))
            more = {"trace_id": made[2], "tags": ["python", f"at-{number}"]}
            await call_result(backend, "amend_trace", "anna", **more)

        raced = WatchedBackend(settings, before(number, meanwhile), embedder=WordEmbedder())
        await repair(of_job(raced), ample())
        await raced.aclose()
        await repair(deps, ample())
        await assert_exact(backend)


@pytest.mark.slow
async def test_repair_among_many_who_write_leaves_exact_lists(backend: Backend, deps: Deps) -> None:
    made = await filled(backend)
    chance = random.Random(5)  # noqa: S311 - no secret

    async def people() -> None:
        for number in range(6):
            await asyncio.gather(
                contribute(backend, 10 + number, f"user-{number}"),
                call_result(
                    backend, "amend_trace", "anna", trace_id=made[2], tags=[f"at-{number}"]
                ),
                call_result(
                    backend,
                    "withdraw_trace",
                    "anna",
                    trace_id=made[3],
                    withdrawn=number % 2 == 0,
                ),
            )

    async def run() -> None:
        for _ in range(5):
            await damage(deps, chance)
            await repair(deps, ample())

    await asyncio.gather(people(), run())
    await repair(deps, ample())
    await assert_exact(backend)


async def test_killed_after_any_commit_a_run_ends_in_the_same_state(
    settings: Settings, backend: Backend, deps: Deps
) -> None:
    class DiedError(Exception):
        pass

    async def die(_commit: int, send: Send) -> Results:
        await send()
        raise DiedError

    await filled(backend)
    await damage(deps, random.Random(1))  # noqa: S311 - no secret
    deaths = 0
    while True:
        dying = WatchedBackend(settings, die, embedder=WordEmbedder())
        try:
            await repair_within(SMALL, of_job(dying), ample())
        except DiedError:
            deaths += 1
        else:
            break
        finally:
            await dying.aclose()
    assert deaths > 3
    await assert_exact(backend)
    assert {} != await stored(backend, TRACES.facets)
