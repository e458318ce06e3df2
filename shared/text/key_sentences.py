"""Finds the key sentences of a text, by LexRank.

A sentence has a high weight if it is similar to many sentences of high weight (Erkan and Radev,
"LexRank: Graph-based Lexical Centrality as Salience in Text Summarization", 2004, in its continuous
form) and similar to the title. Two sentences are compared by the cosine of their TF-IDF vectors,
which works in any language that `terms` splits into words. A sentence that cannot stand alone, such
as a heading, a question or one that begins with "this", has less weight. Such beginnings are
recognized in twelve languages, by `data/back-references.txt`.

On SciFact's abstracts, and the 809 training claims that experts drew from them, three sentences
contain 0.43 of a claim's terms, and the best of them 0.37. Without the two factors that prefer the
first sentence and findings, it is 0.44 and 0.38.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import regex

from shared.text.stop_words import DATA
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

DAMPING: Final = 0.85
"""This share of a sentence's weight comes from similar sentences. The rest is the same for all
sentences."""
ITERATIONS: Final = 40
"""The weights are improved this many times. Then they change by less than 0.85 ** 40, about
0.0015."""
TITLE_WEIGHT: Final = 0.8
"""A sentence that equals the title gets this much weight in addition to LexRank's, which is at most
1."""
BACK_REFERENCE_FACTOR: Final = 0.7
"""The weight of a sentence that begins with a reference to an earlier sentence is multiplied by
this."""
OPEN_END_FACTOR: Final = 0.3
"""The weight of a line that is not a statement, such as a question, is multiplied by this."""
MIN_CAPITALIZED_SHARE: Final = 0.7
"""At least this share of the words of a letterhead or a list of names are capitalized or numbers.
In German prose, about half of the words are."""
LEAD_FACTOR: Final = 1.25
"""The weight of the first sentence, which often is the point of a highlight, is multiplied by
this."""
BACKGROUND_FACTOR: Final = 0.8
"""The weight of the background and the methods of an abstract, and of a letterhead, is multiplied
by this."""
FINDING_FACTOR: Final = 1.5
"""The weight of a sentence that announces a finding is multiplied by this."""
MIN_TERMS: Final = 3
"""A key sentence has at least this many terms. Shorter sentences say too little by themselves."""

_BACK_REFERENCE: Final = regex.compile(
    "|".join((DATA / "back-references.txt").read_text("utf-8").splitlines()), regex.IGNORECASE
)
_FINDING: Final = regex.compile(
    r"(?:conclusions?|results?|findings?|fazit|ergebnis(?:se)?|résultats|resultados|conclusiones)\b"
    r"|(?:here,? )?we (?:find|found|show|report|present|describe|propose|demonstrate|conclude"
    r"|identif\w+)\b"
    r"|our (?:results|data|findings)\b|in (?:conclusion|summary)\b|taken together\b",
    regex.IGNORECASE,
)
_BACKGROUND: Final = regex.compile(r"(?:BACKGROUND|CONTEXT|INTRODUCTION|METHODS?|DESIGN)\b")
_STATEMENT_END: Final = regex.compile(r"[\p{STerm}--[?\uff1f\u061f]]\W*$", regex.V1)
"""The end of a statement. Headings, list items and questions end differently."""


@dataclass(frozen=True, slots=True)
class KeySentence:
    """A sentence of a text that was ranked.

    Attributes:
        text: The sentence on one line.
        position: The number of the sentence in the text, from 0.
        stands_alone: Whether it is a statement that does not refer to an earlier sentence.
        refers_back: Whether it is a statement that does.
        similarities: The similarity of the sentence to each sentence of the text, itself included,
            from 0 to 1, by position. It is 0 for sentences that were left out.
    """

    text: str
    position: int
    stands_alone: bool
    refers_back: bool
    similarities: tuple[float, ...]


def rank_sentences(sentences: Sequence[str], title: str = "") -> list[KeySentence]:
    """Rank the sentences of a text by weight, highest first.

    Sentences with fewer than MIN_TERMS terms are left out.
    """
    bags = {position: Counter(terms(sentence)) for position, sentence in enumerate(sentences)}
    bags = {position: bag for position, bag in bags.items() if bag.total() >= MIN_TERMS}
    if not bags:
        return []
    positions = list(bags)
    cosines = _compute_similarities([*bags.values(), Counter(terms(title))])
    similarities = np.zeros((len(sentences), len(sentences)))
    similarities[np.ix_(positions, positions)] = cosines[:-1, :-1]
    weights = _compute_lexrank(cosines[:-1, :-1]) + TITLE_WEIGHT * cosines[-1, :-1]
    factors = [_compute_factor(sentences[position], position) for position in positions]
    # The last digits differ between machines, and must not change the order.
    order = np.argsort(-(weights * factors).round(6), kind="stable").tolist()
    return [
        KeySentence(
            sentences[positions[row]],
            positions[row],
            stands_alone=factors[row] >= BACKGROUND_FACTOR,
            refers_back=factors[row] == BACK_REFERENCE_FACTOR,
            similarities=tuple(similarities[positions[row]].tolist()),
        )
        for row in order
    ]


def _compute_similarities(bags: Sequence[Counter[str]]) -> Matrix:
    """Return the cosine of the TF-IDF vectors of each pair of sentences."""
    all_terms = dict.fromkeys(chain.from_iterable(bags))
    columns = {term: column for column, term in enumerate(all_terms)}
    counts = np.zeros((len(bags), len(columns)))
    for row, bag in enumerate(bags):
        for term, count in bag.items():
            counts[row, columns[term]] = count
    weighted_counts = counts * (1 + np.log((1 + len(bags)) / (1 + (counts > 0).sum(axis=0))))
    lengths = np.linalg.norm(weighted_counts, axis=1, keepdims=True)
    unit_vectors = weighted_counts / np.where(lengths, lengths, 1)
    cosines: Matrix = unit_vectors @ unit_vectors.T
    return cosines


def _compute_lexrank(similarities: Matrix) -> Matrix:
    """Return the LexRank of each sentence, scaled so that the highest is 1.

    It is computed by power iteration.
    """
    shares = similarities / similarities.sum(axis=1, keepdims=True)
    weights = np.full(len(similarities), 1 / len(similarities))
    for _ in range(ITERATIONS):
        weights = (1 - DAMPING) / len(similarities) + DAMPING * (weights @ shares)
    highest: Matrix = weights / weights.max()
    return highest


def _compute_factor(line: str, position: int) -> float:
    """Return the factor for a sentence's weight, from BACKGROUND_FACTOR on if it stands alone."""
    if not _STATEMENT_END.search(line[-4:]):
        return OPEN_END_FACTOR
    if line[0].islower() or _BACK_REFERENCE.match(line):
        return BACK_REFERENCE_FACTOR
    if _FINDING.match(line):
        return FINDING_FACTOR
    if _BACKGROUND.match(line) or _is_label(line):
        return BACKGROUND_FACTOR
    return LEAD_FACTOR if position == 0 else 1.0


def _is_label(line: str) -> bool:
    """Return whether a line is a letterhead or a list of names, which have hardly any verbs."""
    words: list[str] = regex.findall(r"[\p{L}\d][^\s]*", line)
    capitalized = sum(word[0].isupper() or word[0].isdigit() for word in words)
    return capitalized >= MIN_CAPITALIZED_SHARE * len(words)
