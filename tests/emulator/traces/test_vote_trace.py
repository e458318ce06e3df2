"""`vote_trace` stores, changes or withdraws the one vote of a user on a trace.

A trace is a solved coding problem that users share. Upvotes validate a trace, that is, mark it as
proven. Downvotes can flag it, that is, hide it from search. Each has a feedback tag as its reason.
The record of a contributor counts the votes on all of their traces. The votes of users with a good
record have more weight.
"""

import itertools
from typing import Any

import pytest

from shared.runtime.context import App
from shared.traces.trust import ContributorRecord
from tests.support.clock import NOON, SettableClock
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import read_votes
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_error, call_message, call_result
from tests.support.traces import (
    DOWN,
    SPAM,
    add_votes,
    contribute,
    make_sample_trace,
    search_trace_ids,
    vote,
)


@pytest.mark.requirement("002-F5", "002-M3")
async def test_result_has_the_trace_after_the_vote(app: App, clock: SettableClock) -> None:
    clock.now = NOON
    trace_id = await contribute(app)
    answer = await call(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert answer.result == {
        "trace_id": trace_id,
        "title": make_sample_trace(0)["title"],
        "tags": make_sample_trace(0)["tags"],
        "status": "pending",
        "trust": 0.12,
        "upvotes": 1,
        "downvotes": 0,
        "date": "2024-05-31",
        "vote": "up",
        "changed": True,
        "undo": {"tool": "vote_trace", "arguments": {"trace_id": trace_id, "vote_type": "none"}},
        "message": f"Vote recorded: upvote on trace {trace_id}.",
    }
    message = await call_message(app, "vote_trace", "carl", trace_id=trace_id, **DOWN)
    assert message == f"Vote recorded: downvote on trace {trace_id}."
    message = await call_message(app, "vote_trace", "carl", trace_id=trace_id, vote_type="none")
    assert message == f"Vote withdrawn from trace {trace_id}."


@pytest.mark.parametrize("ballot", [{**DOWN, "feedback_text": "No."}, {"vote_type": "none"}])
async def test_same_vote_changes_nothing(app: App, ballot: dict[str, Any]) -> None:
    trace_id = await contribute(app)
    result = await vote(app, trace_id, "ben", **ballot)
    traces_before = await read_app_documents(app, "traces")
    repeated = await call(app, "vote_trace", "ben", trace_id=trace_id, **ballot)
    del result["date"]
    expected = result | {"changed": False}
    if expected.pop("undo", None):
        expected["former"] = "down"
    assert repeated.result
    del repeated.result["date"]
    del expected["message"]
    assert "Nothing changed" in repeated.result.pop("message")
    assert repeated.result == expected
    assert repeated.receipt.documents_written == 0
    assert await read_app_documents(app, "traces") == traces_before


@pytest.mark.requirement("002-T3.1")
async def test_vote_can_be_changed(app: App) -> None:
    """Another feedback tag or text is another vote."""
    trace_id = await contribute(app)
    steps: list[tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = [
        ({"vote_type": "up"}, {"vote": "up", "upvotes": 1}, {"up": 1, "down": 0}),
        (DOWN, {"former": "up", "vote": "down", "downvotes": 1}, {"up": 0, "down": 1}),
        ({**DOWN, "feedback_text": "No."}, {"former": "down", "downvotes": 1}, {"down": 1}),
        (SPAM, {"former": "down", "downvotes": 1}, {"up": 0, "down": 1}),
        ({"vote_type": "none"}, {"former": "down", "trust": 0.0}, {"up": 0, "down": 0}),
    ]
    for ballot, expected, record in steps:
        result = await vote(app, trace_id, "ben", **ballot)
        facts = {"upvotes": 0, "downvotes": 0, "changed": True} | expected
        assert {name: result.get(name) for name in facts} == facts
        stored_record = (await read_app_documents(app, "contributors"))[ANNA]
        assert {name: stored_record.get(name, 0) for name in record} == record
    assert "vote" not in result
    assert "your_vote" not in await call_result(app, "get_trace", "ben", trace_id=trace_id)


async def test_every_change_of_a_vote_can_be_undone(app: App) -> None:
    trace_id = await contribute(app)
    fields = ("upvotes", "downvotes", "status", "feedback", "your_vote")
    first_votes: list[dict[str, Any]] = [
        {"vote_type": "none"},
        {"vote_type": "up", "feedback_text": "It works."},
        DOWN,
        {**SPAM, "feedback_text": "An advertisement."},
    ]
    second_votes: list[dict[str, Any]] = [{"vote_type": "none"}, {"vote_type": "up"}, DOWN, SPAM]
    for number, (first, second) in enumerate(itertools.product(first_votes, second_votes)):
        voter = f"voter{number}"
        await vote(app, trace_id, voter, **first)
        before = await call_result(app, "get_trace", voter, trace_id=trace_id)
        result = await vote(app, trace_id, voter, **second)
        if result["changed"]:
            undo = result["undo"]
            await call_result(app, undo["tool"], voter, **undo["arguments"])
        after = await call_result(app, "get_trace", voter, trace_id=trace_id)
        assert {name: after.get(name) for name in fields} == {
            name: before.get(name) for name in fields
        }


@pytest.mark.requirement("002-T3.1")
async def test_contributor_cannot_vote_on_their_own_trace(app: App) -> None:
    trace_id = await contribute(app)
    for arguments in ({"vote_type": "up"}, DOWN, {"vote_type": "none"}):
        error = await call_error(app, "vote_trace", ANNA, trace_id=trace_id, **arguments)
        assert error.code == "FORBIDDEN"
        assert "amend" in error.message
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert (trace["upvotes"], trace["downvotes"]) == (0, 0)


@pytest.mark.requirement("002-T3.3")
async def test_longest_feedback_is_stored(app: App) -> None:
    trace_id = await contribute(app)
    text = ("word " * 400)[:2_000]
    await vote(app, trace_id, "ben", **DOWN, feedback_text=text)
    [feedback] = (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"]
    assert feedback["feedback_text"] == text
    assert feedback["feedback_tag"] == "wrong"


async def test_weight_is_fixed_when_the_vote_is_given(app: App) -> None:
    """It follows the record of the voter, and does not validate a trace alone."""
    trace_id = await contribute(app)
    first_trust = (await vote(app, trace_id, "ben"))["trust"]
    trace_of_ben = await contribute(app, 1, "ben")
    await add_votes(app, trace_of_ben, 12)
    await vote(app, trace_of_ben, "voter0", **DOWN)
    repeated_result = await vote(app, trace_id, "ben")
    assert repeated_result["changed"] is False
    assert repeated_result["trust"] == first_trust

    assert (await vote(app, trace_id, "ben", vote_type="none"))["upvotes"] == 0
    assert (await vote(app, trace_id, "ben"))["status"] == "pending"
    await vote(app, trace_id, "carl")
    weights = {user: data["weight"] for user, data in (await read_votes(app, trace_id)).items()}
    assert weights == {
        "ben": ContributorRecord(up=11, down=1).weight,
        "carl": ContributorRecord().weight,
    }


async def test_flagged_trace_is_hidden_unless_included(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **SPAM)
    searches: list[dict[str, Any]] = [
        {"query": make_sample_trace(0)["title"]},
        {"tags": ["src-layout"]},
    ]
    for ballot, is_flagged in (
        ({"vote_type": "down", "feedback_tag": "security_concern"}, True),
        ({"vote_type": "none"}, False),
    ):
        result = await vote(app, trace_id, "carl", **ballot)
        assert result["status"] == ("flagged" if is_flagged else "pending")
        for search in searches:
            assert await search_trace_ids(app, **search) == ([] if is_flagged else [trace_id])
            assert await search_trace_ids(app, **search, include_flagged=True) == [trace_id]


@pytest.mark.requirement("002-T3.3")
async def test_reason_for_an_upvote_is_stored_but_not_shown(app: App) -> None:
    """Feedback is shown as a warning; praise must not displace it."""
    trace_id = await contribute(app)
    await vote(app, trace_id, "carl", **DOWN, feedback_text="Breaks on Windows.")
    await vote(app, trace_id, "ben", vote_type="up", feedback_text="Saved my day.")
    [feedback] = (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"]
    assert feedback["feedback_text"] == "Breaks on Windows."
    result = await vote(app, trace_id, "ben", vote_type="none")
    assert result["undo"]["arguments"] == {
        "trace_id": trace_id,
        "vote_type": "up",
        "feedback_text": "Saved my day.",
    }


@pytest.mark.requirement("002-T3.3")
async def test_blank_feedback_tag_counts_as_missing(app: App) -> None:
    trace_id = await contribute(app)
    for blank in ("", " "):
        arguments = {"trace_id": trace_id, "feedback_tag": blank, "feedback_text": ""}
        for vote_type in ("up", "none"):
            await call_result(app, "vote_trace", "ben", vote_type=vote_type, **arguments)
        error = await call_error(app, "vote_trace", "ben", vote_type="down", **arguments)
        assert set(error.details) == {"feedback_tag"}
