"""Votes and age reorder traces (shared solutions of coding problems) of similar relevance only."""

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


def test_votes_change_the_factor_both_ways() -> None:
    tallies = {"popular": POPULAR_TALLY, "unpopular": UNPOPULAR_TALLY}
    tallies["spam"] = VoteTally().plus(Vote(VoteType.DOWN, FeedbackTag.SPAM, 50))
    factors = {
        name: compute_factor(replace(TRACE, tally=tally), NOON) for name, tally in tallies.items()
    }
    assert compute_factor(TRACE, NOON) == 1
    assert factors["unpopular"] < 1 < factors["popular"]
    assert factors["spam"] < 1


@pytest.mark.parametrize(("days", "penalty"), [(2 * 365.25, MAX_AGE_PENALTY / 2), (-1, 0)])
def test_a_trace_of_two_years_has_half_of_the_age_penalty(days: float, penalty: float) -> None:
    assert compute_factor(TRACE, NOON + timedelta(days=days)) == pytest.approx(1 - penalty)


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


@dataclass(frozen=True)
class StubHit:
    id: str
    score: float
    similarity: float | None


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        ((1, 0.60), (0, 0.59), "b"),
        ((1, 0.60), (0, 0.30), "a"),
        # Lexical hits are moderated by score.
        ((5.0, None), (4.9, None), "b"),
        ((5.0, None), (3.0, None), "a"),
    ],
)
def test_votes_decide_between_similar_hits_only(
    first: tuple[float, float | None], second: tuple[float, float | None], best: str
) -> None:
    hits = [StubHit("a", *first), StubHit("b", *second)]
    traces = {
        "a": replace(TRACE, tally=UNPOPULAR_TALLY),
        "b": replace(TRACE, tally=POPULAR_TALLY),
    }
    scores = moderate_scores(hits, traces, NOON)
    assert max(scores, key=scores.__getitem__) == best


def test_a_hit_without_a_trace_counts_for_the_spread_only() -> None:
    hits = [StubHit("a", 1, 0.60), StubHit("b", 0.9, 0.59), StubHit("hidden", 0, 0.0)]
    assert moderate_scores(hits, {"a": TRACE, "b": TRACE}, NOON) == {"a": 1.0, "b": 0.9}
