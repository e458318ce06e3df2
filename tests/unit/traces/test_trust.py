"""Votes decide whether a trace, a shared solution, is pending, validated or flagged.

A trace's trust and doubt are lower bounds of Wilson's interval for the shares of its up- and
downvotes. Weights of votes are in hundredths of a vote.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.traces.trust import (
    ALARM_TAGS,
    FLAGGING_ALARM,
    MAX_RECORD_BONUS,
    NEWCOMER_WEIGHT,
    VALIDATION_TRUST,
    ContributorRecord,
    FeedbackTag,
    TraceStatus,
    Vote,
    VoteTally,
    VoteType,
    Z,
    compute_wilson_bound,
)

MAX_WEIGHT = NEWCOMER_WEIGHT + MAX_RECORD_BONUS
"""No vote weighs more."""

VOTES = st.one_of(
    st.builds(Vote, st.just(VoteType.UP), st.none(), st.integers(NEWCOMER_WEIGHT, MAX_WEIGHT)),
    st.builds(
        Vote,
        st.just(VoteType.DOWN),
        st.sampled_from(FeedbackTag),
        st.integers(NEWCOMER_WEIGHT, MAX_WEIGHT),
    ),
)


def make_upvote(weight: int = NEWCOMER_WEIGHT) -> Vote:
    return Vote(VoteType.UP, None, weight)


def make_downvote(tag: FeedbackTag = FeedbackTag.WRONG, weight: int = NEWCOMER_WEIGHT) -> Vote:
    return Vote(VoteType.DOWN, tag, weight)


def make_tally(*votes: Vote) -> VoteTally:
    total = VoteTally()
    for vote in votes:
        total = total.plus(vote)
    return total


@given(st.floats(0.001, 1), st.floats(0.1, 1e5))
def test_bound_is_z_standard_errors_below_the_share(share: float, total: float) -> None:
    """Wilson's definition: the smallest p whose distance to the share is z standard errors of p.

    For a share of one, the formula becomes total / (total + z²).
    """
    low = compute_wilson_bound(share * total, total)
    assert 0 <= low <= share + 1e-9
    assert math.isclose(share - low, Z * math.sqrt(low * (1 - low) / total), abs_tol=1e-6)
    assert compute_wilson_bound(total, total) == pytest.approx(total / (total + Z**2))
    assert round(compute_wilson_bound(10, 10), 4) == 0.7225


@pytest.mark.parametrize(("part", "total"), [(2, 1), (-1, 1)])
def test_part_outside_of_the_total_is_refused(part: float, total: float) -> None:
    with pytest.raises(ValueError, match="between 0 and the total"):
        compute_wilson_bound(part, total)


def test_a_trace_without_votes_has_no_trust_and_no_doubt() -> None:
    tally = VoteTally()
    assert (tally.trust, tally.doubt, tally.status) == (0, 0, TraceStatus.PENDING)


@given(VOTES)
def test_one_vote_neither_validates_nor_flags(vote: Vote) -> None:
    assert make_tally(vote).status == TraceStatus.PENDING


@pytest.mark.parametrize(
    ("votes", "status"),
    [
        # A newcomer's vote counts half: four are two votes, whose bound is 2 / (2 + z²) = 0.34.
        ([make_upvote()] * 3, TraceStatus.PENDING),
        ([make_upvote()] * 4, TraceStatus.VALIDATED),
        ([make_upvote(83)] * 2, TraceStatus.VALIDATED),
        ([make_upvote()] * 4 + [make_downvote()] * 2, TraceStatus.PENDING),
        ([make_downvote()] * 7, TraceStatus.PENDING),
        ([make_downvote()] * 8, TraceStatus.FLAGGED),
        ([make_downvote()] * 8 + [make_upvote()], TraceStatus.PENDING),
        ([make_downvote(FeedbackTag.SPAM)] * 2, TraceStatus.FLAGGED),
        (
            [make_downvote(FeedbackTag.SPAM), make_downvote(FeedbackTag.SECURITY_CONCERN)],
            TraceStatus.FLAGGED,
        ),
        (
            [make_downvote(FeedbackTag.SPAM), make_downvote(FeedbackTag.OUTDATED)],
            TraceStatus.PENDING,
        ),
        ([make_downvote(FeedbackTag.SPAM)] * 2 + [make_downvote()] * 3, TraceStatus.FLAGGED),
        ([make_downvote(FeedbackTag.SPAM)] * 2 + [make_upvote()] * 2, TraceStatus.PENDING),
        ([make_upvote()] * 9 + [make_downvote(FeedbackTag.SPAM)], TraceStatus.VALIDATED),
    ],
)
def test_status_follows_from_the_votes(votes: list[Vote], status: TraceStatus) -> None:
    assert make_tally(*votes).status == status


@given(st.lists(VOTES, max_size=12), VOTES)
def test_votes_add_up_and_each_moves_trust_its_way(votes: list[Vote], vote: Vote) -> None:
    tally = make_tally(*votes)
    assert tally.plus(vote).minus(vote) == tally
    assert make_tally(*reversed(votes)) == tally
    assert tally.plus(make_upvote()).trust >= tally.trust - 1e-9
    assert tally.plus(make_downvote()).trust <= tally.trust + 1e-9


@given(
    st.lists(VOTES, max_size=12),
    st.sampled_from(FeedbackTag),
    st.integers(NEWCOMER_WEIGHT, MAX_WEIGHT),
)
def test_downvote_never_improves_the_status(
    votes: list[Vote], tag: FeedbackTag, weight: int
) -> None:
    order = [TraceStatus.FLAGGED, TraceStatus.PENDING, TraceStatus.VALIDATED]
    tally_before = make_tally(*votes)
    tally_after = tally_before.plus(make_downvote(tag, weight))
    assert order.index(tally_after.status) <= order.index(tally_before.status)


@given(st.integers(-3, 10_000), st.integers(-3, 10_000))
def test_weight_is_half_to_less_than_one_vote(ups: int, downs: int) -> None:
    assert NEWCOMER_WEIGHT <= ContributorRecord(ups, downs).weight < 100


def test_a_voter_with_a_good_record_weighs_most() -> None:
    records = [(0, 0), (1, 0), (90, 10)]
    newcomer, short, good = (ContributorRecord(*record).weight for record in records)
    assert newcomer < short < good < MAX_WEIGHT
    assert ContributorRecord(10, 90).weight < good


def test_two_best_voters_validate_and_one_cannot_flag() -> None:
    best_weight = ContributorRecord(10**6).weight  # a million upvotes on own traces
    assert make_tally(make_upvote(best_weight), make_upvote(best_weight)).trust >= VALIDATION_TRUST
    assert ALARM_TAGS
    for tag in ALARM_TAGS:
        assert make_tally(make_downvote(tag, best_weight)).status is TraceStatus.PENDING
    assert compute_wilson_bound(best_weight / 100, best_weight / 100) < FLAGGING_ALARM
