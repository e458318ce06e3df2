"""Repair makes the lists what the chunks' marks say, whatever befell them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import JOB as INDEX
from functions.jobs.repair.job import JOB, lists, repair, repair_within
from functions.jobs.repair.part import Limits
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.bm25 import Totals, best
from shared.index.truncation import newest
from shared.runtime.context import Backend
from shared.runtime.job import Budget, Busy, Report, run_job
from tests.support.index_lists import (
    History,
    assert_exact,
    assert_sound,
    stored_lists,
    wanted_lists,
)
from tests.support.knowledge import BAKING, SAILING, put_in, write
from tests.support.stored_documents import ample, documents, leases, nothing, one_step

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

CAP: Final = {"cap": 4, "slack": 2}
SMALL: Final = Limits(cap=4, most=6, room=40)
SMALL_UNCUT: Final = Limits(room=40)
SEEDS: Final = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


async def damage(deps: Deps, chance: random.Random) -> None:
    """Some lists, and perhaps the totals, become wrong in ways of all kinds."""
    stored = await stored_lists(deps)
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
            await write(deps, path, change)
        else:
            await deps.database.client.document(path).delete()
    bogus = {"df": 2, "postings": {"nobody": 9}, "held": 1}
    await write(deps, f"{chance.choice(['lexicon', 'facets'])}/tag:nothing", bogus)
    await write(deps, "meta/lexicon", {"documents": chance.randrange(5), "length": DELETE_FIELD})


async def damaged(deps: Deps, seed: int, **limits: int) -> History:
    """A knowledge base with a past, some chunks waiting, and wrong lists."""
    history = History(deps, seed, **limits)
    for _ in range(12):
        await history.event()
    await damage(deps, history.chance)
    return history


async def written_by_repair(backend: Backend, limits: Limits = Limits()) -> int:  # noqa: B008 - frozen
    """How many documents another run writes."""
    meter = Meter()
    assert await repair_within(limits, backend.deps(Caller(), meter), ample()) == Report()
    return meter.documents_written


@pytest.mark.parametrize("seed", SEEDS)
async def test_damaged_lists_become_those_made_from_scratch(
    deps: Deps, backend: Backend, seed: int
) -> None:
    history = await damaged(deps, seed)
    assert (await repair(deps, ample())).finished
    assert await written_by_repair(backend) == 0
    await history.index()
    await assert_exact(deps)


@pytest.mark.parametrize("seed", SEEDS)
async def test_lists_that_were_cut_have_their_best_entries_again(
    deps: Deps, backend: Backend, seed: int
) -> None:
    history = await damaged(deps, seed, **CAP)
    await history.index()
    await repair_within(SMALL, deps, ample())
    assert await written_by_repair(backend, SMALL) == 0
    await assert_sound(deps)
    wanted = await wanted_lists(deps)
    average = Totals(**wanted.totals).average
    for name, data in (await stored_lists(deps)).items():
        entries = wanted.entries[name]
        if data["df"] >= SMALL.most:
            keep = best if name[0] == "lexicon" else newest
            entries = keep(entries, average, SMALL.cap)
        assert entries == data["postings"]


async def test_a_run_stopped_anywhere_is_completed_by_the_next(
    deps: Deps, backend: Backend
) -> None:
    history = await damaged(deps, 1)
    await history.index()
    await damage(deps, history.chance)
    for pages in range(4):
        left = iter(range(pages))

        def stop(_count: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyError

        with pytest.raises(KeyError):
            await repair_within(SMALL_UNCUT, deps, Budget(math.inf, stop))
    await repair(deps, ample())
    await assert_exact(deps)
    assert await written_by_repair(backend) == 0


async def test_a_run_without_time_goes_on_where_the_last_one_ended(
    deps: Deps, backend: Backend
) -> None:
    history = await damaged(deps, 2)
    await history.index()
    await damage(deps, history.chance)
    runs = 0
    while not (await repair_within(SMALL_UNCUT, deps, one_step())).finished:
        runs += 1
    assert runs > 2
    assert "repair" not in await documents(deps, "meta")
    await assert_exact(deps)
    assert await written_by_repair(backend) == 0


async def test_a_run_without_any_time_mends_nothing(deps: Deps) -> None:
    await put_in(deps, BAKING)
    assert await repair(deps, nothing()) == Report(finished=False)


async def test_lists_that_are_gone_are_made_again(deps: Deps) -> None:
    await put_in(deps, BAKING, SAILING)
    before = await stored_lists(deps)
    for name in before:
        await deps.database.client.document("/".join(name)).delete()
    report = await repair(deps, ample())
    assert report == Report(Counter(mended=len(before)))
    assert before == await stored_lists(deps)


async def test_sound_lists_cost_no_write_but_the_lease(deps: Deps, backend: Backend) -> None:
    await put_in(deps, BAKING, SAILING)
    meter = Meter()

    class Metered(Backend):
        def deps(self, caller: Caller, _meter: Meter) -> Deps:
            return super().deps(caller, meter)

    metered = Metered(backend.settings, embedder=backend.embedder)
    assert await run_job(JOB, metered) == Report()
    await metered.aclose()
    assert meter.documents_written == 3  # and what is kept of the run
    assert await leases(deps) == set()


async def test_an_empty_knowledge_base_has_nothing_to_repair(deps: Deps, backend: Backend) -> None:
    assert await written_by_repair(backend) == 0
    assert await lists(deps) == 0


async def test_repair_and_index_never_run_at_once(backend: Backend) -> None:
    outcomes: list[object] = []

    async def meanwhile(_deps: Deps, _budget: Budget) -> Report:
        outcomes.append(await run_job(JOB, backend))
        outcomes.append(await run_job(INDEX, backend))
        return Report()

    await run_job(replace(INDEX, run=meanwhile), backend)
    await run_job(replace(JOB, run=meanwhile), backend)
    assert [Busy] * 4 == [type(outcome) for outcome in outcomes]


async def test_progress_ends_at_what_was_announced(deps: Deps) -> None:
    await put_in(deps, BAKING, SAILING)
    done: list[int] = []
    announced = await lists(deps)
    await repair(deps, Budget(math.inf, done.append))
    assert announced == sum(done) > 40
