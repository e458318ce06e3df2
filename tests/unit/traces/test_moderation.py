"""Votes and age reorder traces (shared solutions of coding problems) of similar relevance only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.traces.model import Trace, TraceContent
from shared.traces.moderation import (
    MAX_AGE_PENALTY,
    MAX_FACTOR,
    MIN_FACTOR,
    compute_factor,
    moderate_scores,
)
from shared.traces.trust import FeedbackTag, Vote, VoteTally, VoteType

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
TRACE = Trace(
    trace_id="t",
    content=TraceContent(title="A", context_text="b", solution_text="c"),
    contributor="anna",
    created_at=NOON,
    updated_at=NOON,
)
# Nine votes of newcomers; weights are in hundredths of a vote.
POPULAR_TALLY = VoteTally(upvotes=9, up=450)
UNPOPULAR_TALLY = VoteTally(downvotes=9, down=450)

WEIGHT_SUMS = st.integers(0, 10_000)
TALLIES = st.builds(VoteTally, up=WEIGHT_SUMS, down=WEIGHT_SUMS, alarm=st.just(0))


def test_new_trace_without_votes_has_factor_one() -> None:
    assert compute_factor(TRACE, NOON) == 1


def test_votes_change_the_factor_both_ways() -> None:
    popular_trace = replace(TRACE, tally=POPULAR_TALLY)
    unpopular_trace = replace(TRACE, tally=UNPOPULAR_TALLY)
    assert compute_factor(unpopular_trace, NOON) < 1 < compute_factor(popular_trace, NOON)


def test_a_trace_of_two_years_has_half_of_the_age_penalty() -> None:
    two_years_later = NOON + timedelta(days=2 * 365.25)
    assert compute_factor(TRACE, two_years_later) == pytest.approx(1 - MAX_AGE_PENALTY / 2)


def test_a_trace_from_the_future_counts_as_new() -> None:
    assert compute_factor(TRACE, NOON - timedelta(days=1)) == 1


@given(TALLIES, st.timedeltas(timedelta(0), timedelta(days=36_500)))
def test_factor_is_bounded(tally: VoteTally, age: timedelta) -> None:
    assert MIN_FACTOR <= compute_factor(replace(TRACE, tally=tally), NOON + age) <= MAX_FACTOR


def test_clearly_more_relevant_trace_ranks_first() -> None:
    # Ten million votes, far more than any trace gets.
    unpopular_trace = replace(TRACE, tally=VoteTally(down=10**9, downvotes=10**7))
    popular_trace = replace(TRACE, tally=VoteTally(up=10**9, upvotes=10**7))
    century_later = NOON + timedelta(days=36_500)
    score_of_relevant = 0.68 * compute_factor(unpopular_trace, century_later)
    score_of_less_relevant = 0.5 * compute_factor(popular_trace, NOON)
    assert score_of_relevant > score_of_less_relevant


def test_spam_vote_lowers_the_factor() -> None:
    tally = VoteTally().plus(Vote(VoteType.DOWN, FeedbackTag.SPAM, 50))
    assert compute_factor(replace(TRACE, tally=tally), NOON) < 1


@dataclass(frozen=True)
class StubHit:
    """A search hit with a given score."""

    id: str
    score: float
    similarity: float | None


def find_best_hit(*hits: StubHit, popular_id: str) -> str:
    """Return the id of the hit that ranks first, if one trace is popular and the others are not."""
    traces = {
        hit.id: replace(TRACE, tally=POPULAR_TALLY if hit.id == popular_id else UNPOPULAR_TALLY)
        for hit in hits
    }
    scores = moderate_scores(hits, traces, NOON)
    return max(scores, key=scores.__getitem__)


def test_votes_decide_between_similar_hits() -> None:
    assert find_best_hit(StubHit("a", 1, 0.60), StubHit("b", 0, 0.59), popular_id="b") == "b"


def test_votes_do_not_decide_between_different_hits() -> None:
    assert find_best_hit(StubHit("a", 1, 0.60), StubHit("b", 0, 0.30), popular_id="b") == "a"


def test_lexical_hits_are_moderated_by_score() -> None:
    assert find_best_hit(StubHit("a", 5.0, None), StubHit("b", 4.9, None), popular_id="b") == "b"
    assert find_best_hit(StubHit("a", 5.0, None), StubHit("b", 3.0, None), popular_id="b") == "a"


def test_a_hit_without_a_trace_counts_for_the_spread_only() -> None:
    hits = [StubHit("a", 1, 0.60), StubHit("b", 0.9, 0.59), StubHit("hidden", 0, 0.0)]
    assert moderate_scores(hits, {"a": TRACE, "b": TRACE}, NOON) == {"a": 1.0, "b": 0.9}
