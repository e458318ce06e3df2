"""Relevance: whether anything matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.index.bm25 import Postings, Totals, idf
from shared.search.relevance import (
    MINILM,
    UNMEASURED,
    Calibration,
    Evidence,
    anything_matches,
    coverage,
    min_coverage,
    term_information,
)

DOCUMENTS = 1_000
TOTALS = Totals(DOCUMENTS, 20_000)
COMMON = {"bread": Postings(200, {}), "oven": Postings(20, {})}
CALIBRATION = Calibration(similarity=0.3, together=0.4, words=0.25)
HITS = st.builds(Evidence, st.none() | st.floats(-1, 1), st.none() | st.floats(0, 1))
POOLS = st.lists(HITS, max_size=5)


def matches(similarity: float | None, covered: float | None) -> bool:
    return anything_matches([Evidence(similarity, covered)], CALIBRATION, DOCUMENTS)


def test_a_term_counts_its_idf_for_each_repeat() -> None:
    assert term_information(["bread", "oven", "bread"], COMMON, TOTALS) == {
        "bread": 2 * idf(200, DOCUMENTS),
        "oven": idf(20, DOCUMENTS),
    }


def test_a_term_in_no_document_has_the_most_information() -> None:
    information = term_information(["bread", "oven", "zeppelin"], COMMON, TOTALS)
    assert max(information, key=information.__getitem__) == "zeppelin"


def test_coverage_is_the_share_of_information_in_a_document() -> None:
    information = {"bread": 1.0, "oven": 2.0, "zeppelin": 5.0}
    assert [
        coverage(information, document_terms)
        for document_terms in (set(), {"bread"}, {"bread", "oven"}, set(information))
    ] == [0.0, 0.125, 0.375, 1.0]


def test_terms_of_the_document_alone_cover_nothing() -> None:
    assert coverage({"bread": 1.0}, {"tin", "crust"}) == 0.0


def test_a_query_of_stop_words_has_no_coverage() -> None:
    assert coverage(term_information([], COMMON, TOTALS), {"bread"}) is None


def test_without_hits_nothing_matches() -> None:
    assert not anything_matches([], MINILM, DOCUMENTS)


@pytest.mark.parametrize(
    ("similarity", "covered", "expected"),
    [
        (0.4, 0.0, True),
        (0.39, 0.0, False),
        (0.2, 0.8, True),
        (0.2, 0.7, False),
        (-0.1, 0.99, False),
    ],
)
def test_similarity_and_words_make_up_for_each_other(
    similarity: float, covered: float, *, expected: bool
) -> None:
    assert matches(similarity, covered) == expected


def test_a_hit_with_all_words_matches_whatever_its_similarity() -> None:
    information = term_information(["oven", "bread", "oven", "tin"], COMMON, TOTALS)
    assert matches(-1.0, coverage(information, ["tin", "bread", "oven"]))


def test_similarity_and_words_of_different_hits_do_not_add_up() -> None:
    near, wordy = Evidence(0.35, 0.0), Evidence(0.1, 0.9)
    assert not anything_matches([near, wordy], CALIBRATION, DOCUMENTS)
    assert anything_matches([near, wordy, Evidence(0.35, 0.9)], CALIBRATION, DOCUMENTS)


def test_without_words_similarity_decides_by_its_own_constant() -> None:
    assert [matches(similarity, None) for similarity in (0.3, 0.29)] == [True, False]


def test_without_similarity_coverage_decides() -> None:
    least = min_coverage(DOCUMENTS)
    assert [matches(None, covered) for covered in (least, least - 0.01)] == [True, False]


def test_a_hit_without_evidence_does_not_match() -> None:
    assert not matches(None, None)


def test_a_larger_corpus_requires_more_coverage() -> None:
    sizes = [min_coverage(documents) for documents in (0, 1, 64, 5_000, 1_000_000)]
    assert sorted(sizes) == sizes
    assert [sizes[2], sizes[3]] == pytest.approx([0.17, 0.32], abs=0.005)
    assert sizes[-1] < 1


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_unmeasured_model_needs_both_scores_to_be_low(similarity: float, covered: float) -> None:
    if not anything_matches([Evidence(similarity, covered)], UNMEASURED, DOCUMENTS):
        assert similarity < 0.1
        assert covered <= 0.3  # sums of such numbers fall short of a third of 0.3 by a hair


@given(POOLS, HITS)
def test_another_hit_never_undoes_a_match(pool: list[Evidence], hit: Evidence) -> None:
    if anything_matches(pool, MINILM, DOCUMENTS):
        assert anything_matches([hit, *pool], MINILM, DOCUMENTS)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_higher_scores_never_undo_a_match(
    similarity: float, covered: float, nearer: float, wordier: float
) -> None:
    more = Evidence(min(similarity + nearer, 1), min(covered + wordier, 1))
    if anything_matches([Evidence(similarity, covered)], MINILM, DOCUMENTS):
        assert anything_matches([more], MINILM, DOCUMENTS)
