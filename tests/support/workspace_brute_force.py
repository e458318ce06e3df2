"""Score all passages of texts by brute force, as the documentation of the search defines it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.index import bm25
from shared.index.bm25 import Postings, Totals, pack
from shared.text.passages import normalize_line, split_passages
from shared.text.terms import terms
from shared.workspaces.model import content_id
from tests.support.fakes.embedder import WordEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

DENSE_CANDIDATES: Final = 50
"""The number of passages that the search by meaning returns."""
LEXICAL_CANDIDATES: Final = 30
"""The number of passages that the search by words returns."""


@dataclass(frozen=True, slots=True)
class ExpectedScores:
    """The scores by brute force.

    Attributes:
        scores: The score of every candidate, by its cleaned text.
        passages: The number of different passages.
    """

    scores: Mapping[str, float]
    passages: int


async def brute_force(texts: Iterable[str], query: str, weight: float = 0.65) -> ExpectedScores:
    """Score the candidates of both searches among the passages of these texts."""
    passages = {
        normalize_line(text[span.start : span.end])
        for text in texts
        for span in split_passages(text)
    } - {""}
    by_id = {content_id(passage): passage for passage in passages}
    [target, *vectors] = await WordEmbedder().embed([query, *by_id.values()], Purpose.DOCUMENT)
    dense = {
        passage_id: sum(map(mul, target, vector))
        for passage_id, vector in zip(by_id, vectors, strict=True)
    }
    lexical = _bm25(by_id, terms(query))
    candidates = {*_best(dense, DENSE_CANDIDATES), *_best(lexical, LEXICAL_CANDIDATES)}
    scaled = _scale({name: max(0.0, dense[name]) for name in candidates})
    scaled_lexical = _scale({name: lexical.get(name, 0.0) for name in candidates})
    scores = {
        by_id[name]: weight * scaled[name] + (1 - weight) * scaled_lexical[name]
        for name in candidates
    }
    return ExpectedScores(scores, len(by_id))


def assert_same(expected: ExpectedScores, result: Mapping[str, Any], top_k: int) -> None:
    """Assert that an answer has the best passages and their scores; equal ones in any order."""
    best = sorted(expected.scores.values(), reverse=True)[:top_k]
    scores = [passage["score"] for passage in result["passages"]]
    assert len(best) == len(scores)
    assert expected.passages == result["considered"]
    for expected_score, score, context in zip(best, scores, result["contexts"], strict=True):
        assert abs(expected_score - score) < 2e-4, (expected_score, score, context)
        assert abs(expected.scores[normalize_line(context)] - score) < 2e-4, (context, score)


def _bm25(texts: Mapping[str, str], query: Sequence[str]) -> dict[str, float]:
    counts = {passage_id: Counter(terms(text)) for passage_id, text in texts.items()}
    totals = Totals(len(counts), sum(count.total() for count in counts.values()))
    postings: dict[str, Postings] = {}
    for term in set(query):
        entries = {
            passage_id: pack(count[term], count.total())
            for passage_id, count in counts.items()
            if count[term]
        }
        if entries:
            postings[term] = Postings(len(entries), entries)
    return bm25.score(query, postings, totals)


def _best(scores: Mapping[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


def _scale(values: dict[str, float]) -> dict[str, float]:
    """Scale values to 0 to 1."""
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    if high == low:
        return dict.fromkeys(values, float(high > 0))
    return {name: (value - low) / (high - low) for name, value in values.items()}
