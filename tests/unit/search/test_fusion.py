"""Fusion ranks candidates by a weighted sum of their similarity and BM25 score."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.search.fusion import Scores, fuse

SCORES = st.builds(Scores, similarity=st.floats(0, 1), bm25=st.floats(0, 100))
POOLS = st.dictionaries(st.text(max_size=4), SCORES)
WEIGHTS = st.floats(0, 1)


@pytest.mark.requirement("001-X1")
def test_both_scores_are_normalised_and_added_by_weight() -> None:
    pool = {"a": Scores(0.8, 0.0), "b": Scores(0.4, 10.0), "c": Scores(0.7, 5.0)}
    ranking = fuse(pool, 0.6)
    assert [member for member, _ in ranking] == ["c", "a", "b"]
    # Each score is scaled so that the lowest of the pool becomes 0 and the highest 1.
    assert dict(ranking) == pytest.approx(
        {"a": 0.6 * 1 + 0.4 * 0, "b": 0.6 * 0 + 0.4 * 1, "c": 0.6 * 0.75 + 0.4 * 0.5}
    )


@pytest.mark.parametrize(
    ("scores", "expected"),
    [(Scores(0.3, 2.0), 1.0), (Scores(0.3, 0.0), 0.6), (Scores(0.0, 0.0), 0.0)],
)
def test_a_lone_candidate_gets_the_weights_of_its_nonzero_scores(
    scores: Scores, expected: float
) -> None:
    assert fuse({"a": scores}, dense_weight=0.6) == [("a", expected)]
    assert fuse({}) == []


def test_candidates_equal_in_one_score_are_ranked_by_the_other_then_by_id() -> None:
    pool = {"d": Scores(0.5, 1.0), "a": Scores(0.5, 1.0), "b": Scores(0.5, 3.0)}
    assert [member for member, _ in fuse(pool)] == ["b", "a", "d"]


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_to_1_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="dense weight"):
        fuse({}, weight)


@given(POOLS, WEIGHTS)
def test_every_candidate_is_ranked_once_and_a_better_one_never_lower(
    pool: dict[str, Scores], weight: float
) -> None:
    ranking = fuse(pool, weight)
    assert sorted(member for member, _ in ranking) == sorted(pool)
    assert all(0 <= score <= 1 + 1e-9 for _, score in ranking)
    assert sorted(ranking, key=lambda item: (-item[1], item[0])) == ranking
    assert fuse(dict(reversed(pool.items())), weight) == ranking
    fused_scores = dict(ranking)
    for (worse_id, worse), (better_id, better) in product(pool.items(), repeat=2):
        if worse.similarity <= better.similarity and worse.bm25 <= better.bm25:
            assert fused_scores[worse_id] <= fused_scores[better_id]


@given(POOLS)
def test_a_weight_of_0_or_1_gives_the_order_of_one_score(pool: dict[str, Scores]) -> None:
    dense = [pool[member].similarity for member, _ in fuse(pool, 1.0)]
    lexical = [pool[member].bm25 for member, _ in fuse(pool, 0.0)]
    assert dense == pytest.approx(sorted(dense, reverse=True))
    assert lexical == pytest.approx(sorted(lexical, reverse=True))
