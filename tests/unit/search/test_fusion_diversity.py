"""The hits of several sources take turns, so that no source fills the list of hits.

A turn is two hits of a source. Hits below half the best score form a second tier, ranked later.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.search.fusion import HITS_PER_TURN, TIER_SHARE, diversify_ranking

Hits = list[tuple[str, float]]
"""The name and the score of each hit."""
RANKINGS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=15).map(
    lambda hits: [(f"{source}{number}", score) for number, (source, score) in enumerate(hits)]
)
with_200_examples = settings(max_examples=200)


def sort_by_score(hits: Hits) -> Hits:
    """Return the hits, the best first."""
    return sorted(hits, key=lambda hit: -hit[1])


def format_order(*hits: tuple[str, float]) -> str:
    """Return the diversified order of hits, which are named by source and number: a1 a2 b1."""
    return " ".join(hit for hit, _ in diversify_ranking(hits, get_sources(list(hits))))


def get_sources(hits: Hits) -> dict[str, str]:
    """Return the source of each hit, which is the letter in its name."""
    return {hit: hit[0] for hit, _ in hits}


def test_a_sources_third_hit_waits_for_the_other_sources() -> None:
    hits = [("a1", 1.0), ("a2", 0.9), ("a3", 0.8), ("a4", 0.7), ("b1", 0.6), ("c1", 0.5)]
    assert format_order(*hits) == "a1 a2 b1 c1 a3 a4"


def test_a_third_hit_does_not_wait_for_less_than_half_the_best() -> None:
    hits = [("a1", 1.0), ("a2", 0.9), ("a3", 0.8), ("b1", 0.5), ("c1", 0.49)]
    assert format_order(*hits) == "a1 a2 b1 a3 c1"


def test_a_fifth_hit_waits_for_third_hits_of_other_sources() -> None:
    hits_of_a = [("a1", 1.0), ("a2", 0.95), ("a3", 0.9), ("a4", 0.85), ("a5", 0.8)]
    hits_of_b = [("b1", 0.75), ("b2", 0.7), ("b3", 0.65)]
    assert format_order(*hits_of_a, *hits_of_b) == "a1 a2 b1 b2 a3 a4 b3 a5"


def test_hits_of_the_second_tier_take_turns() -> None:
    hits = [("b1", 1.0), ("a1", 0.4), ("a2", 0.3), ("a3", 0.2), ("c1", 0.1)]
    assert format_order(*hits) == "b1 a1 a2 c1 a3"


def test_a_source_with_two_hits_keeps_their_places() -> None:
    assert format_order(("a1", 1.0), ("a2", 0.9), ("b1", 0.8)) == "a1 a2 b1"


def test_a_lone_source_keeps_its_order() -> None:
    assert format_order(("a1", 1.0), ("a2", 0.9), ("a3", 0.8), ("a4", 0.1)) == "a1 a2 a3 a4"


def test_scores_of_zero_take_turns() -> None:
    assert format_order(("a1", 0.0), ("a2", 0.0), ("a3", 0.0), ("b1", 0.0)) == "a1 a2 b1 a3"


def test_an_empty_list_of_hits_stays_empty() -> None:
    assert diversify_ranking([], {}) == []


@with_200_examples
@given(RANKINGS)
def test_every_hit_stays_with_its_score_and_the_best_stays_first(hits: Hits) -> None:
    ranking = sort_by_score(hits)
    diversified_ranking = diversify_ranking(ranking, get_sources(hits))
    assert sorted(diversified_ranking) == sorted(ranking)
    assert diversified_ranking[:1] == ranking[:1]


@with_200_examples
@given(RANKINGS)
def test_the_hits_of_one_source_keep_their_order(hits: Hits) -> None:
    ranking = sort_by_score(hits)
    diversified_ranking = diversify_ranking(ranking, get_sources(hits))
    for source in "abc":
        hits_of_source = [(hit, score) for hit, score in ranking if hit.startswith(source)]
        assert hits_of_source == [
            (hit, score) for hit, score in diversified_ranking if hit.startswith(source)
        ]


@with_200_examples
@given(RANKINGS)
def test_a_third_hit_follows_every_first_hit_of_its_tier(hits: Hits) -> None:
    diversified_ranking = diversify_ranking(sort_by_score(hits), get_sources(hits))
    counts: Counter[str] = Counter()
    second_turn_has_begun = False
    for hit, score in diversified_ranking:
        source = hit[0]
        counts[source] += 1
        if counts[source] > HITS_PER_TURN:
            second_turn_has_begun = True
        elif score >= TIER_SHARE * diversified_ranking[0][1]:
            assert not second_turn_has_begun


@with_200_examples
@given(RANKINGS)
def test_a_ranking_with_two_hits_per_source_is_unchanged(hits: Hits) -> None:
    sources = {hit: str(number // HITS_PER_TURN) for number, (hit, _) in enumerate(hits)}
    assert diversify_ranking(sort_by_score(hits), sources) == sort_by_score(hits)
