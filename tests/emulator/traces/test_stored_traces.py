"""Stored traces, the postings by which search finds them, and the sums of their votes.

Postings list the traces with a word or a tag. A tally is the sum of the votes on one trace. Both
must be exact after any sequence of calls.
"""

import asyncio
import random
import string
from typing import Any, Final

import pytest

from shared.firestore.database import WriteConflict
from shared.index.indexed_state import read_indexed_state
from shared.runtime.context import App, Context
from shared.traces.corpus import MAX_TERMS, build_indexed_state
from shared.traces.repository import Traces, to_trace
from shared.traces.trust import FeedbackTag
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import (
    assert_tallies_match_votes,
    assert_trace_postings_are_exact,
    read_votes,
)
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

WORDS: Final = ("rye", "oven", "sail", "anchor", "storm", "Ångström", "a_name", "熟成", "x")
TAGS: Final = ("food", "sea", "a.b", "..", "-", "0", "__x__", "x" * 60)
"""Tags, some of which Firestore would refuse as ids of documents."""
PEOPLE: Final = ("anna", "ben", "carl", "dora")
BALLOTS: Final[tuple[dict[str, Any], ...]] = (
    *({"vote_type": kind} for kind in ("up", "up", "none")),
    *({"vote_type": "down", "feedback_tag": tag} for tag in FeedbackTag),
    {"vote_type": "down", "feedback_tag": "wrong", "feedback_text": "It fails."},
)


class History:
    """Random calls on the traces of two contributors."""

    def __init__(self, app: App, seed: int) -> None:
        self.app = app
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.owners: dict[str, str] = {}

    async def make_event(self) -> None:
        count = self.rng.choice((1, 1, 1, 2, 3))
        await asyncio.gather(*(self._make_call() for _ in range(count)))

    async def _make_call(self) -> None:
        tools = ["contribute_trace", "amend_trace", "withdraw_trace", "vote_trace"]
        [tool] = self.rng.choices(tools, weights=[1, 3, 2, 4]) if self.owners else tools[:1]
        if tool == "contribute_trace":
            await self._contribute()
            return
        trace_id, owner = self.rng.choice(sorted(self.owners.items()))
        user, arguments = owner, self._make_arguments(tool)
        if tool == "vote_trace":
            user = self.rng.choice(PEOPLE)
        error_codes = {"NOT_FOUND", "CONFLICT", *(["FORBIDDEN"] if tool == "vote_trace" else [])}
        answer = await call(self.app, tool, user, trace_id=trace_id, **arguments)
        assert answer.error is None or answer.error.code in error_codes

    async def _contribute(self) -> None:
        """Contribute a trace that may supersede another."""
        user, arguments = self.rng.choice(PEOPLE[:2]), self._make_texts()
        if self.owners and self.rng.random() < 0.3:
            arguments["supersedes"] = self.rng.choice(sorted(self.owners))
        answer = await call(self.app, "contribute_trace", user, **arguments)
        assert answer.error is None or answer.error.code in {"NOT_FOUND", "CONFLICT"}
        if answer.result and not answer.result["duplicate"]:
            self.owners[answer.result["trace_id"]] = user

    def _make_arguments(self, tool: str) -> dict[str, Any]:
        if tool == "vote_trace":
            return self.rng.choice(BALLOTS)
        if tool == "withdraw_trace":
            return {"withdrawn": self.rng.random() < 0.5}
        if self.rng.random() < 0.3:
            return {"revision": self.rng.randint(1, 3)}
        texts = self._make_texts()
        names = self.rng.sample(sorted(texts), self.rng.randint(1, len(texts)))
        return {name: texts[name] for name in names}

    def _make_texts(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "title": " ".join(rng.choices(WORDS, k=3)),
            "context_text": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))),
            "solution_text": " ".join(
                [*rng.choices(WORDS, k=4), *rng.choices(string.ascii_lowercase, k=12)]
            ),
            "tags": rng.sample(TAGS, rng.randint(0, 4)),
        }


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
)
async def test_postings_and_tallies_are_exact_after_any_history(app: App, seed: int) -> None:
    history = History(app, seed)
    for _ in range(7):
        for _ in range(8):
            await history.make_event()
        await assert_trace_postings_are_exact(app)
        await assert_tallies_match_votes(app)


async def test_trace_of_stop_words_is_not_counted(app: App) -> None:
    trace_id = await contribute(
        app, title="the", context_text="and", solution_text="of it", tags=[]
    )
    await assert_trace_postings_are_exact(app)
    await call_result(app, "amend_trace", trace_id=trace_id, title="anchors")
    await assert_trace_postings_are_exact(app)


async def test_most_frequent_terms_of_a_long_text_are_indexed(app: App) -> None:
    words = [f"w{number}" for number in range(MAX_TERMS + 300)]
    trace_id = await contribute(app, solution_text=" ".join([*words, "anchor anchor"]))
    data = (await read_app_documents(app, "traces"))[trace_id]
    terms = data["indexed"]["terms"]
    assert len(terms) == MAX_TERMS
    assert terms["anchor"] == 2
    assert build_indexed_state(to_trace(trace_id, data)) == read_indexed_state(data)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    await assert_trace_postings_are_exact(app)


async def test_write_based_on_a_stale_read_is_refused(app: App, ctx: Context) -> None:
    trace_id = await contribute(app)
    traces = Traces(ctx.database)
    assert await traces.get("missing") is None
    assert await traces.get_revision(trace_id, 1) is None
    stored_trace = await traces.get(trace_id)
    assert stored_trace
    stored_vote = await traces.get_vote(trace_id, "ben")
    assert (stored_vote.vote, stored_vote.text, stored_vote.revision) == (None, None, 0)
    await vote(app, trace_id, "ben")
    later_vote = (await traces.get_vote(trace_id, "ben")).vote
    assert later_vote
    for write in (
        traces.build_tally_write(stored_trace, stored_trace.trace.tally),
        traces.build_update_writes(stored_trace, stored_trace.trace, None)[0],
        traces.build_vote_write(stored_vote, later_vote, None, 1, app.clock()),
    ):
        with pytest.raises(WriteConflict):
            await ctx.database.commit([write])


async def test_record_of_a_newer_version_is_read(ctx: Context) -> None:
    """After a rollback, documents have fields that this version does not know, or lack a count."""
    document = ctx.database.connection.client.document("contributors/ben")
    for fields in ({"up": 3, "down": 1, "since": "2027"}, {"down": 1}):
        await document.set(fields)
        record = await Traces(ctx.database).get_record("ben")
        assert (record.up, record.down) == (fields.get("up", 0), 1)


async def test_fifteen_concurrent_voters_are_all_counted(app: App) -> None:
    trace_ids = [await contribute(app, number, "anna") for number in range(2)]
    votes = [({"vote_type": "up"}, DOWN, SPAM)[number % 3] for number in range(15)]
    results = await asyncio.gather(
        *(
            vote(app, trace_id, f"voter{number}", **ballot)
            for trace_id in trace_ids
            for number, ballot in enumerate(votes)
        )
    )
    for trace_id in trace_ids:
        counts = [
            result["upvotes"] + result["downvotes"]
            for result in results
            if result["trace_id"] == trace_id
        ]
        assert sorted(counts) == list(range(1, 16))
        assert len(await read_votes(app, trace_id)) == 15
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 10, "down": 20}
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


async def test_upvotes_do_not_count_for_a_new_text(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    amendment = await call_result(
        app, "amend_trace", "anna", trace_id=trace_id, solution_text="Do the opposite."
    )
    assert amendment["status"] == "pending"
    trace = await call_result(app, "get_trace", "voter0", trace_id=trace_id)
    assert (trace["upvotes"], trace["downvotes"], trace["trust"]) == (0, 0, 0.0)
    assert "your_vote" not in trace
    repeated_vote = await vote(app, trace_id, "voter0")
    assert repeated_vote["changed"] is True
    assert repeated_vote["upvotes"] == 1
    assert "former" not in repeated_vote
    assert (await read_app_documents(app, "contributors"))["anna"] == {"up": 4}


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


async def test_changing_the_title_resets_upvotes(app: App) -> None:
    """The title is read first, and the votes were for another one. Tags keep the votes."""
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 4)
    changes = (({"tags": ["other"]}, "validated"), ({"title": "FIX: run this"}, "pending"))
    for change, status in changes:
        amendment = await call_result(app, "amend_trace", "anna", trace_id=trace_id, **change)
        assert amendment["status"] == status
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


async def test_concurrent_changes_and_votes_stay_exact(app: App) -> None:
    trace_id = await contribute(app, 0, "anna")
    await add_votes(app, trace_id, 6)
    amend_calls = (
        call(app, "amend_trace", "anna", trace_id=trace_id, solution_text=f"Try {number}.")
        for number in range(3)
    )
    votes = [
        call(app, "vote_trace", f"voter{number}", trace_id=trace_id, vote_type="up")
        for number in range(24)
    ]
    answers = await asyncio.gather(*votes[:12], *amend_calls)
    assert [answer.error for answer in answers] == [None] * 15
    assert (await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id))["revision"] == 4
    await assert_tallies_match_votes(app)

    withdrawal = call(app, "withdraw_trace", "anna", trace_id=trace_id)
    answers = await asyncio.gather(*votes[12:], withdrawal)
    assert {answer.error.code for answer in answers if answer.error} <= {"NOT_FOUND"}
    assert await search_trace_ids(app, query="Try") == []
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id, withdrawn=False)
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
