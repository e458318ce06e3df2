"""`vote_trace`: one vote of each user on each trace, and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_calls import ANNA, STRANGER, call, call_error, call_result, call_text
from tests.support.traces import DOWN, SPAM, contribute, found, sample, stored, vote, votes

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def standing(app: App, trace_id: str) -> tuple[int, int, str]:
    """Votes for it, votes against it, and what it is taken for."""
    read = await call_result(app, "get_trace", STRANGER, trace_id=trace_id)
    return read["upvotes"], read["downvotes"], read["status"]


async def record(app: App, user: str) -> dict[str, int]:
    """How what a user contributed has fared."""
    kept = (await stored(app, "contributors")).get(user, {})
    return {"up": 0, "down": 0} | kept


async def test_a_vote_answers_with_what_the_trace_is_taken_for_now(app: App) -> None:
    trace_id = await contribute(app)
    result = await vote(app, trace_id, "ben")
    assert {
        "trace_id": trace_id,
        "title": sample(0)["title"],
        "tags": sample(0)["tags"],
        "status": "pending",
        "trust": 0.12,
        "upvotes": 1,
        "downvotes": 0,
        "vote": "up",
        "changed": True,
        "undo": {"tool": "vote_trace", "arguments": {"trace_id": trace_id, "vote_type": "none"}},
    } == {name: value for name, value in result.items() if name != "date"}


async def test_a_vote_is_confirmed_in_words(app: App) -> None:
    trace_id = await contribute(app)
    text = await call_text(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert text.startswith(f"Vote recorded: upvote on trace {trace_id}.")
    text = await call_text(app, "vote_trace", "carl", trace_id=trace_id, **DOWN)
    assert text.startswith(f"Vote recorded: downvote on trace {trace_id}.")
    assert "1 up and 1 down" in text
    text = await call_text(app, "vote_trace", "carl", trace_id=trace_id, vote_type="none")
    assert trace_id in text
    assert "downvote" not in text


async def test_the_same_vote_again_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="No.")
    before = await stored(app, "traces")
    again = await call(app, "vote_trace", "ben", trace_id=trace_id, **DOWN, feedback_text="No.")
    assert again.result
    assert (False, "down", "down", 1) == (
        again.result["changed"],
        again.result["vote"],
        again.result["former"],
        again.result["downvotes"],
    )
    assert "undo" not in again.result
    assert 0 == again.receipt.documents_written
    assert "Nothing changed" in str(again.text)
    assert before == await stored(app, "traces")


async def test_a_vote_changes(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben")
    changed = await vote(app, trace_id, "ben", **DOWN)
    assert ("up", "down", 0, 1) == (
        changed["former"],
        changed["vote"],
        changed["upvotes"],
        changed["downvotes"],
    )
    assert (0, 1, "pending") == await standing(app, trace_id)
    assert {"up": 0, "down": 1} == await record(app, ANNA)


async def test_another_reason_is_another_vote(app: App) -> None:
    trace_id = await contribute(app)
    for user in ("ben", "carl"):
        await vote(app, trace_id, user, **DOWN)
    assert (0, 2, "pending") == await standing(app, trace_id)
    for user in ("ben", "carl"):
        assert (await vote(app, trace_id, user, **SPAM))["changed"]
    assert (0, 2, "flagged") == await standing(app, trace_id)


async def test_a_vote_is_taken_back(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben")
    result = await vote(app, trace_id, "ben", vote_type="none")
    assert ("up", True, 0.0) == (result["former"], result["changed"], result["trust"])
    assert "vote" not in result
    assert (0, 0, "pending") == await standing(app, trace_id)
    assert {"up": 0, "down": 0} == await record(app, ANNA)
    again = await vote(app, trace_id, "ben", vote_type="none")
    assert not again["changed"]
    assert "your_vote" not in await call_result(app, "get_trace", "ben", trace_id=trace_id)


@pytest.mark.parametrize(
    "before",
    [
        {"vote_type": "none"},
        {"vote_type": "up"},
        DOWN,
        {**SPAM, "feedback_text": "An advertisement."},
    ],
    ids=["none", "up", "down", "spam"],
)
@pytest.mark.parametrize("after", [{"vote_type": "none"}, {"vote_type": "up"}, DOWN, SPAM])
async def test_every_change_of_a_vote_can_be_undone(
    app: App, before: dict[str, Any], after: dict[str, Any]
) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **before)
    fields = ("upvotes", "downvotes", "status", "feedback", "your_vote")
    was = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    done = await vote(app, trace_id, "ben", **after)
    if done["changed"]:
        await call_result(app, done["undo"]["tool"], "ben", **done["undo"]["arguments"])
    now = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    assert [was.get(name) for name in fields] == [now.get(name) for name in fields]


async def test_nobody_votes_on_their_own(app: App) -> None:
    trace_id = await contribute(app)
    for how in ({"vote_type": "up"}, DOWN, {"vote_type": "none"}):
        error = await call_error(app, "vote_trace", ANNA, trace_id=trace_id, **how)
        assert "FORBIDDEN" == error.code
        assert "amend" in error.message
    assert (0, 0, "pending") == await standing(app, trace_id)


async def test_a_vote_against_needs_a_reason(app: App) -> None:
    trace_id = await contribute(app)
    error = await call_error(app, "vote_trace", "ben", trace_id=trace_id, vote_type="down")
    assert ("VALIDATION_ERROR", {"feedback_tag"}) == (error.code, set(error.details))
    for tag in ("outdated", "wrong", "security_concern", "spam"):
        assert tag in error.message


@pytest.mark.parametrize("vote_type", ["up", "none"])
async def test_a_vote_for_it_has_no_reason_against_it(app: App, vote_type: str) -> None:
    trace_id = await contribute(app)
    error = await call_error(
        app, "vote_trace", "ben", trace_id=trace_id, vote_type=vote_type, feedback_tag="wrong"
    )
    assert ("VALIDATION_ERROR", {"feedback_tag"}) == (error.code, set(error.details))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"vote_type": "sideways"}, "vote_type"),
        ({"vote_type": "UP!"}, "vote_type"),
        ({"vote_type": 1}, "vote_type"),
        ({"vote_type": None}, "vote_type"),
        ({**DOWN, "feedback_tag": "ugly"}, "feedback_tag"),
        ({**DOWN, "feedback_text": "x" * 2_001}, "feedback_text"),
        ({**DOWN, "feedback_text": 5}, "feedback_text"),
        ({"vote_type": "up", "trace_id": "a/b"}, "trace_id"),
        ({"vote_type": "up", "weight": 90}, "weight"),
        ({"vote_type": "up", "user_id": "carl"}, "user_id"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(
    app: App, invalid: dict[str, Any], field: str
) -> None:
    trace_id = await contribute(app)
    error = await call_error(app, "vote_trace", "ben", **({"trace_id": trace_id} | invalid))
    assert ("VALIDATION_ERROR", True) == (error.code, field in error.details)
    assert (0, 0, "pending") == await standing(app, trace_id)


async def test_feedback_of_two_thousand_characters_is_kept(app: App) -> None:
    trace_id = await contribute(app)
    text = ("word " * 400)[:2_000]
    await vote(app, trace_id, "ben", **DOWN, feedback_text=text)
    [feedback] = (await call_result(app, "get_trace", STRANGER, trace_id=trace_id))["feedback"]
    assert (text, "wrong") == (feedback["feedback_text"], feedback["feedback_tag"])


async def test_feedback_without_a_word_is_none(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text=" \n\t")
    assert [] == (await call_result(app, "get_trace", STRANGER, trace_id=trace_id))["feedback"]


async def test_words_alone_can_be_changed(app: App) -> None:
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="First.")
    changed = await vote(app, trace_id, "ben", **DOWN, feedback_text="Second.")
    assert (True, 1) == (changed["changed"], changed["downvotes"])
    [feedback] = (await call_result(app, "get_trace", STRANGER, trace_id=trace_id))["feedback"]
    assert "Second." == feedback["feedback_text"]


@pytest.mark.parametrize("trace_id", ["0123456789abcdef", "missing"])
async def test_one_cannot_vote_on_what_does_not_exist(app: App, trace_id: str) -> None:
    error = await call_error(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert "NOT_FOUND" == error.code
    assert "search_traces" in error.message


async def test_one_cannot_vote_on_what_was_withdrawn(app: App) -> None:
    trace_id = await contribute(app)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    error = await call_error(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    assert "NOT_FOUND" == error.code


async def test_one_vote_validates_nothing(app: App) -> None:
    """Not even that of somebody whose own traces everybody likes."""
    loved = await contribute(app, 1, "ben")
    await votes(app, loved, 12)
    trace_id = await contribute(app)
    assert "pending" == (await vote(app, trace_id, "ben"))["status"]


async def test_a_voter_of_good_record_counts_for_more(app: App) -> None:
    loved = await contribute(app, 1, "ben")
    await votes(app, loved, 12)
    by_ben, by_newcomer = await contribute(app, 2), await contribute(app, 3)
    trusted = (await vote(app, by_ben, "ben"))["trust"]
    assert trusted > (await vote(app, by_newcomer, "newcomer"))["trust"]


async def test_a_weight_is_that_of_when_the_vote_was_given(app: App) -> None:
    trace_id = await contribute(app)
    before = (await vote(app, trace_id, "ben"))["trust"]
    loved = await contribute(app, 1, "ben")
    await votes(app, loved, 12)
    again = await vote(app, trace_id, "ben")
    assert (False, before) == (again["changed"], again["trust"])
    await vote(app, trace_id, "ben", vote_type="none")
    assert (await vote(app, trace_id, "ben"))["trust"] > before
    await vote(app, trace_id, "ben", vote_type="none")
    assert (0, 0, "pending") == await standing(app, trace_id)


async def test_it_is_validated_by_enough_votes_and_not_for_ever(app: App) -> None:
    trace_id = await contribute(app)
    statuses = [(await vote(app, trace_id, f"friend{each}"))["status"] for each in range(4)]
    assert ["pending", "pending", "pending", "validated"] == statuses
    await votes(app, trace_id, 2, "foe", **DOWN)
    assert (4, 2, "pending") == await standing(app, trace_id)


async def test_a_flagged_trace_is_hidden_unless_it_is_asked_for(app: App) -> None:
    trace_id = await contribute(app)
    asked: list[dict[str, Any]] = [{"query": sample(0)["title"]}, {"tags": ["src-layout"]}]
    await vote(app, trace_id, "ben", **SPAM)
    assert [[trace_id]] * 2 == [await found(app, **each) for each in asked]
    await vote(app, trace_id, "carl", vote_type="down", feedback_tag="security_concern")
    assert [[]] * 2 == [await found(app, **each) for each in asked]
    assert [[trace_id]] * 2 == [await found(app, **each, include_flagged=True) for each in asked]
    await vote(app, trace_id, "carl", vote_type="none")
    assert [[trace_id]] * 2 == [await found(app, **each) for each in asked]


async def test_a_vote_takes_two_round_trips(app: App) -> None:
    trace_id = await contribute(app)
    answer = await call(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up")
    # Read: the trace, the vote, the voter's record. Written: trace, vote, the contributor's
    # record, the answer.
    assert (2, 3, 4) == (
        answer.receipt.round_trips,
        answer.receipt.documents_read,
        answer.receipt.documents_written,
    )


async def test_the_same_key_votes_once(app: App) -> None:
    trace_id = await contribute(app)
    asked: dict[str, Any] = {"trace_id": trace_id, "vote_type": "up", "idempotency_key": "k"}
    await call_result(app, "vote_trace", "ben", **asked)
    await vote(app, trace_id, "ben", vote_type="none")
    again = await call(app, "vote_trace", "ben", **asked)
    assert again.receipt.replayed
    assert (0, 0, "pending") == await standing(app, trace_id)
    await call_result(app, "vote_trace", "carl", **asked)
    assert (1, 0, "pending") == await standing(app, trace_id)


@pytest.mark.parametrize("vote_type", ["up", "none"])
async def test_words_stand_beside_a_vote_against_it_alone(app: App, vote_type: str) -> None:
    """Nobody would read them elsewhere, and praise must not crowd out warnings."""
    trace_id = await contribute(app)
    error = await call_error(
        app, "vote_trace", "ben", trace_id=trace_id, vote_type=vote_type, feedback_text="Nice."
    )
    assert {"feedback_text": "only when vote_type is down"} == error.details
