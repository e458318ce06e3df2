"""Tallies and records equal the votes after any sequence of calls.

A tally is the sum of the votes on one trace, and a record the sum of the votes on all traces of one
contributor.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Final

import pytest

from shared.runtime.context import App
from shared.traces.trust import ContributorRecord, FeedbackTag
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import assert_tallies_match_votes, read_votes
from tests.support.tool_calls import ANONYMOUS, call, call_result, call_text
from tests.support.traces import (
    DOWN,
    SPAM,
    add_votes,
    contribute,
    make_sample_trace,
    search_trace_ids,
    vote,
)

PEOPLE: Final = ("anna", "ben", "carl", "dora")
BALLOTS: Final[tuple[dict[str, Any], ...]] = (
    *({"vote_type": kind} for kind in ("up", "up", "none")),
    *({"vote_type": "down", "feedback_tag": tag} for tag in FeedbackTag),
    {"vote_type": "down", "feedback_tag": "wrong", "feedback_text": "It fails."},
)


class History:
    """Random calls on some traces, and the votes that must result.

    Attributes:
        owners: The contributors, by trace id.
        votes: The last vote of a user on a trace, by trace id and user.
        earlier: Trace ids and users whose vote was for an earlier text.
    """

    def __init__(self, app: App, seed: int) -> None:
        """Start with no traces."""
        self.app = app
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.owners: dict[str, str] = {}
        self.votes: dict[tuple[str, str], dict[str, Any]] = {}
        self.earlier: set[tuple[str, str]] = set()
        self.numbers = iter(range(1_000))

    async def begin(self) -> None:
        """Contribute two traces each of two users."""
        for number, user in enumerate(("anna", "ben", "anna", "ben")):
            self.owners[await contribute(self.app, number, user)] = user

    async def make_event(self) -> None:
        """Make one random call."""
        trace_id = self.rng.choice(sorted(self.owners))
        actions = [self.vote, self.amend_text, self.amend_tags, self.withdraw_and_restore]
        [action] = self.rng.choices(actions, weights=[12, 2, 1, 1])
        await action(trace_id)

    async def vote(self, trace_id: str) -> None:
        """Vote as a random user."""
        user, ballot = self.rng.choice(PEOPLE), self.rng.choice(BALLOTS)
        answer = await call(self.app, "vote_trace", user, trace_id=trace_id, **ballot)
        if self.owners[trace_id] == user:
            assert answer.error
            assert answer.error.code == "FORBIDDEN"
            return
        assert answer.result, answer.error
        previous_vote = self.votes.get((trace_id, user), {"vote_type": "none"})
        is_for_earlier_text = (trace_id, user) in self.earlier
        assert answer.result["changed"] == (previous_vote != ballot or is_for_earlier_text)
        self.votes[trace_id, user] = ballot
        self.earlier.discard((trace_id, user))

    async def amend_text(self, trace_id: str) -> None:
        """Change the solution: votes for the trace end, votes against it stay."""
        await self._amend(trace_id, solution_text=f"Try number {next(self.numbers)}.")
        counted_votes = {key for key, vote in self.votes.items() if vote["vote_type"] != "none"}
        self.earlier |= {key for key in counted_votes if key[0] == trace_id}
        for user in PEOPLE:
            if self.votes.get((trace_id, user), {}).get("vote_type") != "down":
                self.votes.pop((trace_id, user), None)

    async def amend_tags(self, trace_id: str) -> None:
        """Change the tags, which keeps all votes."""
        answer = await call_result(
            self.app,
            "amend_trace",
            self.owners[trace_id],
            trace_id=trace_id,
            tags=[f"number-{next(self.numbers)}"],
        )
        assert answer["changed"] == ["tags"]

    async def withdraw_and_restore(self, trace_id: str) -> None:
        """Withdraw and restore a trace."""
        for withdrawn in (True, False):
            await call_result(
                self.app,
                "withdraw_trace",
                self.owners[trace_id],
                trace_id=trace_id,
                withdrawn=withdrawn,
            )

    async def assert_visible_votes(self) -> None:
        """Compare the votes that `get_trace` shows with the expected ones."""
        for trace_id in self.owners:
            ballots = [self.votes.get((trace_id, user), {}) for user in PEOPLE]
            counts = Counter(ballot.get("vote_type", "none") for ballot in ballots)
            trace = await call_result(self.app, "get_trace", ANONYMOUS, trace_id=trace_id)
            assert counts["up"] == trace["upvotes"]
            assert counts["down"] == trace["downvotes"]

    async def _amend(self, trace_id: str, **fields: str) -> None:
        await call_result(
            self.app, "amend_trace", self.owners[trace_id], trace_id=trace_id, **fields
        )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_tallies_equal_the_votes_after_any_history(app: App, seed: int) -> None:
    history = History(app, seed)
    await history.begin()
    for _ in range(8):
        for _ in range(8):
            await history.make_event()
        await history.assert_visible_votes()
        await assert_tallies_match_votes(app)


async def test_vote_weight_follows_the_voters_record(app: App) -> None:
    trace_of_ben = await contribute(app, 1, "ben")
    await add_votes(app, trace_of_ben, 5)
    await vote(app, trace_of_ben, "voter0", **DOWN)
    trace_id = await contribute(app)
    await vote(app, trace_id, "ben")
    await vote(app, trace_id, "carl")
    weights = {user: data["weight"] for user, data in (await read_votes(app, trace_id)).items()}
    assert weights == {
        "ben": ContributorRecord(up=4, down=1).weight,
        "carl": ContributorRecord().weight,
    }


async def test_fifteen_concurrent_voters_are_all_counted(app: App) -> None:
    trace_id = await contribute(app)
    votes = [({"vote_type": "up"}, DOWN, SPAM)[number % 3] for number in range(15)]
    calls = (
        call(app, "vote_trace", f"voter{number}", trace_id=trace_id, **ballot)
        for number, ballot in enumerate(votes)
    )
    answers = await asyncio.gather(*calls)
    assert [answer.error for answer in answers] == [None] * 15
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert trace["upvotes"] == 5
    assert trace["downvotes"] == 10
    assert len(await read_votes(app, trace_id)) == 15
    results = [answer.result for answer in answers if answer.result]
    counts = [result["upvotes"] + result["downvotes"] for result in results]
    assert sorted(counts) == list(range(1, 16))
    await assert_tallies_match_votes(app)


async def test_concurrent_votes_of_one_user_count_once(app: App) -> None:
    trace_id = await contribute(app)
    votes = [({"vote_type": "up"}, DOWN, {"vote_type": "none"})[number % 3] for number in range(12)]
    answers = await asyncio.gather(
        *(call(app, "vote_trace", "ben", trace_id=trace_id, **arguments) for arguments in votes)
    )
    assert [answer.error for answer in answers] == [None] * 12
    assert len(await read_votes(app, trace_id)) <= 1
    await assert_tallies_match_votes(app)


async def test_concurrent_votes_keep_the_record_exact(app: App) -> None:
    trace_ids = [await contribute(app, number, "anna") for number in range(4)]
    await asyncio.gather(
        *(
            vote(app, trace_id, f"voter{number}", **({} if number % 2 else DOWN))
            for trace_id in trace_ids
            for number in range(6)
        )
    )
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 12, "down": 12}
    await assert_tallies_match_votes(app)


async def test_upvotes_do_not_count_for_a_new_text(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    amendment = await call_result(
        app, "amend_trace", "anna", trace_id=trace_id, solution_text="Do the opposite."
    )
    assert amendment["status"] == "pending"
    trace = await call_result(app, "get_trace", "voter0", trace_id=trace_id)
    assert trace["upvotes"] == 0
    assert trace["downvotes"] == 0
    assert trace["trust"] == 0.0
    assert "your_vote" not in trace
    repeated_vote = await vote(app, trace_id, "voter0")
    assert repeated_vote["changed"] is True
    assert repeated_vote["upvotes"] == 1
    assert "former" not in repeated_vote
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 4}
    await assert_tallies_match_votes(app)


async def test_downvotes_survive_changes_of_text(app: App) -> None:
    """Trivial edits do not clear a warning."""
    trace_id = await contribute(app, 0, "anna")
    for number, user in enumerate(("ben", "carl")):
        await vote(app, trace_id, user, **SPAM, feedback_text="It sells something.")
        text = f"Buy this.{'.' * number}"
        await call_result(app, "amend_trace", "anna", trace_id=trace_id, solution_text=text)
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert trace["status"] == "flagged"
    assert trace["downvotes"] == 2
    assert [feedback["earlier"] for feedback in trace["feedback"]] == [True, True]
    assert "on an earlier text" in await call_text(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    changed_vote = await vote(app, trace_id, "ben")
    assert changed_vote["former"] == "down"
    assert changed_vote["status"] == "pending"
    assert changed_vote["downvotes"] == 1
    await assert_tallies_match_votes(app)


async def test_changing_the_tags_keeps_the_votes(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    amendment = await call_result(app, "amend_trace", "anna", trace_id=trace_id, tags=["other"])
    assert amendment["status"] == "validated"
    await assert_tallies_match_votes(app)


async def test_changing_the_title_resets_upvotes(app: App) -> None:
    """The title is read first, and the votes were for another one."""
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    amendment = await call_result(
        app, "amend_trace", "anna", trace_id=trace_id, title="FIX: run this"
    )
    assert amendment["status"] == "pending"
    await assert_tallies_match_votes(app)


async def test_restored_revision_has_no_upvotes(app: App) -> None:
    """Voters for that revision may have changed their minds since."""
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    for new_fields in ({"solution_text": "Another."}, {"revision": 1}):
        await call_result(app, "amend_trace", "anna", trace_id=trace_id, **new_fields)
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert trace["upvotes"] == 0
    assert trace["status"] == "pending"
    assert trace["solution_text"] == make_sample_trace(0)["solution_text"]
    await assert_tallies_match_votes(app)


async def test_concurrent_amendments_and_votes_stay_exact(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 6)
    amend_calls = (
        call(app, "amend_trace", "anna", trace_id=trace_id, solution_text=f"Try {number}.")
        for number in range(3)
    )
    vote_calls = (
        call(app, "vote_trace", f"voter{number}", trace_id=trace_id, vote_type="up")
        for number in range(12)
    )
    answers = await asyncio.gather(*vote_calls, *amend_calls)
    assert [answer.error for answer in answers] == [None] * 15
    assert (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["revision"] == 4
    await assert_tallies_match_votes(app)


async def test_concurrent_withdrawal_and_votes_stay_exact(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    answers = await asyncio.gather(
        *(
            call(app, "vote_trace", f"voter{number}", trace_id=trace_id, vote_type="up")
            for number in range(8)
        ),
        call(app, "withdraw_trace", "anna", trace_id=trace_id),
    )
    error_codes = {answer.error.code for answer in answers if answer.error}
    assert error_codes <= {"NOT_FOUND"}
    assert await search_trace_ids(app, query=make_sample_trace(0)["title"]) == []
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
    accepted_votes = sum(answer.error is None for answer in answers[:8])
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert accepted_votes == trace["upvotes"]
    await assert_tallies_match_votes(app)


async def test_vote_on_an_earlier_text_can_be_changed(app: App) -> None:
    """A voter can withdraw the credit for an earlier text, and renew a warning."""
    trace_id = await contribute(app, 0, "anna")
    await vote(app, trace_id, "ben")
    await vote(app, trace_id, "carl", **DOWN, feedback_text="It fails.")
    await call_result(app, "amend_trace", "anna", trace_id=trace_id, solution_text="Another.")
    assert (await vote(app, trace_id, "ben", vote_type="none"))["changed"]
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 0, "down": 1}
    await vote(app, trace_id, "carl", **DOWN, feedback_text="It fails.")
    [feedback] = (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["feedback"]
    assert not feedback["earlier"]
    await assert_tallies_match_votes(app)
