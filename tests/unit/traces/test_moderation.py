"""Moderation: votes and age move traces among their like, and no further."""

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
    moderate_scores,
    moderation_factor,
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
LIKED = VoteTally(upvotes=9, up=450)
DISLIKED = VoteTally(downvotes=9, down=450)

heads = st.integers(0, 10_000)
tallies = st.builds(VoteTally, up=heads, down=heads, alarm=st.just(0))


def test_a_new_trace_without_votes_is_taken_as_it_is() -> None:
    assert 1 == moderation_factor(TRACE, NOON)


def test_votes_move_it_both_ways() -> None:
    liked, disliked = (replace(TRACE, tally=tally) for tally in (LIKED, DISLIKED))
    assert moderation_factor(disliked, NOON) < 1 < moderation_factor(liked, NOON)


def test_it_ages_by_half_of_all_it_can_in_two_years() -> None:
    later = NOON + timedelta(days=2 * 365.25)
    assert pytest.approx(1 - MAX_AGE_PENALTY / 2) == moderation_factor(TRACE, later)


def test_a_clock_that_runs_behind_makes_nothing_younger_than_new() -> None:
    assert 1 == moderation_factor(TRACE, NOON - timedelta(days=1))


@given(tallies, st.timedeltas(timedelta(0), timedelta(days=36_500)))
def test_the_factor_is_bounded_whatever_the_votes(tally: VoteTally, age: timedelta) -> None:
    assert MIN_FACTOR <= moderation_factor(replace(TRACE, tally=tally), NOON + age) <= MAX_FACTOR


def test_what_is_clearly_more_relevant_comes_first_despite_votes() -> None:
    unpopular = replace(TRACE, tally=VoteTally(down=10**9, downvotes=10**7))
    popular = replace(TRACE, tally=VoteTally(up=10**9, upvotes=10**7))
    old = NOON + timedelta(days=36_500)
    assert 0.68 * moderation_factor(unpopular, old) > 0.5 * moderation_factor(popular, NOON)


def test_a_spam_vote_counts_against_it_too() -> None:
    spam = VoteTally().plus(Vote(VoteType.DOWN, FeedbackTag.SPAM, 50))
    assert moderation_factor(replace(TRACE, tally=spam), NOON) < 1


@dataclass(frozen=True)
class Found:
    """Something that a search found."""

    id: str
    score: float
    similarity: float | None


def first(*found: Found, liked: str) -> str:
    traces = {
        each.id: replace(TRACE, tally=LIKED if each.id == liked else DISLIKED) for each in found
    }
    scores = moderate_scores(found, traces, NOON)
    return max(scores, key=scores.__getitem__)


def test_of_two_that_fit_alike_votes_decide() -> None:
    assert "b" == first(Found("a", 1, 0.60), Found("b", 0, 0.59), liked="b")


def test_of_two_that_do_not_votes_do_not_decide() -> None:
    assert "a" == first(Found("a", 1, 0.60), Found("b", 0, 0.30), liked="b")


def test_what_only_words_found_is_moderated_by_its_own_scores() -> None:
    assert "b" == first(Found("a", 5.0, None), Found("b", 4.9, None), liked="b")
    assert "a" == first(Found("a", 5.0, None), Found("b", 3.0, None), liked="b")


def test_what_is_not_ordered_has_no_score_but_similarities() -> None:
    found = [Found("a", 1, 0.60), Found("b", 0.9, 0.59), Found("hidden", 0, 0.0)]
    assert {"a": 1.0, "b": 0.9} == moderate_scores(found, {"a": TRACE, "b": TRACE}, NOON)
