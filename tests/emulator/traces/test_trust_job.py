"""The trust job recounts tallies and records, and loses no concurrent vote.

Users vote on traces, which are solved coding problems. A tally is the sum of the votes on one
trace, and a record the sum of the votes on all traces of one contributor. A run recounts what has
recent votes. Once in a round, a run recounts everything.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.purge.job import purge
from functions.jobs.trust.job import (
    JOB,
    MAX_CLOCK_SKEW,
    ROUND_INTERVAL,
    count_pending,
    recount_votes,
)
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.job import AlreadyRunning, Report, run_job
from shared.traces.trust import VoteTally
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_app_documents, read_documents
from tests.support.stored_traces import assert_tallies_match_votes
from tests.support.tasks import NOON
from tests.support.tool_calls import call, call_result
from tests.support.traces import DOWN, SPAM, add_votes, contribute, vote
from tests.support.workspaces import read_write_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

PEOPLE: Final = ("anna", "ben", "carl", "dora")
MAX_IDLE_READS: Final = 12
"""The most documents that a run with nothing to do reads."""


class DiedError(Exception):
    """A process dies."""


@pytest.fixture
def clock() -> SettableClock:
    """The clock of `app`, at noon."""
    return SettableClock(NOON)


@pytest.fixture
async def app(settings: Settings, clock: SettableClock) -> AsyncIterator[App]:
    """An app as in other tests, whose clock stands still."""
    watched_app = WatchedApp(settings, clock=clock, embedder=WordEmbedder())
    yield watched_app
    await watched_app.aclose()


async def contribute_and_vote(app: App, rng: random.Random) -> list[str]:
    """Contribute traces of two users, and amend them and vote on them at random."""
    trace_ids = [await contribute(app, number, PEOPLE[number % 2]) for number in range(4)]
    choices: list[dict[str, Any]] = [{"vote_type": "up"}, DOWN, SPAM, {"vote_type": "none"}]
    for _ in range(24):
        trace_id, user = rng.choice(trace_ids), rng.choice(PEOPLE)
        await call(app, "vote_trace", user, trace_id=trace_id, **rng.choice(choices))
        if rng.random() < 0.2:
            text = f"Try number {rng.random()}."
            for user in PEOPLE[:2]:  # succeeds for the contributor only
                arguments: dict[str, Any] = {"trace_id": trace_id, "solution_text": text}
                await call(app, "amend_trace", user, **arguments)
    return trace_ids


async def damage(app: App, rng: random.Random) -> None:
    """Damage tallies and a record at random."""
    ctx = make_job_context(app)
    for trace_id in sorted(await read_app_documents(app, "traces")):
        invalid = VoteTally(*(rng.randrange(300) for _ in range(5)))
        change = rng.choice([{"tally": asdict(invalid)}, {"tally": {"upvotes": 7}}, {}])
        await set_fields(ctx, f"traces/{trace_id}", change)
    record: dict[str, Any] = {"up": rng.randrange(50)}
    await set_fields(ctx, f"contributors/{rng.choice(PEOPLE[:2])}", record)


async def count_documents_written(app: App) -> int:
    """Run the job, and return how many documents it writes."""
    meter = Meter()
    assert (await recount_votes(app.context(Caller(), meter), make_ample_budget())).failures == []
    return meter.documents_written


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_damaged_sums_are_repaired(app: App, clock: SettableClock, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret
    await contribute_and_vote(app, rng)
    await recount_votes(make_job_context(app), make_ample_budget())
    await damage(app, rng)
    clock.now += ROUND_INTERVAL

    report = await recount_votes(make_job_context(app), make_ample_budget())
    assert report.finished
    assert report.failures == []
    assert report.counts["busy"] == 0
    assert report.counts["records"] <= 2
    await assert_tallies_match_votes(app)

    clock.now += ROUND_INTERVAL
    assert await count_documents_written(app) == 1  # the note that the round has ended


async def test_missing_record_is_restored(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 3)
    await app.connection.client.document("contributors/anna").delete()
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report(
        Counter(records=1)
    )
    await assert_tallies_match_votes(app)


async def test_recent_votes_are_recounted_between_rounds(app: App, clock: SettableClock) -> None:
    voted_id, other_id = [await contribute(app, number, "anna") for number in range(2)]
    await recount_votes(make_job_context(app), make_ample_budget())
    clock.advance(days=1)
    await vote(app, voted_id, "ben")
    for trace_id in (voted_id, other_id):
        await set_fields(make_job_context(app), f"traces/{trace_id}", {"tally": {"upvotes": 40}})
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report(
        Counter(tallies=1)
    )
    traces = await read_app_documents(app, "traces")
    assert traces[voted_id]["tally"]["upvotes"] == 1
    assert traces[other_id]["tally"]["upvotes"] == 40

    clock.now += ROUND_INTERVAL
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report(
        Counter(tallies=1)
    )
    await assert_tallies_match_votes(app)


async def test_vote_committed_late_is_recounted(app: App, clock: SettableClock) -> None:
    """The time of the vote is before a run, and its commit is after that run."""
    trace_id = await contribute(app, 0, "anna")
    await recount_votes(make_job_context(app), make_ample_budget())
    clock.advance(days=1)
    await recount_votes(make_job_context(app), make_ample_budget())
    clock.now -= MAX_CLOCK_SKEW / 2
    await vote(app, trace_id, "ben")
    await set_fields(make_job_context(app), f"traces/{trace_id}", {"tally": {"upvotes": 40}})
    clock.now += MAX_CLOCK_SKEW
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report(
        Counter(tallies=1)
    )


async def test_idle_run_costs_few_reads(app: App, clock: SettableClock) -> None:
    for number in range(6):
        await add_votes(app, await contribute(app, number, f"user{number}"), 3)
    clock.advance(hours=1)
    await recount_votes(make_job_context(app), make_ample_budget())
    clock.advance(days=1)
    await recount_votes(make_job_context(app), make_ample_budget())

    for _ in range(2):
        clock.advance(days=1)
        meter = Meter()
        ctx = app.context(Caller(), meter)
        assert await count_pending(ctx) == 0
        assert await recount_votes(ctx, make_ample_budget()) == Report()
        assert meter.documents_written == 0
        assert meter.documents_read <= MAX_IDLE_READS


async def test_vote_before_a_correction_is_kept(
    settings: Settings, app: App, clock: SettableClock
) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 2)
    await recount_votes(make_job_context(app), make_ample_budget())
    wrong_sums: dict[str, dict[str, Any]] = {
        f"traces/{trace_id}": {"tally": {"upvotes": 9}},
        "contributors/anna": {"up": 9},
    }
    for path, fields in wrong_sums.items():
        await set_fields(make_job_context(app), path, fields)
        clock.now += ROUND_INTERVAL

        async def vote_once(name: str = path.replace("/", " ")) -> None:
            await vote(app, trace_id, name)

        # The vote comes after the job's reads, so the job must not write its sum.
        racing_app = WatchedApp(
            settings, call_before_commit(1, vote_once), clock=clock, embedder=WordEmbedder()
        )
        assert (await recount_votes(make_job_context(racing_app), make_ample_budget())).counts[
            "busy"
        ] == 1
        await racing_app.aclose()
        clock.now += ROUND_INTERVAL
        await recount_votes(make_job_context(app), make_ample_budget())
        await assert_tallies_match_votes(app)
    assert (await read_app_documents(app, "traces"))[trace_id]["tally"]["upvotes"] == 4


async def test_runs_during_votes_lose_no_vote(app: App, clock: SettableClock) -> None:
    trace_ids = [await contribute(app, number, "anna") for number in range(3)]
    rng = random.Random(5)  # noqa: S311 - no secret

    async def run_repeatedly() -> None:
        for _ in range(6):
            clock.now += ROUND_INTERVAL
            await recount_votes(make_job_context(app), make_ample_budget())

    async def vote_and_damage() -> None:
        for number in range(10):
            votes = (
                vote(app, trace_id, f"voter{number}", **rng.choice([{}, DOWN]))
                for trace_id in trace_ids
            )
            await asyncio.gather(*votes)
            if number == 4:
                await damage(app, rng)

    await asyncio.gather(run_repeatedly(), vote_and_damage())
    clock.now += ROUND_INTERVAL
    await recount_votes(make_job_context(app), make_ample_budget())
    await assert_tallies_match_votes(app)
    tallies = [data["tally"] for data in (await read_app_documents(app, "traces")).values()]
    assert [tally["upvotes"] + tally["downvotes"] for tally in tallies] == [10] * 3


async def test_unreadable_votes_do_not_block_other_traces(app: App) -> None:
    broken_id = await contribute(app, 0, "anna")
    other_id = await contribute(app, 1, "anna")
    id_of_ben = await contribute(app, 2, "ben")
    for trace_id in (broken_id, other_id, id_of_ben):
        await vote(app, trace_id, "carl")
        await set_fields(make_job_context(app), f"traces/{trace_id}", {"tally": {"upvotes": 40}})
    await set_fields(make_job_context(app), f"traces/{broken_id}/votes/carl", {"vote": "sideways"})
    record = (await read_app_documents(app, "contributors"))["anna"]

    report = await recount_votes(make_job_context(app), make_ample_budget())
    assert [failure.name for failure in report.failures] == [f"traces/{broken_id}"]
    assert report.counts == Counter(tallies=2)
    assert (await read_app_documents(app, "contributors"))["anna"] == record


async def test_votes_on_erased_traces_stay_in_the_record(app: App, clock: SettableClock) -> None:
    erased_id, remaining_id = [await contribute(app, number, "anna") for number in range(2)]
    await add_votes(app, erased_id, 3, **DOWN)
    await add_votes(app, remaining_id, 2)
    await call_result(app, "withdraw_trace", "anna", trace_id=erased_id)
    clock.advance(days=31)
    while f"traces/{erased_id}" in await read_write_times(make_job_context(app)):
        await purge(make_job_context(app), make_spent_budget())
    expected_record = {"up": 2, "down": 3, "erased_down": 3}
    for _ in range(2):  # while its votes are still there, and after
        assert (await read_app_documents(app, "contributors"))["anna"] == expected_record
        assert await recount_votes(make_job_context(app), make_ample_budget()) == Report()
        await purge(make_job_context(app), make_ample_budget())
        clock.now += ROUND_INTERVAL
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report()


async def test_run_without_time_recounts_one_contributor(app: App, clock: SettableClock) -> None:
    for number in range(3):
        await add_votes(app, await contribute(app, number, PEOPLE[number]), 2)
    await damage(app, random.Random(3))  # noqa: S311 - no secret
    for _ in range(3):
        assert not (await recount_votes(make_job_context(app), make_spent_budget())).finished
    assert (await recount_votes(make_job_context(app), make_spent_budget())).finished
    await assert_tallies_match_votes(app)
    clock.advance(days=1)
    assert await count_pending(make_job_context(app)) == 0


async def test_run_without_time_stops_although_the_clock_went_back(
    app: App, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.traces.vote_recount.VOTES_PAGE_SIZE", 1)
    trace_ids = [await contribute(app, number, "anna") for number in range(3)]
    await recount_votes(make_job_context(app), make_ample_budget())
    for trace_id in trace_ids:
        await add_votes(app, trace_id, 1)
        await set_fields(make_job_context(app), f"traces/{trace_id}", {"tally": {"upvotes": 7}})
    clock.now -= timedelta(hours=1)
    report = await recount_votes(make_job_context(app), make_spent_budget())
    assert (report.counts, report.finished) == ({"tallies": 1}, False)


async def test_run_killed_after_any_commit_is_continued(
    settings: Settings, app: App, clock: SettableClock
) -> None:
    rng = random.Random(11)  # noqa: S311 - no secret
    await contribute_and_vote(app, rng)

    async def commit_and_die(_number: int, send: Any) -> list[Any]:
        await send()
        raise DiedError

    for _ in range(3):
        await damage(app, rng)
        clock.now += ROUND_INTERVAL
        deaths = 0
        while True:
            killed_app = WatchedApp(settings, commit_and_die, clock=clock, embedder=WordEmbedder())
            try:
                await recount_votes(make_job_context(killed_app), make_ample_budget())
            except DiedError:
                deaths += 1
            else:
                break
            finally:
                await killed_app.aclose()
        assert deaths > 1
        await assert_tallies_match_votes(app)


async def test_concurrent_runs_exclude_each_other(app: App) -> None:
    outcomes = await asyncio.gather(run_job(JOB, app), run_job(JOB, app))
    assert set(map(type, outcomes)) == {Report, AlreadyRunning}


async def test_run_without_traces_does_nothing(app: App, clock: SettableClock) -> None:
    assert await recount_votes(make_job_context(app), make_ample_budget()) == Report()
    clock.advance(days=1)
    assert await count_documents_written(app) == 0
    assert await count_pending(make_job_context(app)) == 0
    assert set(await read_documents(make_job_context(app), "meta")) == {"trust"}
