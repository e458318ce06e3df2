"""Brute force over materials: every passage compared, as the description of the search says it."""

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

MEANT: Final = 50
"""Passages that the search by meaning brings."""
WORDED: Final = 30
"""Passages that the search by words brings."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What brute force finds.

    Attributes:
        scores: Of every candidate, by the cleaned text.
        passages: How many there are.
    """

    scores: Mapping[str, float]
    passages: int


async def brute_force(texts: Iterable[str], query: str, weight: float = 0.65) -> Expected:
    """Score what both legs bring of the passages of some materials."""
    passages = {
        normalize_line(text[span.start : span.end])
        for text in texts
        for span in split_passages(text)
    } - {""}
    names = {content_id(passage): passage for passage in passages}
    [asked, *vectors] = await WordEmbedder().embed([query, *names.values()], Purpose.DOCUMENT)
    meaning = {
        name: sum(map(mul, asked, vector)) for name, vector in zip(names, vectors, strict=True)
    }
    words = _bm25(names, terms(query))
    candidates = {*_best(meaning, MEANT), *_best(words, WORDED)}
    one = _normal({name: max(0.0, meaning[name]) for name in candidates})
    other = _normal({name: words.get(name, 0.0) for name in candidates})
    scores = {names[name]: weight * one[name] + (1 - weight) * other[name] for name in candidates}
    return Expected(scores, len(names))


def assert_same(expected: Expected, result: Mapping[str, Any], top_k: int) -> None:
    """Fail unless an answer holds the best, by their scores; equal ones in any order."""
    best = sorted(expected.scores.values(), reverse=True)[:top_k]
    scores = [each["score"] for each in result["passages"]]
    assert len(best) == len(scores)
    assert expected.passages == result["considered"]
    for one, other, context in zip(best, scores, result["contexts"], strict=True):
        assert abs(one - other) < 2e-4, (one, other, context)
        assert abs(expected.scores[normalize_line(context)] - other) < 2e-4, (context, other)


def _bm25(names: Mapping[str, str], query: Sequence[str]) -> dict[str, float]:
    counts = {name: Counter(terms(text)) for name, text in names.items()}
    totals = Totals(len(counts), sum(each.total() for each in counts.values()))
    postings: dict[str, Postings] = {}
    for term in set(query):
        entries = {
            name: pack(count[term], count.total()) for name, count in counts.items() if count[term]
        }
        if entries:
            postings[term] = Postings(len(entries), entries)
    return bm25.score(query, postings, totals)


def _best(scores: Mapping[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


def _normal(values: dict[str, float]) -> dict[str, float]:
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    if high == low:
        return dict.fromkeys(values, float(high > 0))
    return {name: (value - low) / (high - low) for name, value in values.items()}
