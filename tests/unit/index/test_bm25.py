"""BM25 scores are those of a reference, also from truncated postings.

The postings of a term list the documents that contain it. An entry packs the term's frequency
(tf) and the document's length into one integer; df is the number of documents with the term.
"""

import math
from collections import Counter

import bm25s
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.index.bm25 import (
    K1,
    B,
    Postings,
    Totals,
    idf,
    impact,
    pack,
    score,
    score_document,
    select_best,
    unpack,
)

VOCABULARY = "abcdefgh"
CORPORA = st.lists(st.lists(st.sampled_from(VOCABULARY), min_size=1), min_size=1, max_size=20)
QUERIES = st.lists(st.sampled_from([*VOCABULARY, "unknown"]), min_size=1, max_size=6)
LENGTHS = st.integers(1, 2**20 - 1)
ENTRIES = LENGTHS.flatmap(lambda length: st.tuples(st.integers(1, length), st.just(length)))
with_60_examples = settings(max_examples=60)


def build_postings(corpus: list[list[str]]) -> tuple[dict[str, Postings], Totals]:
    """Return the postings of each term, and the totals; the documents are d0, d1 ..."""
    entries: dict[str, dict[str, int]] = {}
    for number, document in enumerate(corpus):
        for term, tf in Counter(document).items():
            entries.setdefault(term, {})[f"d{number}"] = pack(tf, len(document))
    postings = {
        term: Postings(df=len(entries_of_term), entries=entries_of_term)
        for term, entries_of_term in entries.items()
    }
    return postings, Totals(documents=len(corpus), length=sum(map(len, corpus)))


@with_60_examples
@given(CORPORA, QUERIES)
def test_scores_are_those_of_the_reference(corpus: list[list[str]], query: list[str]) -> None:
    reference = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
    reference.index(corpus, show_progress=False)
    matching_terms = [term for term in query if any(term in document for document in corpus)]
    expected = reference.get_scores(matching_terms) if matching_terms else [0.0] * len(corpus)
    postings, totals = build_postings(corpus)
    scores = score(query, postings, totals)
    for number, document in enumerate(corpus):
        assert (f"d{number}" in scores) == bool(set(query) & set(document))
        assert scores.get(f"d{number}", 0.0) == pytest.approx(expected[number], abs=1e-6)
        score_by_terms = score_document(query, Counter(document), len(document), postings, totals)
        assert score_by_terms == pytest.approx(scores.get(f"d{number}", 0.0))


def test_truncated_postings_keep_the_weight_of_their_term() -> None:
    postings, totals = build_postings([["a"], ["a", "b"], ["a", "b", "c"], ["c"]])
    best_entries = select_best(postings["a"].entries, totals.average, limit=1)
    truncated_postings = {"a": Postings(postings["a"].df, best_entries)}
    scores = score(["a"], postings, totals)
    assert score(["a"], truncated_postings, totals) == {"d0": scores["d0"]}
    assert score_document(["a"], {"a": 1}, 3, truncated_postings, totals) == scores["d2"]


def test_the_lowest_ids_are_kept_among_equal_entries() -> None:
    equal_entries = dict.fromkeys("cbad", pack(1, 9))
    assert select_best(equal_entries, average=5, limit=2).keys() == {"a", "b"}


@pytest.mark.parametrize("query", [[], ["unknown"]])
def test_a_query_without_known_terms_finds_nothing(query: list[str]) -> None:
    postings, totals = build_postings([["a"]])
    assert score(query, postings, totals) == {}
    assert score_document(query, {"a": 1}, 1, postings, totals) == 0


def test_an_empty_corpus_has_a_nonzero_average_length() -> None:
    assert Totals(0, 0).average == 1.0
    assert Totals(3, 0).average == 1.0


@with_60_examples
@given(ENTRIES)
def test_an_entry_of_64_bits_unpacks_to_frequency_and_length(entry: tuple[int, int]) -> None:
    assert 0 < pack(*entry) < 2**63
    assert unpack(pack(*entry)) == entry


@pytest.mark.parametrize(("tf", "length"), [(0, 1), (-1, 5), (2, 0), (1, 2**20)])
def test_an_impossible_entry_is_refused(tf: int, length: int) -> None:
    with pytest.raises(ValueError, match="need 1 <= tf"):
        pack(tf, length)


@with_60_examples
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_idf_grows_with_rarity_and_is_never_negative(df: int, documents: int) -> None:
    assert idf(df, documents) > 0
    assert idf(3, 10) == pytest.approx(math.log(1 + (10 - 3 + 0.5) / (3 + 0.5)))
    assert idf(df, documents) >= idf(df + 1, documents)


@with_60_examples
@given(ENTRIES, st.floats(1, 1e6))
def test_impact_grows_with_frequency_and_falls_with_length(
    entry: tuple[int, int], average: float
) -> None:
    tf, length = entry
    assert 0 < impact(tf, length, average) < 1
    assert impact(tf, length, average) < impact(tf + 1, length, average)
    assert impact(tf, length, average) > impact(tf, length + 1, average)


@with_60_examples
@given(st.dictionaries(st.text(max_size=3), ENTRIES), st.integers(0, 8), st.floats(1, 1e4))
def test_the_best_entries_are_kept_in_any_order_of_entries(
    pairs: dict[str, tuple[int, int]], limit: int, average: float
) -> None:
    entries = {name: pack(*pair) for name, pair in pairs.items()}
    best_entries = select_best(entries, average, limit)
    reversed_entries = dict(reversed(entries.items()))
    assert select_best(reversed_entries, average, limit) == best_entries
    assert len(best_entries) == min(limit, len(entries))
    assert best_entries.items() <= entries.items()

    weights = {name: impact(*pair, average) for name, pair in pairs.items()}
    kept_weights = [weights[name] for name in best_entries]
    dropped_weights = [weights[name] for name in entries.keys() - best_entries.keys()]
    assert max(dropped_weights, default=0.0) <= min(kept_weights, default=1.0)
