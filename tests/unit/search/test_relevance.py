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


def test_a_term_says_its_idf_as_often_as_it_is_asked_for() -> None:
    assert {"bread": 2 * idf(200, DOCUMENTS), "oven": idf(20, DOCUMENTS)} == term_information(
        ["bread", "oven", "bread"], COMMON, TOTALS
    )


def test_a_term_that_no_document_holds_says_most() -> None:
    said = term_information(["bread", "oven", "zeppelin"], COMMON, TOTALS)
    assert "zeppelin" == max(said, key=said.__getitem__)


def test_coverage_is_the_share_of_information_in_a_document() -> None:
    said = {"bread": 1.0, "oven": 2.0, "zeppelin": 5.0}
    assert [0.0, 0.125, 0.375, 1.0] == [
        coverage(said, held) for held in (set(), {"bread"}, {"bread", "oven"}, set(said))
    ]


def test_terms_of_the_document_alone_cover_nothing() -> None:
    assert 0.0 == coverage({"bread": 1.0}, {"tin", "crust"})


def test_a_query_of_stop_words_has_no_coverage() -> None:
    assert None is coverage(term_information([], COMMON, TOTALS), {"bread"})


def test_among_no_hits_nothing_matches() -> None:
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
    assert expected == matches(similarity, covered)


def test_a_hit_with_all_words_matches_whatever_its_similarity() -> None:
    said = term_information(["oven", "bread", "oven", "tin"], COMMON, TOTALS)
    assert matches(-1.0, coverage(said, ["tin", "bread", "oven"]))


def test_similarity_and_words_of_different_hits_do_not_add_up() -> None:
    near, wordy = Evidence(0.35, 0.0), Evidence(0.1, 0.9)
    assert not anything_matches([near, wordy], CALIBRATION, DOCUMENTS)
    assert anything_matches([near, wordy, Evidence(0.35, 0.9)], CALIBRATION, DOCUMENTS)


def test_without_words_similarity_decides_by_its_own_constant() -> None:
    assert [True, False] == [matches(similarity, None) for similarity in (0.3, 0.29)]


def test_without_similarity_coverage_decides() -> None:
    least = min_coverage(DOCUMENTS)
    assert [True, False] == [matches(None, covered) for covered in (least, least - 0.01)]


def test_a_hit_of_which_nothing_is_known_does_not_match() -> None:
    assert not matches(None, None)


def test_the_larger_the_base_the_more_words_a_hit_must_hold() -> None:
    sizes = [min_coverage(documents) for documents in (0, 1, 64, 5_000, 1_000_000)]
    assert sorted(sizes) == sizes
    assert pytest.approx([0.17, 0.32], abs=0.005) == [sizes[2], sizes[3]]
    assert sizes[-1] < 1


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_unmeasured_model_is_overruled_by_both_legs_only(
    similarity: float, covered: float
) -> None:
    if not anything_matches([Evidence(similarity, covered)], UNMEASURED, DOCUMENTS):
        assert similarity < 0.1
        assert covered <= 0.3  # sums of such numbers fall short of a third of 0.3 by a hair


@given(POOLS, HITS)
def test_a_further_hit_never_unsays_a_match(pool: list[Evidence], hit: Evidence) -> None:
    if anything_matches(pool, MINILM, DOCUMENTS):
        assert anything_matches([hit, *pool], MINILM, DOCUMENTS)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_more_of_either_never_unsays_a_match(
    similarity: float, covered: float, nearer: float, wordier: float
) -> None:
    more = Evidence(min(similarity + nearer, 1), min(covered + wordier, 1))
    if anything_matches([Evidence(similarity, covered)], MINILM, DOCUMENTS):
        assert anything_matches([more], MINILM, DOCUMENTS)
