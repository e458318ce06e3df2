"""Search is scored every night on golden queries, and a night is compared with previous ones.

A golden query is a query whose right passage is known.
"""

from __future__ import annotations

import pytest

from shared.knowledge.golden_queries import (
    BASELINE_NIGHTS,
    NightlyScore,
    compute_gain_since_last_week,
)


def make_night(**ranks: int) -> NightlyScore:
    """Return the score of a night that has the rank of each query's passage (0: not found)."""
    return NightlyScore(date="2026-03-10", ranks=ranks, model="m", milliseconds=1.0)


def test_recall_is_the_share_of_passages_that_were_found() -> None:
    assert make_night(a=1, b=10, c=3, d=0).recall == 0.75


def test_mrr_is_the_mean_of_the_reciprocal_ranks() -> None:
    assert make_night(a=1, b=10, c=2, d=0).mrr == pytest.approx((1 + 0.1 + 0.5 + 0) / 4)


def test_nights_are_compared_over_the_queries_of_both() -> None:
    assert make_night(a=1, b=0, d=1, e=1).compute_gain(make_night(a=3, b=2, c=0)) == -0.5
    assert make_night(a=1, b=5, new=0).compute_gain(make_night(a=10, b=1, gone=1)) == 0.0


def test_nights_without_a_common_query_are_not_compared() -> None:
    assert make_night(a=1).compute_gain(make_night(b=1)) is None
    assert compute_gain_since_last_week(make_night(a=1), [make_night(b=1), make_night(c=0)]) is None


def test_a_night_is_compared_with_the_median_of_a_week() -> None:
    full_score, low_score = make_night(a=1, b=1), make_night(a=1, b=0)
    assert compute_gain_since_last_week(low_score, [full_score, full_score, low_score]) == -0.5
    assert compute_gain_since_last_week(low_score, [full_score, low_score, low_score]) == 0.0


def test_nights_older_than_a_week_do_not_count() -> None:
    full_score, low_score = make_night(a=1), make_night(a=0)
    assert (
        compute_gain_since_last_week(low_score, [full_score] * 20 + [low_score] * BASELINE_NIGHTS)
        == 0.0
    )
    assert compute_gain_since_last_week(low_score, []) is None
