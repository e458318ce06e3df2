"""`withdraw_trace` hides a trace from all but its contributor, and restores it.

A trace is a solved coding problem that users share.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.traces.repository import Traces
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_error, call_result, call_text
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
    common = {"trace_id": trace_id, "title": make_sample_trace(0)["title"], "changed": True}

    result = await withdraw(app, trace_id)
    undo = {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id, "withdrawn": False}}
    assert result == common | {"status": "withdrawn", "undo": undo}

    result = await withdraw(app, trace_id, withdrawn=False)
    undo = {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id, "withdrawn": True}}
    assert result == common | {"status": "pending", "undo": undo}


async def test_text_confirms_the_withdrawal(app: App) -> None:
    trace_id = await contribute(app)
    text = await call_text(app, "withdraw_trace", trace_id=trace_id)
    assert all(
        part in text for part in (trace_id, make_sample_trace(0)["title"], '"withdrawn": false')
    )
    text = await call_text(app, "withdraw_trace", trace_id=trace_id)
    assert "Nothing changed" in text


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


async def test_withdrawing_twice_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    for withdrawn in (True, False):
        await withdraw(app, trace_id, withdrawn=withdrawn)
        postings_before = await read_app_documents(app, "trace_lexicon")
        repeated_result = await withdraw(app, trace_id, withdrawn=withdrawn)
        assert not repeated_result["changed"]
        assert "undo" not in repeated_result
        assert await read_app_documents(app, "trace_lexicon") == postings_before


async def test_restoring_a_public_trace_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    assert not (await withdraw(app, trace_id, withdrawn=False))["changed"]


async def test_concurrent_withdrawals_change_the_trace_once(app: App) -> None:
    trace_id = await contribute(app)
    results = await asyncio.gather(*(withdraw(app, trace_id) for _ in range(6)))
    assert [result["changed"] for result in results].count(True) == 1
    assert await read_tag_counts(app) == {}
    totals = (await read_app_documents(app, "meta"))["trace_lexicon"]
    assert totals == {"documents": 0, "length": 0}


@pytest.mark.parametrize("embedder", [WordEmbedder()])
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


async def test_withdrawn_trace_is_not_loaded_for_search(app: App) -> None:
    """A trace may be withdrawn after search reads its postings, and before its document."""
    trace_id = await contribute(app)
    await withdraw(app, trace_id)
    traces = Traces(app.context(Caller(), Meter()).database)
    assert await traces.get_all([trace_id]) == []


async def test_withdrawal_takes_at_most_four_round_trips(app: App) -> None:
    superseded_id = await contribute(app)
    plain_id = await contribute(app, 2)
    successor_id = await contribute(app, 1, supersedes=superseded_id)
    for trace_id, max_round_trips in ((plain_id, 2), (successor_id, 3)):
        answer = await call(app, "withdraw_trace", trace_id=trace_id)
        assert answer.receipt.round_trips <= max_round_trips
    for trace_id in (plain_id, successor_id):
        answer = await call(app, "withdraw_trace", trace_id=trace_id, withdrawn=False)
        assert answer.receipt.round_trips <= 4
