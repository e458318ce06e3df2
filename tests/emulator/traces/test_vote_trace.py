"""`vote_trace` stores, changes or withdraws the one vote of a user on a trace.

A trace is a solved coding problem that users share. Upvotes validate a trace, that is, mark it as
proven. Downvotes can flag it, that is, hide it from search. Each has a feedback tag as its reason.
The record of a contributor counts the votes on all of their traces. The votes of users with a good
record have more weight.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_error, call_result, call_text
from tests.support.traces import (
    DOWN,
    SPAM,
    add_votes,
    contribute,
    make_sample_trace,
    search_trace_ids,
    vote,
)


async def assert_votes(
    app: App, trace_id: str, *, up: int = 0, down: int = 0, status: str = "pending"
) -> None:
    """Assert that a trace has this number of votes, and this status."""
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert trace["upvotes"] == up
    assert trace["downvotes"] == down
    assert trace["status"] == status


async def read_record(app: App, user: str) -> dict[str, int]:
    """Return the stored record of a contributor."""
    stored_record = (await read_app_documents(app, "contributors")).get(user, {})
    return {"up": 0, "down": 0} | stored_record


async def test_result_has_the_trace_after_the_vote(app: App) -> None:
    trace_id = await contribute(app)
    result = await vote(app, trace_id, "ben")
    del result["date"]
    assert result == {
        "trace_id": trace_id,
        "title": make_sample_trace(0)["title"],
        "tags": make_sample_trace(0)["tags"],
        "status": "pending",
        "trust": 0.12,
        "upvotes": 1,
        "downvotes": 0,
        "vote": "up",
        "changed": True,
        "undo": {"tool": "vote_trace", "arguments": {"trace_id": trace_id, "vote_type": "none"}},
    }


@pytest.mark.requirement("002-F5", "002-M3")
async def test_text_confirms_the_vote(app: App) -> None:
    trace_id = await contribute(app)
    text = await call_text(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert text.startswith(f"Vote recorded: upvote on trace {trace_id}.")
    text = await call_text(app, "vote_trace", "carl", trace_id=trace_id, **DOWN)
    assert text.startswith(f"Vote recorded: downvote on trace {trace_id}.")
    assert "1 up and 1 down" in text
    text = await call_text(app, "vote_trace", "carl", trace_id=trace_id, vote_type="none")
    assert trace_id in text
    assert "downvote" not in text


async def test_same_vote_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="No.")
    traces_before = await read_app_documents(app, "traces")
    repeated_answer = await call(
        app, "vote_trace", "ben", trace_id=trace_id, **DOWN, feedback_text="No."
    )
    assert repeated_answer.result
    assert repeated_answer.result["changed"] is False
    assert repeated_answer.result["vote"] == "down"
    assert repeated_answer.result["former"] == "down"
    assert repeated_answer.result["downvotes"] == 1
    assert "undo" not in repeated_answer.result
    assert repeated_answer.receipt.documents_written == 0
    assert "Nothing changed" in str(repeated_answer.text)
    assert await read_app_documents(app, "traces") == traces_before


@pytest.mark.requirement("002-T3.1")
async def test_vote_can_be_changed(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben")
    result = await vote(app, trace_id, "ben", **DOWN)
    assert result["former"] == "up"
    assert result["vote"] == "down"
    assert result["upvotes"] == 0
    assert result["downvotes"] == 1
    await assert_votes(app, trace_id, down=1)
    assert await read_record(app, ANNA) == {"up": 0, "down": 1}


async def test_another_feedback_tag_is_another_vote(app: App) -> None:
    trace_id = await contribute(app)
    for user in ("ben", "carl"):
        await vote(app, trace_id, user, **DOWN)
    await assert_votes(app, trace_id, down=2)
    for user in ("ben", "carl"):
        assert (await vote(app, trace_id, user, **SPAM))["changed"]
    await assert_votes(app, trace_id, down=2, status="flagged")


@pytest.mark.requirement("002-T3.1")
async def test_vote_can_be_withdrawn(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben")
    result = await vote(app, trace_id, "ben", vote_type="none")
    assert result["former"] == "up"
    assert result["changed"] is True
    assert result["trust"] == 0.0
    assert "vote" not in result
    await assert_votes(app, trace_id, up=0, down=0)
    assert await read_record(app, ANNA) == {"up": 0, "down": 0}
    repeated_result = await vote(app, trace_id, "ben", vote_type="none")
    assert not repeated_result["changed"]
    assert "your_vote" not in await call_result(app, "get_trace", "ben", trace_id=trace_id)


@pytest.mark.parametrize(
    "first_vote",
    [
        {"vote_type": "none"},
        {"vote_type": "up", "feedback_text": "It works."},
        DOWN,
        {**SPAM, "feedback_text": "An advertisement."},
    ],
    ids=["none", "up", "down", "spam"],
)
@pytest.mark.parametrize("second_vote", [{"vote_type": "none"}, {"vote_type": "up"}, DOWN, SPAM])
async def test_every_change_of_a_vote_can_be_undone(
    app: App, first_vote: dict[str, Any], second_vote: dict[str, Any]
) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **first_vote)
    fields = ("upvotes", "downvotes", "status", "feedback", "your_vote")
    trace_before = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    result = await vote(app, trace_id, "ben", **second_vote)
    if result["changed"]:
        await call_result(app, result["undo"]["tool"], "ben", **result["undo"]["arguments"])
    trace_after = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    for name in fields:
        assert trace_after.get(name) == trace_before.get(name), name


@pytest.mark.requirement("002-T3.1")
async def test_contributor_cannot_vote_on_their_own_trace(app: App) -> None:
    trace_id = await contribute(app)
    for arguments in ({"vote_type": "up"}, DOWN, {"vote_type": "none"}):
        error = await call_error(app, "vote_trace", ANNA, trace_id=trace_id, **arguments)
        assert error.code == "FORBIDDEN"
        assert "amend" in error.message
    await assert_votes(app, trace_id, up=0, down=0)


@pytest.mark.requirement("002-T3.3")
async def test_longest_feedback_is_stored(app: App) -> None:
    trace_id = await contribute(app)
    text = ("word " * 400)[:2_000]
    await vote(app, trace_id, "ben", **DOWN, feedback_text=text)
    [feedback] = (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"]
    assert feedback["feedback_text"] == text
    assert feedback["feedback_tag"] == "wrong"


async def test_blank_feedback_is_dropped(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text=" \n\t")
    assert (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"] == []


async def test_feedback_text_alone_can_be_changed(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="First.")
    result = await vote(app, trace_id, "ben", **DOWN, feedback_text="Second.")
    assert result["changed"] is True
    assert result["downvotes"] == 1
    [feedback] = (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"]
    assert feedback["feedback_text"] == "Second."


async def test_withdrawn_trace_is_not_found(app: App) -> None:
    trace_id = await contribute(app)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    error = await call_error(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert error.code == "NOT_FOUND"


async def test_one_vote_does_not_validate_a_trace(app: App) -> None:
    """Not even the vote of a contributor with a perfect record."""
    popular = await contribute(app, 1, "ben")
    await add_votes(app, popular, 12)
    trace_id = await contribute(app)
    assert (await vote(app, trace_id, "ben"))["status"] == "pending"


async def test_vote_of_a_good_record_weighs_more(app: App) -> None:
    popular = await contribute(app, 1, "ben")
    await add_votes(app, popular, 12)
    id_for_ben, id_for_newcomer = await contribute(app, 2), await contribute(app, 3)
    trust_after_ben = (await vote(app, id_for_ben, "ben"))["trust"]
    assert trust_after_ben > (await vote(app, id_for_newcomer, "newcomer"))["trust"]


async def test_weight_is_fixed_when_the_vote_is_given(app: App) -> None:
    trace_id = await contribute(app)
    first_trust = (await vote(app, trace_id, "ben"))["trust"]
    popular = await contribute(app, 1, "ben")
    await add_votes(app, popular, 12)
    repeated_result = await vote(app, trace_id, "ben")
    assert repeated_result["changed"] is False
    assert repeated_result["trust"] == first_trust

    await vote(app, trace_id, "ben", vote_type="none")
    assert (await vote(app, trace_id, "ben"))["trust"] > first_trust
    await vote(app, trace_id, "ben", vote_type="none")
    await assert_votes(app, trace_id, up=0, down=0)


async def test_votes_validate_a_trace_and_revoke_it(app: App) -> None:
    trace_id = await contribute(app)
    statuses = [(await vote(app, trace_id, f"friend{number}"))["status"] for number in range(4)]
    assert statuses == ["pending", "pending", "pending", "validated"]
    await add_votes(app, trace_id, 2, "foe", **DOWN)
    await assert_votes(app, trace_id, up=4, down=2)


@pytest.mark.parametrize(
    "search", [{"query": make_sample_trace(0)["title"]}, {"tags": ["src-layout"]}]
)
async def test_flagged_trace_is_hidden_unless_included(app: App, search: dict[str, Any]) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **SPAM)
    assert await search_trace_ids(app, **search) == [trace_id]

    await vote(app, trace_id, "carl", vote_type="down", feedback_tag="security_concern")
    assert await search_trace_ids(app, **search) == []
    assert await search_trace_ids(app, **search, include_flagged=True) == [trace_id]

    await vote(app, trace_id, "carl", vote_type="none")
    assert await search_trace_ids(app, **search) == [trace_id]


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


async def test_upvote_after_a_downvote_hides_the_feedback(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="No.")
    await vote(app, trace_id, "ben", vote_type="up", feedback_text="It was my mistake.")
    assert (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"] == []


@pytest.mark.requirement("002-T3.3")
@pytest.mark.parametrize("blank", ["", " "])
async def test_blank_feedback_tag_counts_as_missing(app: App, blank: str) -> None:
    trace_id = await contribute(app)
    arguments = {"trace_id": trace_id, "feedback_tag": blank, "feedback_text": ""}
    for vote_type in ("up", "none"):
        await call_result(app, "vote_trace", "ben", vote_type=vote_type, **arguments)
    error = await call_error(app, "vote_trace", "ben", vote_type="down", **arguments)
    assert set(error.details) == {"feedback_tag"}
