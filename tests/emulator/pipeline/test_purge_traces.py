"""Purge erases traces that were withdrawn long ago, whole, and nothing else."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.purge.job import count_pending, purge
from functions.jobs.purge.withdrawn_traces import PAGE_SIZE, RESTORABLE
from shared.runtime.job import Report
from shared.traces.erasure import MAX_FOLLOWERS
from shared.traces.repository import Traces
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp, before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import set_fields
from tests.support.stored_documents import ample, nothing
from tests.support.stored_traces import assert_postings_exact
from tests.support.tasks import NOON
from tests.support.tool_calls import STRANGER, call, call_error, call_result
from tests.support.traces import (
    DOWN,
    add_votes,
    contribute,
    fixed_clock,
    sample,
    search_ids,
    stored_documents,
    vote,
)
from tests.support.workspaces import job_context, write_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    opened = WatchedApp(settings, clock=SettableClock(NOON), embedder=WordEmbedder())
    yield opened
    await opened.aclose()


def later(app: App, **passed: float) -> Context:
    """What a job may use that runs so much after noon."""
    app.clock = fixed_clock(NOON + timedelta(**passed))
    return job_context(app)


async def purged(app: App, **passed: float) -> Counter[str]:
    """What a run deletes that goes well, but for answers, which expire too."""
    report = await purge(later(app, **passed), ample())
    assert (True, []) == (report.finished, report.failures)
    return Counter({name: n for name, n in report.counts.items() if name != "replays"})


async def withdraw(app: App, trace_id: str, user: str = "anna", **more: Any) -> None:
    await call_result(app, "withdraw_trace", user, trace_id=trace_id, **more)


async def below_traces(app: App) -> set[str]:
    """Where something stands of any trace."""
    return {path for path in await write_times(job_context(app)) if path.startswith("trace")}


async def test_a_withdrawn_trace_goes_whole_after_thirty_days(
    app: App,
) -> None:
    trace_id = await contribute(app, 0, "anna")
    await call_result(app, "amend_trace", "anna", trace_id=trace_id, solution_text="Try again.")
    await add_votes(app, trace_id, 3)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="It fails.")
    stays = await contribute(app, 1, "anna")
    await vote(app, stays, "ben")
    await withdraw(app, trace_id)
    assert Counter() == await purged(app, days=30)
    before = await write_times(job_context(app))
    ctx = later(app, days=30, seconds=1)
    assert 1 == await count_pending(ctx)
    assert Report(Counter(traces=1, revisions=1, votes=4)) == await purge(ctx, ample())
    after = await write_times(job_context(app))
    assert [] == [path for path in after if trace_id in path]
    changed = {path for path, at in before.items() if after.get(path, at) != at}
    assert {"contributors/anna"} == changed
    assert {path for path in before if trace_id not in path} == after.keys()
    assert f"traces/{stays}/votes/ben" in after
    assert Counter() == await purged(app, days=60)


async def test_withdrawing_what_earned_a_bad_name_does_not_clear_it(
    app: App,
) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 2)
    await add_votes(app, trace_id, 5, kind="critic", **DOWN)
    record = await Traces(job_context(app).database).get_record("anna")
    await withdraw(app, trace_id)
    await purged(app, days=31)
    assert record == await Traces(job_context(app).database).get_record("anna")
    fields = (await stored_documents(app, "contributors"))["anna"]
    assert {"up": 2, "down": 5, "erased_up": 2, "erased_down": 5} == fields


async def test_what_was_put_back_stays(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)
    later(app, days=29)
    await withdraw(app, trace_id, withdrawn=False)
    assert Counter() == await purged(app, days=90)
    assert [trace_id] == await search_ids(app, query=sample(0)["title"])


async def test_one_that_is_put_back_in_the_same_moment_stays_whole(settings: Settings) -> None:
    calm = WatchedApp(settings, clock=SettableClock(NOON), embedder=WordEmbedder())
    trace_id = await contribute(calm, 0, "anna")
    await add_votes(calm, trace_id, 2)
    await withdraw(calm, trace_id)
    whole = await below_traces(calm)

    async def put_back() -> None:
        calm.clock = fixed_clock(NOON + timedelta(days=40))
        await withdraw(calm, trace_id, withdrawn=False)

    raced = WatchedApp(settings, before(1, put_back), embedder=WordEmbedder())
    assert 0 == (await purged(raced, days=31))["traces"]
    await raced.aclose()
    assert whole <= await below_traces(calm)
    assert {"up": 2} == (await stored_documents(calm, "contributors"))["anna"]
    await assert_postings_exact(calm)
    await calm.aclose()


async def test_once_it_goes_it_cannot_be_put_back_or_voted_on(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await vote(app, trace_id, "ben")
    await withdraw(app, trace_id)
    ctx = later(app, days=31)
    while f"traces/{trace_id}" in await below_traces(app):
        assert not (await purge(ctx, nothing())).finished
    assert f"traces/{trace_id}/votes/ben" in await below_traces(app)
    for user, name, more in (
        ("anna", "withdraw_trace", {"withdrawn": False}),
        ("anna", "get_trace", {}),
        ("ben", "vote_trace", {"vote_type": "none"}),
    ):
        error = await call_error(app, name, user, trace_id=trace_id, **more)
        assert "NOT_FOUND" == error.code
    await purged(app, days=31)
    assert not [path for path in await below_traces(app) if trace_id in path]


async def chain(app: App, length: int, user: str = "anna") -> list[str]:
    """Traces of which each replaces the one before."""
    made: list[str] = []
    for number in range(length):
        more = {"supersedes": made[-1]} if made else {}
        made.append(await contribute(app, number, user, **more))
    return made


async def links(app: App) -> dict[str, tuple[str | None, str | None]]:
    """What each trace replaces, and is replaced by."""
    fields = await stored_documents(app, "traces")
    return {name: (data["supersedes"], data["superseded_by"]) for name, data in fields.items()}


async def test_the_gap_in_a_row_of_replaced_traces_is_closed(app: App) -> None:
    first, second, third = await chain(app, 3)
    await withdraw(app, second)
    assert 1 == (await purged(app, days=31))["traces"]
    assert {first: (None, third), third: (first, None)} == await links(app)
    await assert_postings_exact(app)
    await withdraw(app, third)
    assert {first: (None, None), third: (first, None)} == await links(app)
    await withdraw(app, third, withdrawn=False)
    assert {first: (None, third), third: (first, None)} == await links(app)
    await assert_postings_exact(app)


async def test_what_a_row_began_with_can_go_too(app: App) -> None:
    first, second = await chain(app, 2)
    await withdraw(app, first)
    assert 1 == (await purged(app, days=31))["traces"]
    assert {second: (None, None)} == await links(app)


async def test_what_was_hidden_behind_one_that_goes_is_found_again(app: App) -> None:
    first, second, third = await chain(app, 3)
    await withdraw(app, second)
    later(app, days=20)
    await withdraw(app, third)
    assert {first: (None, second), second: (first, None), third: (second, None)} == await links(app)
    assert 1 == (await purged(app, days=31))["traces"]
    assert {first: (None, None), third: (first, None)} == await links(app)
    assert [first] == (await search_ids(app, query=sample(0)["title"]))[:1]
    await assert_postings_exact(app)
    later(app, days=32)
    await withdraw(app, third, withdrawn=False)
    assert {first: (None, third), third: (first, None)} == await links(app)
    await assert_postings_exact(app)


async def test_what_it_replaced_and_is_withdrawn_too_stays_hidden(app: App) -> None:
    first, second, third = await chain(app, 3)
    for trace_id in (second, third):
        await withdraw(app, trace_id)
    later(app, days=20)
    await withdraw(app, first)
    assert 2 == (await purged(app, days=31))["traces"]
    assert {first: (None, None)} == await links(app)
    assert [] == await search_ids(app, query=sample(0)["title"])
    await assert_postings_exact(app)


async def test_the_claim_of_somebody_else_to_replace_it_ends(app: App) -> None:
    old = await contribute(app, 0, "anna")
    new = await contribute(app, 1, "anna", supersedes=old)
    theirs = await contribute(app, 2, "ben", supersedes=new)
    await vote(app, theirs, "carl")
    await withdraw(app, new)
    assert 1 == (await purged(app, days=31))["traces"]
    assert {old: (None, None), theirs: (None, None)} == await links(app)
    read = await call_result(app, "get_trace", STRANGER, trace_id=theirs)
    assert (1, False) == (read["upvotes"], "supersedes" in read)


async def test_of_many_that_claim_to_replace_it_none_names_it_then(
    app: App,
) -> None:
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)
    ctx = job_context(app)
    for number in range(MAX_FOLLOWERS + 2):
        claim = {"supersedes": trace_id, "contributor": f"user-{number}"}
        await set_fields(ctx, f"traces/claim-{number:03}", claim)
    assert 1 == (await purged(app, days=31))["traces"]
    claims = {data["supersedes"] for data in (await stored_documents(app, "traces")).values()}
    assert {None} == claims


async def test_more_than_are_read_at_once_are_all_erased(app: App) -> None:
    ctx = job_context(app)
    trace_id = await contribute(app)
    data = (await stored_documents(app, "traces"))[trace_id]
    for number in range(PAGE_SIZE + 3):
        withdrawn = {"withdrawn_at": NOON, "indexed": {}, "facets": [], "contributor": "anna"}
        await set_fields(ctx, f"traces/old-{number}", data | withdrawn)
    assert Counter(traces=PAGE_SIZE + 3) == await purged(app, days=31)


async def test_a_trace_that_cannot_be_read_blocks_no_other_erasure(
    app: App,
) -> None:
    ctx = job_context(app)
    for number in range(PAGE_SIZE + 1):
        broken = {"withdrawn_at": NOON - RESTORABLE, "title": number}
        await set_fields(ctx, f"traces/broken-{number}", broken)
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)
    report = await purge(later(app, days=31), ample())
    assert (1, PAGE_SIZE + 1) == (report.counts["traces"], len(report.failures))
    assert {"the document is malformed"} == {failure.reason for failure in report.failures}
    assert trace_id not in await stored_documents(app, "traces")


async def test_without_an_embedder_what_would_be_found_again_waits(settings: Settings) -> None:
    embedder = WordEmbedder()
    app = WatchedApp(settings, clock=SettableClock(NOON), embedder=embedder)
    _, second, third = await chain(app, 3)
    for trace_id in (second, third):
        await withdraw(app, trace_id)
    embedder.down = True
    report = await purge(later(app, days=31), ample())
    assert (1, [f"traces/{second}"]) == (
        report.counts["traces"],
        [failure.name for failure in report.failures],
    )
    embedder.down = False
    assert 1 == (await purged(app, days=31))["traces"]
    await assert_postings_exact(app)
    await app.aclose()


async def test_a_vote_that_comes_while_it_is_read_is_refused(app: App) -> None:
    """Nobody votes on what is withdrawn: there is no race to lose."""
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)
    answer = await call(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert answer.error
    assert "NOT_FOUND" == answer.error.code
