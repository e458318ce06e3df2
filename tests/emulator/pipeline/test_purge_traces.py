"""Purge erases traces that were withdrawn long ago, completely, and nothing else.

A trace is a solved coding problem, on which users vote. A trace that supersedes another one is its
successor, and such traces form a chain; only the last trace of a chain that is not withdrawn is
listed by searches.
"""

from collections import Counter
from datetime import timedelta
from typing import Any, NamedTuple

from functions.jobs.purge.job import purge
from functions.jobs.purge.sweep import PAGE_SIZE
from functions.jobs.purge.withdrawn_traces import MAX_FOLLOWERS
from shared.runtime.context import App, Context
from shared.traces.repository import WITHDRAWN_TRACES, Traces
from tests.support.apps import Apps
from tests.support.clock import NOON
from tests.support.commit_hooks import call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import assert_trace_postings_are_exact
from tests.support.tool_calls import ANONYMOUS, call_error, call_result
from tests.support.traces import (
    DOWN,
    add_votes,
    contribute,
    make_fixed_clock,
    make_sample_trace,
    search_trace_ids,
    vote,
)
from tests.support.workspaces import read_write_times

KEPT = WITHDRAWN_TRACES.duration.days


def set_time(app: App, **after_noon: float) -> None:
    """Set the clock to this much after noon."""
    app.clock = make_fixed_clock(NOON + timedelta(**after_noon))


def make_context_after(app: App, **after_noon: float) -> Context:
    """Set the clock to this much after noon, and return the context of a job."""
    set_time(app, **after_noon)
    return make_job_context(app)


async def purge_after(app: App, **after_noon: float) -> Counter[str]:
    """Purge this much after noon; return the deletions by kind."""
    report = await purge(make_context_after(app, **after_noon), make_ample_budget())
    assert report.finished
    assert report.failures == []
    return report.counts


async def withdraw(app: App, trace_id: str, user: str = "anna", **more: Any) -> None:
    await call_result(app, "withdraw_trace", user, trace_id=trace_id, **more)


async def read_trace_paths(app: App) -> set[str]:
    """Return the paths of all documents of traces and their postings."""
    return set(await read_write_times(make_job_context(app), "trace"))


async def test_a_withdrawn_trace_is_erased_completely(app: App) -> None:
    """Its votes and revisions are deleted with it, and no other document changes."""
    trace_id = await contribute(app, 0, "anna")
    await call_result(app, "amend_trace", "anna", trace_id=trace_id, solution_text="Try again.")
    await add_votes(app, trace_id, 3)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="It fails.")
    other_id = await contribute(app, 1, "anna")
    await vote(app, other_id, "ben")
    await withdraw(app, trace_id)
    before = await read_write_times(make_job_context(app))
    assert await purge_after(app, days=KEPT) == Counter(traces=1, revisions=1, votes=4)

    after = await read_write_times(make_job_context(app))
    assert after.keys() == {path for path in before if trace_id not in path}
    assert not {path for path, write_time in after.items() if write_time != before[path]}
    assert f"traces/{other_id}/votes/ben" in after
    assert await purge_after(app, days=2 * KEPT) == Counter()


async def test_erasure_keeps_the_votes_on_record_of_a_contributor(app: App) -> None:
    """A contributor cannot get rid of bad votes by withdrawing a trace."""
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 2)
    await add_votes(app, trace_id, 5, name="critic", **DOWN)
    record = await Traces(make_job_context(app).database).get_record("anna")

    await withdraw(app, trace_id)
    await purge_after(app, days=KEPT + 1)

    assert await Traces(make_job_context(app).database).get_record("anna") == record
    fields = (await read_app_documents(app, "contributors"))["anna"]
    assert fields == {"up": 2, "down": 5}


async def test_a_trace_restored_during_the_run_stays_complete(apps: Apps, app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 2)
    await withdraw(app, trace_id)
    paths = await read_trace_paths(app)

    async def restore_trace() -> None:
        set_time(app, days=KEPT + 10)
        await withdraw(app, trace_id, withdrawn=False)

    purging_app = apps(call_before_commit(1, restore_trace))
    assert (await purge_after(purging_app, days=KEPT + 1))["traces"] == 0
    assert paths <= await read_trace_paths(app)
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 2}
    await assert_trace_postings_are_exact(app)


async def test_a_partly_erased_trace_accepts_no_restore_or_vote(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await vote(app, trace_id, "ben")
    await withdraw(app, trace_id)

    ctx = make_context_after(app, days=KEPT + 1)
    assert not (await purge(ctx, make_spent_budget())).finished
    assert f"traces/{trace_id}" in await read_trace_paths(app)

    for user, name, more in (
        ("anna", "withdraw_trace", {"withdrawn": False}),
        ("anna", "get_trace", {}),
        ("ben", "vote_trace", {"vote_type": "none"}),
    ):
        error = await call_error(app, name, user, trace_id=trace_id, **more)
        assert error.code == "NOT_FOUND"

    await purge_after(app, days=KEPT + 1)
    assert not [path for path in await read_trace_paths(app) if trace_id in path]


async def contribute_chain(app: App, length: int, user: str = "anna") -> list[str]:
    """Contribute traces, each of which supersedes the one before; return their ids in order."""
    trace_ids: list[str] = []
    for number in range(length):
        link = {"supersedes": trace_ids[-1]} if trace_ids else {}
        trace_ids.append(await contribute(app, number, user, **link))
    return trace_ids


class Links(NamedTuple):
    """The ids of a trace's neighbours in its chain."""

    supersedes: str | None
    superseded_by: str | None


async def read_links(app: App) -> dict[str, Links]:
    """Return the links of each trace, by its id."""
    traces = await read_app_documents(app, "traces")
    return {
        trace_id: Links(data["supersedes"], data["superseded_by"])
        for trace_id, data in traces.items()
    }


async def test_the_neighbours_of_an_erased_trace_are_linked(app: App) -> None:
    first, second, third = await contribute_chain(app, 3)
    await withdraw(app, second)
    assert (await purge_after(app, days=KEPT + 1))["traces"] == 1
    assert await read_links(app) == {first: (None, third), third: (first, None)}
    await assert_trace_postings_are_exact(app)

    await withdraw(app, third)
    assert await read_links(app) == {first: (None, None), third: (first, None)}

    await withdraw(app, third, withdrawn=False)
    assert await read_links(app) == {first: (None, third), third: (first, None)}
    await assert_trace_postings_are_exact(app)


async def test_the_predecessor_of_the_last_trace_is_listed_again(app: App) -> None:
    first, second, third = await contribute_chain(app, 3)
    await withdraw(app, second)
    set_time(app, days=KEPT - 10)
    await withdraw(app, third)
    assert await read_links(app) == {
        first: (None, second),
        second: (first, None),
        third: (second, None),
    }

    assert (await purge_after(app, days=KEPT + 1))["traces"] == 1
    assert await read_links(app) == {first: (None, None), third: (first, None)}
    assert (await search_trace_ids(app, query=make_sample_trace(0)["title"]))[:1] == [first]
    await assert_trace_postings_are_exact(app)

    set_time(app, days=KEPT + 2)
    await withdraw(app, third, withdrawn=False)
    assert await read_links(app) == {first: (None, third), third: (first, None)}
    await assert_trace_postings_are_exact(app)


async def test_a_withdrawn_predecessor_stays_hidden(app: App) -> None:
    first, second, third = await contribute_chain(app, 3)
    for trace_id in (second, third):
        await withdraw(app, trace_id)
    set_time(app, days=KEPT - 10)
    await withdraw(app, first)
    assert (await purge_after(app, days=KEPT + 1))["traces"] == 2
    assert await read_links(app) == {first: (None, None)}
    assert await search_trace_ids(app, query=make_sample_trace(0)["title"]) == []
    await assert_trace_postings_are_exact(app)


async def test_a_successor_of_another_contributor_loses_its_link(app: App) -> None:
    first, second = await contribute_chain(app, 2)
    of_ben = await contribute(app, 2, "ben", supersedes=second)
    await vote(app, of_ben, "carl")
    await withdraw(app, second)

    assert (await purge_after(app, days=KEPT + 1))["traces"] == 1

    assert await read_links(app) == {first: (None, None), of_ben: (None, None)}
    out = await call_result(app, "get_trace", ANONYMOUS, trace_id=of_ben)
    assert out["upvotes"] == 1
    assert "supersedes" not in out


async def test_each_of_many_successors_loses_its_link(app: App) -> None:
    """Other users can contribute any number of traces that claim to supersede a trace."""
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)
    ctx = make_job_context(app)
    for number in range(MAX_FOLLOWERS + 2):
        successor = {"supersedes": trace_id, "contributor": f"user-{number}"}
        await set_fields(ctx, f"traces/successor-{number:03}", successor)
    assert (await purge_after(app, days=KEPT + 1))["traces"] == 1
    successors = (await read_app_documents(app, "traces")).values()
    assert all(data["supersedes"] is None for data in successors)


async def test_malformed_traces_block_no_others(app: App) -> None:
    ctx = make_job_context(app)
    for number in range(PAGE_SIZE + 1):
        malformed = {"withdrawn_at": NOON - WITHDRAWN_TRACES.duration, "title": number}
        await set_fields(ctx, f"traces/malformed-{number}", malformed)
    trace_id = await contribute(app, 0, "anna")
    await withdraw(app, trace_id)

    report = await purge(make_context_after(app, days=KEPT + 1), make_ample_budget())

    assert report.counts["traces"] == 1
    assert len(report.failures) == PAGE_SIZE + 1
    assert {failure.reason for failure in report.failures} == {"the document is malformed"}
    assert trace_id not in await read_app_documents(app, "traces")


async def test_a_trace_is_listed_again_once_the_embedder_works(
    app: App, embedder: WordEmbedder
) -> None:
    _, second, third = await contribute_chain(app, 3)
    for trace_id in (second, third):
        await withdraw(app, trace_id)

    embedder.is_down = True
    report = await purge(make_context_after(app, days=KEPT + 1), make_ample_budget())
    assert report.counts["traces"] == 1
    assert [failure.name for failure in report.failures] == [f"traces/{second}"]

    embedder.is_down = False
    assert (await purge_after(app, days=KEPT + 1))["traces"] == 1
    await assert_trace_postings_are_exact(app)
