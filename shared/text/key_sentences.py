"""Which sentences of a text say what it says.

A sentence matters if it is like many others that matter (LexRank: Erkan and Radev, "LexRank:
Graph-based Lexical Centrality as Salience in Text Summarization", 2004, in its continuous form),
and if it is like the title; sentences are compared by the cosines of their terms' TF-IDF. That
works in any language that `terms` cuts into words. It matters less if it cannot stand alone: what
points back is known in English and in German.

Measured on abstracts and claims that experts drew from them (`benchmarks/cards.py`, the half that
nothing was chosen on): of what a claim says, three sentences hold

| chosen | share of its terms | the sentence that says most of it |
|---|---|---|
| by lot | 0.69 | 0.43 |
| the first three | 0.72 | 0.54 |
| the longest three | 0.76 | 0.56 |
| by LexRank alone | 0.70 | 0.49 |
| here | 0.76 | 0.58 |

Words that announce a conclusion, and the last place, made it worse: they cost 0.01 and 0.03.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import regex

from shared.text.sentences import sentences
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

DAMPING: Final = 0.85
"""How much of a sentence's weight comes from the sentences that are like it."""
ITERATIONS: Final = 40
"""The weights stand still to four digits well before: 0.85 ** 40 is 0.0015."""
TITLE: Final = 0.8
"""What full likeness to the title adds to a weight of at most 1."""
POINTS_BACK: Final = 0.7
"""What is left of the weight of a sentence that begins by pointing back."""
LEADS_ON: Final = 0.3
"""What is left of that of a question, and of an introduction of what follows."""
LEAST: Final = 3
"""Terms of a sentence that says something."""

_POINTS_BACK: Final = regex.compile(
    r"(?:and|but|so|or|this|that|these|those|it|they|he|she|both|such|then|here|there"
    r"|und|aber|oder|dies\w*|das|er|sie|es|dann|hier|dort|so)\b",
    regex.IGNORECASE,
)
_QUOTES: Final = "\"')\u2019\u201c\u201d\u00ab\u00bb"
_OPEN_END: Final = (":", "?", "\uff1a", "\uff1f", "\u061f", ",", ";")


@dataclass(frozen=True, slots=True)
class KeySentence:
    """A sentence of a text.

    Attributes:
        text: What it says, on one line.
        place: Which of the text's sentences it is, from 0.
        likeness: To each sentence of the text, from 0 to 1.
    """

    text: str
    place: int
    likeness: tuple[float, ...]


def key_sentences(text: str, title: str = "") -> list[KeySentence]:
    """The sentences of a text that say something, those that say most of it first.

    Args:
        text: The text; what is no prose in it is passed over.
        title: What the text belongs to, whose words matter more.
    """
    candidates = [(each, Counter(terms(each))) for each in sentences(text)]
    said = [(each, bag) for each, bag in candidates if bag.total() >= LEAST]
    if not said:
        return []
    lines = [each for each, _ in said]
    likeness = _likeness([*(bag for _, bag in said), Counter(terms(title))])
    weights = _lexrank(likeness[:-1, :-1]) + TITLE * likeness[-1, :-1]
    weights *= [_standing(line) for line in lines]
    # What differs between two machines in the last digits must not change the order.
    order = np.argsort(-weights.round(6), kind="stable").tolist()
    return [KeySentence(lines[n], n, tuple(likeness[n, :-1].tolist())) for n in order]


def _likeness(bags: Sequence[Counter[str]]) -> Matrix:
    """The cosine of each two bags of terms, a term weighing more the fewer hold it."""
    column = {term: n for n, term in enumerate(dict.fromkeys(chain.from_iterable(bags)))}
    counts = np.zeros((len(bags), len(column)))
    for row, bag in enumerate(bags):
        for term, count in bag.items():
            counts[row, column[term]] = count
    weighted = counts * (1 + np.log((1 + len(bags)) / (1 + (counts > 0).sum(axis=0))))
    lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
    unit = weighted / np.where(lengths, lengths, 1)
    cosines: Matrix = unit @ unit.T
    return cosines


def _lexrank(likeness: Matrix) -> Matrix:
    """The weight of each sentence, the heaviest being 1."""
    shares = likeness / likeness.sum(axis=1, keepdims=True)
    weights = np.full(len(likeness), 1 / len(likeness))
    for _ in range(ITERATIONS):
        weights = (1 - DAMPING) / len(likeness) + DAMPING * (weights @ shares)
    highest: Matrix = weights / weights.max()
    return highest


def _standing(line: str) -> float:
    """How well a sentence stands alone, from 0 to 1."""
    if line.rstrip(_QUOTES).endswith(_OPEN_END):
        return LEADS_ON
    return POINTS_BACK if _POINTS_BACK.match(line) else 1.0
