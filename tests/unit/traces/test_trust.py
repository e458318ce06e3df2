"""Trust in traces: what votes make of it, and what no vote can."""

from __future__ import annotations

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
    wilson,
)

BEST = NEWCOMER_WEIGHT + MAX_RECORD_BONUS
"""More than anybody's weight."""

ballots = st.one_of(
    st.builds(Vote, st.just(VoteType.UP), st.none(), st.integers(NEWCOMER_WEIGHT, BEST)),
    st.builds(
        Vote,
        st.just(VoteType.DOWN),
        st.sampled_from(FeedbackTag),
        st.integers(NEWCOMER_WEIGHT, BEST),
    ),
)


def up(weight: int = NEWCOMER_WEIGHT) -> Vote:
    return Vote(VoteType.UP, None, weight)


def down(tag: FeedbackTag = FeedbackTag.WRONG, weight: int = NEWCOMER_WEIGHT) -> Vote:
    return Vote(VoteType.DOWN, tag, weight)


def tally(*votes: Vote) -> VoteTally:
    total = VoteTally()
    for vote in votes:
        total = total.plus(vote)
    return total


@given(st.floats(0.001, 1), st.floats(0.1, 1e5))
def test_the_interval_ends_as_far_off_as_z_allows(share: float, total: float) -> None:
    """Wilson's definition: the least p whose distance from the share is z standard errors of p."""
    low = wilson(share * total, total)
    assert math.isclose(share - low, Z * math.sqrt(low * (1 - low) / total), abs_tol=1e-6)


def test_ten_of_ten_are_not_yet_all() -> None:
    assert (0.2065, 0.7225) == (round(wilson(1, 1), 4), round(wilson(10, 10), 4))


@pytest.mark.parametrize(("part", "total"), [(2, 1), (-1, 1)])
def test_more_than_all_is_no_share(part: float, total: float) -> None:
    with pytest.raises(ValueError, match="between 0 and its total"):
        wilson(part, total)


@given(st.floats(0, 1), st.floats(0.01, 1e6))
def test_the_lower_end_lies_below_the_share(share: float, total: float) -> None:
    assert 0 <= wilson(share * total, total) <= share + 1e-9


def test_no_vote_is_no_trust_and_no_doubt() -> None:
    assert (0, 0, TraceStatus.PENDING) == (VoteTally().trust, VoteTally().doubt, VoteTally().status)


@given(ballots)
def test_one_vote_neither_validates_nor_flags(ballot: Vote) -> None:
    assert TraceStatus.PENDING == tally(ballot).status


@pytest.mark.parametrize(
    ("votes", "status"),
    [
        ([up()] * 3, TraceStatus.PENDING),
        ([up()] * 4, TraceStatus.VALIDATED),
        ([up(83)] * 2, TraceStatus.VALIDATED),
        ([up()] * 4 + [down()] * 2, TraceStatus.PENDING),
        ([down()] * 7, TraceStatus.PENDING),
        ([down()] * 8, TraceStatus.FLAGGED),
        ([down()] * 8 + [up()], TraceStatus.PENDING),
        ([down(FeedbackTag.SPAM)] * 2, TraceStatus.FLAGGED),
        ([down(FeedbackTag.SPAM), down(FeedbackTag.SECURITY_CONCERN)], TraceStatus.FLAGGED),
        ([down(FeedbackTag.SPAM), down(FeedbackTag.OUTDATED)], TraceStatus.PENDING),
        ([down(FeedbackTag.SPAM)] * 2 + [down()] * 3, TraceStatus.FLAGGED),
        ([down(FeedbackTag.SPAM)] * 2 + [up()] * 2, TraceStatus.PENDING),
        ([up()] * 9 + [down(FeedbackTag.SPAM)], TraceStatus.VALIDATED),
    ],
)
def test_the_status_follows_from_the_votes(votes: list[Vote], status: TraceStatus) -> None:
    assert status == tally(*votes).status


@given(st.lists(ballots, max_size=12), ballots)
def test_a_vote_that_is_taken_back_leaves_no_trace(votes: list[Vote], ballot: Vote) -> None:
    assert tally(*votes) == tally(*votes).plus(ballot).minus(ballot)


@given(st.lists(ballots, max_size=12))
def test_the_order_of_votes_does_not_matter(votes: list[Vote]) -> None:
    assert tally(*votes) == tally(*reversed(votes))


@given(st.lists(ballots, min_size=1, max_size=12))
def test_a_vote_for_never_lowers_trust_nor_one_against_raises_it(votes: list[Vote]) -> None:
    before = tally(*votes)
    assert before.plus(up()).trust >= before.trust - 1e-9
    assert before.plus(down()).trust <= before.trust + 1e-9


@given(
    st.lists(ballots, max_size=12), st.sampled_from(FeedbackTag), st.integers(NEWCOMER_WEIGHT, BEST)
)
def test_no_vote_against_it_makes_a_trace_look_better(
    votes: list[Vote], tag: FeedbackTag, weight: int
) -> None:
    order = [TraceStatus.FLAGGED, TraceStatus.PENDING, TraceStatus.VALIDATED]
    before = tally(*votes)
    after = before.plus(down(tag, weight))
    assert order.index(after.status) <= order.index(before.status)


@given(st.integers(-3, 10_000), st.integers(-3, 10_000))
def test_nobodys_vote_counts_as_a_whole_one(ups: int, downs: int) -> None:
    assert NEWCOMER_WEIGHT <= ContributorRecord(ups, downs).weight < 100


def test_a_good_record_weighs_more_than_a_short_or_a_bad_one() -> None:
    newcomer, short, bad, good = (
        ContributorRecord(),
        ContributorRecord(1),
        ContributorRecord(10, 90),
        ContributorRecord(90, 10),
    )
    assert newcomer.weight < short.weight < good.weight
    assert bad.weight < good.weight
    assert BEST > good.weight


def test_two_of_the_best_can_validate_and_one_cannot_flag() -> None:
    best = ContributorRecord(10**6).weight
    assert tally(up(best), up(best)).trust >= VALIDATION_TRUST
    [alarm] = {tally(down(tag, best)).status for tag in ALARM_TAGS}
    assert alarm is TraceStatus.PENDING
    assert wilson(best / 100, best / 100) < FLAGGING_ALARM
