"""`withdraw_trace` hides a trace from all but its contributor, and restores it.

A trace is a solved coding problem that users share.
"""

import asyncio
from typing import Any

from shared.runtime.context import App, Context
from shared.traces.repository import Traces
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_error, call_result
from tests.support.traces import (
    DOWN,
    add_votes,
    contribute,
    make_sample_trace,
    read_tag_counts,
    search_trace_ids,
    vote,
)

SEARCHES: tuple[dict[str, Any], ...] = (
    {"query": make_sample_trace(0)["title"]},
    {"query": "editable", "tags": ["python"]},
    {"tags": ["src-layout"]},
)
"""Searches that find the first sample."""


async def withdraw(app: App, trace_id: str, **arguments: Any) -> dict[str, Any]:
    """Withdraw a trace as its contributor, or restore it with `withdrawn=False`."""
    return await call_result(app, "withdraw_trace", trace_id=trace_id, **arguments)


async def test_only_the_contributor_reads_a_withdrawn_trace(app: App) -> None:
    trace_id = await contribute(app)
    await contribute(app, 1)
    await withdraw(app, trace_id)

    for user in (ANONYMOUS, "ben", ANNA):
        for arguments in SEARCHES:
            ids = await search_trace_ids(app, user, **arguments, include_flagged=True)
            assert trace_id not in ids
    for user in (ANONYMOUS, "ben"):
        error = await call_error(app, "get_trace", user, trace_id=trace_id)
        assert error.code == "NOT_FOUND"

    trace = await call_result(app, "get_trace", ANNA, trace_id=trace_id)
    assert trace["status"] == "withdrawn"
    assert trace["solution_text"] == make_sample_trace(0)["solution_text"]
    assert await read_tag_counts(app) == {"python": 1, "asyncio": 1}


async def test_withdrawn_and_missing_traces_look_the_same(app: App) -> None:
    """Other users get the same errors for both."""
    trace_id = await contribute(app)
    await withdraw(app, trace_id)
    for name, arguments in (
        ("get_trace", {}),
        ("vote_trace", {"vote_type": "up"}),
        ("amend_trace", {"title": "Mine"}),
        ("withdraw_trace", {}),
    ):
        withdrawn_error = await call_error(app, name, "ben", trace_id=trace_id, **arguments)
        missing_error = await call_error(app, name, "ben", trace_id="f" * 16, **arguments)
        assert missing_error.message.replace("f" * 16, trace_id) == withdrawn_error.message


async def test_result_has_status_and_undo(app: App) -> None:
    trace_id = await contribute(app)
    common = {"trace_id": trace_id, "title": make_sample_trace(0)["title"]}
    for withdrawn, status in ((True, "withdrawn"), (False, "pending")):
        arguments: dict[str, Any] = {"trace_id": trace_id, "withdrawn": withdrawn}
        answer = await call(app, "withdraw_trace", **arguments)
        undo = {"tool": "withdraw_trace", "arguments": arguments | {"withdrawn": not withdrawn}}
        expected = common | {"status": status}
        assert answer.result
        assert answer.result.pop("message").startswith("Now the trace is")
        assert answer.result == expected | {"changed": True, "undo": undo}
        before = await read_app_documents(app, "trace_lexicon")
        repeated = await call(app, "withdraw_trace", **arguments)
        assert repeated.result
        assert "Nothing changed" in repeated.result.pop("message")
        assert repeated.result == expected | {"changed": False}
        assert await read_app_documents(app, "trace_lexicon") == before


async def test_votes_survive_a_withdrawal(app: App) -> None:
    trace_id = await contribute(app)
    await add_votes(app, trace_id, 5)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="Not on Windows.")
    trace_before = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    record = await read_app_documents(app, "contributors")
    await withdraw(app, trace_id)
    assert (await withdraw(app, trace_id, withdrawn=False))["status"] == "validated"
    assert await call_result(app, "get_trace", "ben", trace_id=trace_id) == trace_before
    assert await read_app_documents(app, "contributors") == record


async def test_concurrent_withdrawals_change_the_trace_once(app: App) -> None:
    trace_id = await contribute(app)
    results = await asyncio.gather(*(withdraw(app, trace_id) for _ in range(6)))
    assert [result["changed"] for result in results].count(True) == 1
    assert await read_tag_counts(app) == {}
    totals = (await read_app_documents(app, "meta"))["trace_lexicon"]
    assert totals == {"documents": 0, "length": 0}


async def test_trace_is_withdrawn_while_embedding_is_down(app: App, embedder: WordEmbedder) -> None:
    trace_id = await contribute(app)
    embedder.is_down = True
    await withdraw(app, trace_id)
    answer = await call(app, "withdraw_trace", trace_id=trace_id, withdrawn=False)
    embedder.is_down = False
    assert answer.error
    assert answer.error.code == "UNAVAILABLE"
    assert answer.error.details["outcome"] == "nothing_done"
    assert (await withdraw(app, trace_id, withdrawn=False))["changed"]


async def test_withdrawn_trace_is_not_loaded_for_search(app: App, ctx: Context) -> None:
    """A trace may be withdrawn after search reads its postings, and before its document."""
    trace_id = await contribute(app)
    await withdraw(app, trace_id)
    assert await Traces(ctx.database).get_all([trace_id]) == []


async def test_withdrawal_of_a_successor_takes_at_most_four_round_trips(app: App) -> None:
    superseded_id = await contribute(app)
    successor_id = await contribute(app, 1, supersedes=superseded_id)
    for withdrawn, max_round_trips in ((True, 3), (False, 4)):
        arguments: dict[str, Any] = {"trace_id": successor_id, "withdrawn": withdrawn}
        answer = await call(app, "withdraw_trace", **arguments)
        assert answer.receipt.round_trips <= max_round_trips
