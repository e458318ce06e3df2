"""Class-based TF-IDF: the words that distinguish clusters.

Grootendorst, "BERTopic: Neural topic modeling with a class-based TF-IDF procedure", 2022, section
3.3: the weight of a term is its frequency in a cluster times log(1 + A / f), where f is the term's
frequency in all clusters and A is the mean number of terms in a cluster. Here a term counts once
per passage, so that no single passage names a cluster.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Final

from shared.text.terms import find_occurrences, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Phrase = tuple[str, ...]
    """One term, or two adjacent terms."""
    SortKey = Callable[[Phrase], tuple[float, Phrase]]
    """Sorts phrases, the most distinctive first and equally distinctive ones by their terms."""

PAIR_LENGTH: Final = 2
"""The number of terms in a pair, which is the longest kind of phrase."""
MIN_LETTERS: Final = 3
"""The minimum length of a keyword in ASCII characters. In other scripts, one character can be a
word."""
INSIGNIFICANT: Final = frozenset(
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
"""Terms, such as numbers, that search considers but that say nothing about a cluster's subject."""
PAIR_SHARE: Final = 0.5
"""A word and a neighbour form a phrase if they are adjacent in at least this share of the passages
that contain the word."""


class _PhraseCounts:
    """What the passages of a cluster say of each phrase."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.passages: Counter[Phrase] = Counter()
        self.pairs: defaultdict[str, set[Phrase]] = defaultdict(set)
        self.spellings: defaultdict[Phrase, Counter[str]] = defaultdict(Counter)
        for text in texts:
            phrases = list(_extract_phrases(text))
            self.passages.update({phrase for phrase, _ in phrases})
            for phrase, spelling in phrases:
                self.spellings[phrase][spelling] += 1
        for pair in self.passages:
            if len(pair) == PAIR_LENGTH:
                for term in pair:
                    self.pairs[term].add(pair)

    def get_spelling(self, phrase: Phrase) -> str:
        """Return the most frequent spelling of a phrase."""
        spellings = self.spellings[phrase]
        return min(spellings, key=lambda spelling: (-spellings[spelling], spelling))


def find_distinctive_words(clusters: Sequence[Sequence[str]], limit: int) -> list[list[str]]:
    """Return the words that distinguish each cluster from the others, the most distinctive first.

    No two phrases of a cluster share a term. Two words that are mostly adjacent form a phrase.
    """
    counts_by_cluster = [_PhraseCounts(texts) for texts in clusters]
    overall: Counter[Phrase] = Counter()
    for counts in counts_by_cluster:
        overall.update(counts.passages)
    average = overall.total() / max(1, len(counts_by_cluster))
    return [
        _pick_keywords(counts, _make_sort_key(counts, overall, average), limit)
        for counts in counts_by_cluster
    ]


def _pick_keywords(counts: _PhraseCounts, sort_key: SortKey, limit: int) -> list[str]:
    """Return the most distinctive phrases that have no term in common."""
    keywords: dict[str, str] = {}
    used: set[str] = set()
    words = (phrase for phrase in counts.passages if len(phrase) < PAIR_LENGTH)
    for word in sorted(words, key=sort_key):
        if len(keywords) == limit:
            break
        phrase = _extend_with_neighbour(word, counts, used, sort_key)
        spelling = counts.get_spelling(phrase)
        if used.isdisjoint(phrase) and spelling.casefold() not in keywords:
            keywords[spelling.casefold()] = spelling
            used.update(phrase)
    return list(keywords.values())


def _make_sort_key(counts: _PhraseCounts, overall: Counter[Phrase], average: float) -> SortKey:
    """Return the sort key for the phrases of a cluster."""

    def sort_key(phrase: Phrase) -> tuple[float, Phrase]:
        return -counts.passages[phrase] * log(1 + average / overall[phrase]), phrase

    return sort_key


def _extend_with_neighbour(
    word: Phrase, counts: _PhraseCounts, used: set[str], sort_key: SortKey
) -> Phrase:
    """Return the pair of a word and its usual neighbour, or the word alone if it has none."""
    min_passages = max(2, PAIR_SHARE * counts.passages[word])
    pairs = [
        pair
        for pair in counts.pairs[word[0]]
        if counts.passages[pair] >= min_passages and used.isdisjoint(pair)
    ]
    return min(pairs, key=sort_key, default=word)


def _extract_phrases(text: str) -> Iterator[tuple[Phrase, str]]:
    """Yield the significant words of a text, and adjacent pairs of them, with their spellings."""
    significant = set(terms(text)) - INSIGNIFICANT
    words = [
        (term, start, end)
        for term, start, end in sorted(
            set(find_occurrences(text)), key=lambda occurrence: occurrence[1:]
        )
        if term in significant and _is_word(text[start:end])
    ]
    for term, start, end in words:
        yield (term,), text[start:end]
    for (first, start, end), (second, second_start, second_end) in pairwise(words):
        if text[end:second_start] == " " and first != second:
            yield (first, second), text[start:second_end]


def _is_word(word: str) -> bool:
    return any(map(str.isalpha, word)) and (len(word) >= MIN_LETTERS or not word.isascii())
