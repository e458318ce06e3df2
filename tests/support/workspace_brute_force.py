"""Computes by brute force the scores that `extract_key_info` must give to passages.

The documentation of the tool defines the scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, Final

from functions.tools.workspaces.extract_key_info.ranking import MAX_NEAR
from shared.ai.embedding import Purpose
from shared.index import bm25
from shared.index.bm25 import Postings, Totals, pack
from shared.index.stored_vector import from_compact, to_compact
from shared.text.folding import normalize_line
from shared.text.splitting import split_passages
from shared.text.terms import count_terms, find_variants, terms
from shared.workspaces.model import content_id
from tests.support.fakes.embedder import WordEmbedder

DENSE_CANDIDATES: Final = 50
"""The number of candidates that the search by meaning returns."""
LEXICAL_CANDIDATES: Final = 30
"""The number of candidates that the search by words returns."""


_TOLERANCE: Final = 6e-3
"""The maximum difference of two scores: the tool rounds scores to two decimals."""


@dataclass(frozen=True, slots=True)
class ExpectedScores:
    """The scores that an answer must have.

    Attributes:
        scores: The score of every candidate, by its cleaned text.
        passages: The number of different passages.
    """

    scores: Mapping[str, float]
    passages: int


async def score_by_brute_force(texts: Iterable[str], query: str) -> ExpectedScores:
    """Score the candidates of both searches among the passages of these texts."""
    passages = {
        normalize_line(text[span.start : span.end])
        for text in texts
        for span in split_passages(text)
    } - {""}
    texts_by_id = {content_id(passage): passage for passage in passages}
    [query_vector, *vectors] = await WordEmbedder().embed(
        [query, *texts_by_id.values()], Purpose.DOCUMENT
    )
    dense = {
        passage_id: sum(map(mul, query_vector, from_compact(to_compact(vector))))
        for passage_id, vector in zip(texts_by_id, vectors, strict=True)
    }
    lexical = _compute_bm25(texts_by_id, [*terms(query), *find_variants(query)])
    candidates = {*_pick_best(dense, DENSE_CANDIDATES), *_pick_best(lexical, LEXICAL_CANDIDATES)}
    scaled_dense = _scale({passage_id: max(0.0, dense[passage_id]) for passage_id in candidates})
    scaled_lexical = _scale({passage_id: lexical.get(passage_id, 0.0) for passage_id in candidates})
    scores = {
        texts_by_id[passage_id]: 0.65 * scaled_dense[passage_id] + 0.35 * scaled_lexical[passage_id]
        for passage_id in candidates
    }
    return ExpectedScores(scores, len(texts_by_id))


def assert_scores_match(expected: ExpectedScores, result: Mapping[str, Any], top_k: int) -> None:
    """Assert that contexts have the expected scores, best first, followed by near passages."""
    scores = [passage["score"] for passage in result["passages"]]
    near = result.get("near", [])
    assert scores == sorted(scores, reverse=True)
    assert len(near) == min(MAX_NEAR, min(top_k, len(expected.scores)) - len(scores))
    assert expected.passages == result["considered"]
    for score, context in zip(scores, result["contexts"], strict=True):
        assert abs(expected.scores[normalize_line(context)] - score) < _TOLERANCE, (context, score)


def _compute_bm25(texts: Mapping[str, str], query: Sequence[str]) -> dict[str, float]:
    counts = {passage_id: count_terms(text) for passage_id, text in texts.items()}
    totals = Totals(len(counts), sum(count.length for count in counts.values()))
    postings: dict[str, Postings] = {}
    for term in set(query):
        entries = {
            passage_id: pack(count.by_term[term], count.length)
            for passage_id, count in counts.items()
            if term in count.by_term
        }
        if entries:
            postings[term] = Postings(len(entries), entries)
    return bm25.score(query, postings, totals)


def _pick_best(scores: Mapping[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


def _scale(values: dict[str, float]) -> dict[str, float]:
    """Scale values to the range from 0 to 1."""
    low = min(values.values(), default=0.0)
    high = max(values.values(), default=0.0)
    if high == low:
        return dict.fromkeys(values, float(high > 0))
    return {name: (value - low) / (high - low) for name, value in values.items()}
