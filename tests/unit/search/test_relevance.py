"""A search says that nothing matches if the hits' evidence is below the calibrated thresholds.

The evidence of a hit is its similarity and its coverage, the share of the query's words in it.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.index.bm25 import Postings, Totals, idf
from shared.search.relevance import (
    DEFAULT_CALIBRATION,
    MAX_GAP,
    MIN_EVIDENCE,
    MINILM,
    MIXED,
    Calibration,
    Evidence,
    compute_coverage,
    compute_information,
    compute_min_coverage,
    find_answer_threshold,
    measure_evidence,
)
from tests.support.jottings import Jotting

DOCUMENTS = 1_000
TOTALS = Totals(DOCUMENTS, 20_000)
KNOWN_TERMS = {"bread": Postings(200, {}), "oven": Postings(20, {})}
CALIBRATION = Calibration(min_similarity=0.3, min_weighted_sum=0.4, coverage_weight=0.25)
HITS = st.builds(Evidence, st.none() | st.floats(-1, 1), st.none() | st.floats(0, 1))
POOLS = st.lists(HITS, max_size=5)


def anything_matches(hits: Sequence[Evidence], calibration: Calibration, documents: int) -> bool:
    return any(measure_evidence(hit, calibration, documents) >= 0 for hit in hits)


def is_match(similarity: float | None, hit_coverage: float | None) -> bool:
    """Return whether a hit with this evidence, the only one, is a match."""
    return anything_matches([Evidence(similarity, hit_coverage)], CALIBRATION, DOCUMENTS)


def test_information_is_idf_and_most_for_a_term_in_no_document() -> None:
    terms = ["bread", "oven", "bread", "zeppelin"]
    information = compute_information(terms, KNOWN_TERMS, TOTALS)
    assert {term: information[term] for term in ("bread", "oven")} == {
        "bread": 2 * idf(200, DOCUMENTS),
        "oven": idf(20, DOCUMENTS),
    }
    assert max(information, key=information.__getitem__) == "zeppelin"


def test_coverage_is_the_share_of_information_in_a_document() -> None:
    information = {"bread": 1.0, "oven": 2.0, "zeppelin": 5.0}
    assert compute_coverage(information, {"tin", "crust"}) == 0.0
    assert compute_coverage(information, {"bread"}) == 1 / 8
    assert compute_coverage(information, {"bread", "oven"}) == 3 / 8
    assert compute_coverage(information, set(information)) == 1.0
    assert compute_coverage(compute_information([], KNOWN_TERMS, TOTALS), {"bread"}) is None


@pytest.mark.parametrize(
    ("similarity", "hit_coverage", "expected"),
    [
        (0.4, 0.0, True),
        (0.39, 0.0, False),
        (0.2, 0.8, True),
        (0.2, 0.7, False),
        (-0.1, 0.99, False),
        # A query of stop words, by similarity alone
        (0.3, None, True),
        (0.29, None, False),
        # A hit without similarity, by coverage alone
        (None, compute_min_coverage(DOCUMENTS), True),
        (None, compute_min_coverage(DOCUMENTS) - 0.01, False),
        (None, None, False),
    ],
)
def test_similarity_and_coverage_compensate_for_each_other(
    similarity: float | None, hit_coverage: float | None, *, expected: bool
) -> None:
    assert is_match(similarity, hit_coverage) == expected
    assert not anything_matches([], MINILM, DOCUMENTS)


def test_a_hit_with_all_words_matches_whatever_its_similarity() -> None:
    information = compute_information(["oven", "bread", "oven", "tin"], KNOWN_TERMS, TOTALS)
    assert is_match(-1.0, compute_coverage(information, ["tin", "bread", "oven"]))


def test_similarity_and_coverage_of_two_hits_do_not_add_up() -> None:
    similar_hit = Evidence(0.35, 0.0)
    hit_with_words = Evidence(0.1, 0.9)
    hit_with_both = Evidence(0.35, 0.9)
    assert not anything_matches([similar_hit, hit_with_words], CALIBRATION, DOCUMENTS)
    assert anything_matches([similar_hit, hit_with_words, hit_with_both], CALIBRATION, DOCUMENTS)


@pytest.mark.parametrize("coverage", [None, 0.1])
def test_a_passage_in_another_language_needs_less_similarity(coverage: float | None) -> None:
    english_hit = Evidence(0.2, coverage, Jotting("a", "The bread is in the oven."))
    assert not anything_matches([english_hit, Evidence(0.2, coverage)], MIXED, DOCUMENTS)
    german_hit = Evidence(0.2, coverage, Jotting("b", "Das Brot ist im Ofen und wird braun."))
    assert anything_matches([german_hit], MIXED, DOCUMENTS)
    assert not anything_matches([replace(german_hit, similarity=0.15)], MIXED, DOCUMENTS)
    assert not anything_matches([german_hit], MINILM, DOCUMENTS)


def test_a_larger_corpus_requires_more_coverage() -> None:
    thresholds = [compute_min_coverage(documents) for documents in (0, 1, 64, 5_000, 1_000_000)]
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] < 1
    assert compute_min_coverage(64) == pytest.approx(0.17, abs=0.005)
    assert compute_min_coverage(5_000) == pytest.approx(0.32, abs=0.005)


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_unmeasured_model_needs_both_scores_to_be_low(
    similarity: float, hit_coverage: float
) -> None:
    if not anything_matches([Evidence(similarity, hit_coverage)], DEFAULT_CALIBRATION, DOCUMENTS):
        assert similarity < 0.1
        assert hit_coverage <= 0.3  # not `<`, because of rounding errors


@given(POOLS, HITS, st.floats(0, 1), st.floats(0, 1))
def test_another_hit_or_higher_scores_never_undo_a_match(
    pool: list[Evidence], hit: Evidence, more_similarity: float, more_coverage: float
) -> None:
    if anything_matches(pool, MINILM, DOCUMENTS):
        assert anything_matches([hit, *pool], MINILM, DOCUMENTS)
    if hit.similarity is None or hit.coverage is None:
        return
    better_hit = Evidence(
        min(hit.similarity + more_similarity, 1), min(hit.coverage + more_coverage, 1)
    )
    if anything_matches([hit], MINILM, DOCUMENTS):
        assert anything_matches([better_hit], MINILM, DOCUMENTS)


def test_a_hit_answers_if_it_is_near_the_best_and_not_far_below_a_match() -> None:
    assert find_answer_threshold([]) == find_answer_threshold([-0.4, -0.3]) == MIN_EVIDENCE
    assert find_answer_threshold([0.5, 0.1]) == 0.5 - MAX_GAP
