"""What passages are about, by their words: class TF-IDF.

Grootendorst, "BERTopic: Neural topic modeling with a class-based TF-IDF procedure", 2022, section
3.3: a term weighs as much as it is frequent in a topic, times log(1 + A / f), where f is how
frequent it is in all topics and A how many terms a topic has on average. Here a term counts once a
passage, so that no single passage names a topic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Final

from shared.text.terms import term_occurrences, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Phrase = tuple[str, ...]
    """One term, or two that stand beside each other."""
    Weight = Callable[[Phrase], tuple[float, Phrase]]

PAIR: Final = 2
"""Words of the longest phrase."""
SHORTEST: Final = 3
"""Letters of a word that says something, in scripts of letters."""
SAYING_LITTLE: Final = frozenset(
    terms(
        "one two three four five six seven eight nine ten first second third last next half once"
        " twice every everything everybody anything anybody something somebody nothing nobody none"
        " never ever always often sometimes without within whether though although another many"
        " much more most less least few several enough almost still even also just yet may might"
        " must shall use used using make made makes making like via etc per cent"
    )
    + terms(
        "ein zwei drei vier fünf sechs sieben acht neun zehn erste zweite dritte letzte immer nie"
        " niemals oft nichts niemand jemand alles jede jeder jedes viele mehr weniger fast schon"
        " noch auch nur mal beim wer wie wird werden wurde machen macht gemacht"
    )
)
"""Numbers and the like: no stop words of a search, and no name of a topic."""
TOGETHER: Final = 0.5
"""In what share of its passages a word stands beside another one to be told with it."""


class _Counts:
    """In how many passages of a topic each phrase stands, and how it is written there."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.passages: Counter[Phrase] = Counter()
        self.pairs: defaultdict[str, set[Phrase]] = defaultdict(set)
        self.spellings: defaultdict[Phrase, Counter[str]] = defaultdict(Counter)
        for text in texts:
            found = list(_phrases(text))
            self.passages.update({phrase for phrase, _ in found})
            for phrase, spelling in found:
                self.spellings[phrase][spelling] += 1
        for pair in self.passages:
            if len(pair) == PAIR:
                for term in pair:
                    self.pairs[term].add(pair)

    def spelling(self, phrase: Phrase) -> str:
        """As it is mostly written."""
        spellings = self.spellings[phrase]
        return min(spellings, key=lambda each: (-spellings[each], each))


def telling_words(topics: Sequence[Sequence[str]], limit: int) -> list[list[str]]:
    """The words that tell each topic from the others, the most telling first.

    No two of a topic share a term. Words that mostly stand beside each other come together, two at
    most.

    Args:
        topics: The texts of each topic.
        limit: How many for each.
    """
    counted = [_Counts(texts) for texts in topics]
    overall: Counter[Phrase] = Counter()
    for counts in counted:
        overall.update(counts.passages)
    average = overall.total() / max(1, len(counted))
    return [_telling(counts, _weighing(counts, overall, average), limit) for counts in counted]


def _telling(counts: _Counts, weight: Weight, limit: int) -> list[str]:
    chosen: dict[str, str] = {}
    used: set[str] = set()
    for word in sorted((each for each in counts.passages if len(each) < PAIR), key=weight):
        if len(chosen) == limit:
            break
        phrase = _widened(word, counts, used, weight)
        spelling = counts.spelling(phrase)
        if used.isdisjoint(phrase) and spelling.casefold() not in chosen:
            chosen[spelling.casefold()] = spelling
            used.update(phrase)
    return list(chosen.values())


def _weighing(counts: _Counts, overall: Counter[Phrase], average: float) -> Weight:
    """What sorts a topic's phrases, the most telling first."""

    def weight(phrase: Phrase) -> tuple[float, Phrase]:
        return -counts.passages[phrase] * log(1 + average / overall[phrase]), phrase

    return weight


def _widened(word: Phrase, counts: _Counts, used: set[str], weight: Weight) -> Phrase:
    """The word with the one that mostly stands beside it, if there is one."""
    often = max(2, TOGETHER * counts.passages[word])
    pairs = [
        pair
        for pair in counts.pairs[word[0]]
        if counts.passages[pair] >= often and used.isdisjoint(pair)
    ]
    return min(pairs, key=weight, default=word)


def _phrases(text: str) -> Iterator[tuple[Phrase, str]]:
    """The words of a text that say something, and those pairs that only a space parts."""
    telling = set(terms(text)) - SAYING_LITTLE
    words = [
        (term, start, end)
        for term, start, end in sorted(set(term_occurrences(text)), key=lambda each: each[1:])
        if term in telling and _is_word(text[start:end])
    ]
    for term, start, end in words:
        yield (term,), text[start:end]
    for (first, start, end), (second, follows, last) in pairwise(words):
        if text[end:follows] == " " and first != second:
            yield (first, second), text[start:last]


def _is_word(word: str) -> bool:
    return any(map(str.isalpha, word)) and (len(word) >= SHORTEST or not word.isascii())
