"""Words that stand together: phrases in quotation marks, and neighbouring words of a question."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING, Final

from shared.index.bm25 import idf, impact
from shared.text.terms import find_occurrences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAIR_WEIGHT: Final = 0.2
"""The weight of two neighbouring words of the question that are neighbours in a document, too."""
_QUOTATION: Final = re.compile(
    '"([^"]+)"|\u201c([^\u201d]+)\u201d|\u201e([^\u201c\u201d]+)[\u201c\u201d]|\u00ab([^\u00bb]+)\u00bb'
)
_WORD: Final = re.compile(r"\w+")
_MIN_PREFIX: Final = 3


def find_phrases(question: str) -> list[str]:
    """Return the phrases of two words or more that a question has in quotation marks."""
    quotations = ("".join(match.groups("")) for match in _QUOTATION.finditer(question))
    return [phrase for phrase in quotations if len(_WORD.findall(phrase)) > 1]


def has_phrase(text: str, phrase: str) -> bool:
    """Return whether a text has the words of a phrase, one after the other.

    Case and punctuation do not matter.
    """
    return _join_words(phrase) in _join_words(text)


def _join_words(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return f" {' '.join(_WORD.findall(folded))} "


def score_pairs(question: str, texts: Mapping[str, str]) -> dict[str, float]:
    """Score the texts that have neighbouring words of a question as neighbours, by their ids.

    A pair of words scores as a term does in BM25, with its frequency among these texts, times
    PAIR_WEIGHT. The texts are searched for the beginnings of the words, because analysing them
    would take a hundred times as long.
    """
    lower_texts = {name: text.lower() for name, text in texts.items()}
    scores = dict.fromkeys(texts, 0.0)
    for pattern in _build_pair_patterns(question):
        counts = {name: len(pattern.findall(text)) for name, text in lower_texts.items()}
        df = sum(map(bool, counts.values()))
        for name, tf in counts.items():
            scores[name] += PAIR_WEIGHT * idf(df, len(texts)) * impact(tf, 1, 1)
    return scores


def _build_pair_patterns(question: str) -> Iterator[re.Pattern[str]]:
    """Yield the pattern that finds each pair of neighbouring words."""
    for word, next_word in pairwise(find_occurrences(question)):
        (_, _, end_of_word), (_, start_of_next, _) = word, next_word
        between = question[end_of_word:start_of_next]
        if between and not any(map(str.isalnum, between)):
            first, second = (
                re.escape(_find_beginning(question[start:end].lower(), term))
                for term, start, end in (word, next_word)
            )
            yield re.compile(rf"\b{first}\w*\W{{1,3}}{second}")


def _find_beginning(word: str, term: str) -> str:
    """Return the beginning that all forms of a word share: `stud` of `studies` and `study`."""
    beginning = commonprefix([word, term])  # noqa: RUF071 - of characters
    if len(beginning) > _MIN_PREFIX and beginning.endswith(("i", "y")):
        return beginning[:-1]
    return beginning or word
