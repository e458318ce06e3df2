"""The hits of several sources take turns, so that no source fills the list of hits.

A turn is two hits of a source. Hits below half the best score form a second tier, ranked later.
A hit is named by its source and a number.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.search.fusion import HITS_PER_TURN, TIER_SHARE, diversify_ranking

Hits = list[tuple[str, float]]
RANKINGS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=15).map(
    lambda hits: sorted(
        [(f"{source}{number}", score) for number, (source, score) in enumerate(hits)],
        key=lambda hit: -hit[1],
    )
)


@pytest.mark.parametrize(
    ("hits", "order"),
    [
        ("", ""),
        ("a1 1.0, a2 0.9, b1 0.8", "a1 a2 b1"),
        ("a1 1.0, a2 0.9, a3 0.8, a4 0.1", "a1 a2 a3 a4"),
        ("a1 1.0, a2 0.9, a3 0.8, a4 0.7, b1 0.6, c1 0.5", "a1 a2 b1 c1 a3 a4"),
        # A third hit does not wait for less than half the best.
        ("a1 1.0, a2 0.9, a3 0.8, b1 0.5, c1 0.49", "a1 a2 b1 a3 c1"),
        # A fifth hit waits for third hits.
        (
            "a1 1.0, a2 0.95, a3 0.9, a4 0.85, a5 0.8, b1 0.75, b2 0.7, b3 0.65",
            "a1 a2 b1 b2 a3 a4 b3 a5",
        ),
        # In the second tier, hits take turns, too.
        ("b1 1.0, a1 0.4, a2 0.3, a3 0.2, c1 0.1", "b1 a1 a2 c1 a3"),
        ("a1 0, a2 0, a3 0, b1 0", "a1 a2 b1 a3"),
    ],
)
def test_sources_take_turns(hits: str, order: str) -> None:
    ranking = [(hit.split()[0], float(hit.split()[1])) for hit in hits.split(", ") if hit]
    diversified = diversify_ranking(ranking, {hit: hit[0] for hit, _ in ranking})
    assert " ".join(hit for hit, _ in diversified) == order


@settings(max_examples=200)
@given(RANKINGS)
def test_every_hit_keeps_its_score_and_its_order_within_a_source(ranking: Hits) -> None:
    diversified = diversify_ranking(ranking, {hit: hit[0] for hit, _ in ranking})
    assert sorted(diversified) == sorted(ranking)
    assert diversified[:1] == ranking[:1]
    for source in "abc":
        assert [hit for hit in diversified if hit[0].startswith(source)] == [
            hit for hit in ranking if hit[0].startswith(source)
        ]

    counts: Counter[str] = Counter()
    second_turn_has_begun = False
    for hit, score in diversified:
        counts[hit[0]] += 1
        if counts[hit[0]] > HITS_PER_TURN:
            second_turn_has_begun = True
        elif score >= TIER_SHARE * diversified[0][1]:
            assert not second_turn_has_begun

    pairs = {hit: str(number // HITS_PER_TURN) for number, (hit, _) in enumerate(ranking)}
    assert diversify_ranking(ranking, pairs) == ranking
