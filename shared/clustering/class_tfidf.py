"""Class-based TF-IDF: the words that distinguish clusters.

Grootendorst, "BERTopic: Neural topic modeling with a class-based TF-IDF procedure", 2022, section
3.3: the weight of a term is its frequency in a cluster times log(1 + A / f), where f is the term's
frequency in all clusters and A is the mean number of terms in a cluster. Here a term counts once
per passage, so that no single passage names a cluster, and terms of titles count more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from math import ceil, log
from typing import TYPE_CHECKING, Final

import regex

from shared.text.language import detect_language
from shared.text.sentences import split_sentences
from shared.text.stop_words import DATA
from shared.text.terms import find_occurrences, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Phrase = tuple[str, ...]
    """One term, or two adjacent terms."""
    SortKey = Callable[[Phrase], tuple[float, Phrase]]
    """Sorts phrases, the most distinctive first and equally distinctive ones by their terms."""

PAIR_LENGTH: Final = 2
"""The number of terms in a pair, which is the longest kind of phrase."""
MIN_LETTERS: Final = 3
"""The minimum length of a keyword in ASCII characters. In other scripts, one character can be a
word."""
TITLE_WEIGHT: Final = 1.5
"""A phrase of a source's title counts as much as this many passages."""
FEW_SOURCES: Final = 2
SOURCE_SHARE: Final = 0.2
"""In a cluster of more sources, a keyword is in two, and in at least this share of them."""
MIN_SHARED_BEGINNING: Final = 5
"""Of two keywords that begin with the same letters, this many or all of one, only one is kept."""
_UNSPACED: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_UNSPACED_WORD: Final = regex.compile(
    r"(?<!\p{Han})\p{Han}{2,4}(?!\p{Han})|[\p{Katakana}\u30fc]{2,}|\p{Hangul}{2,}"
)
"""A word of a language without spaces: characters of one script, between those of another."""
PAIR_SHARE: Final = 0.5
"""A word and a neighbour form a phrase if they are adjacent in at least this share of the passages
that contain the word."""


@dataclass(frozen=True, slots=True)
class TitledText:
    """The text of a passage, with the title of its source and its tags."""

    title: str
    content: str
    tags: tuple[str, ...] = ()


class _PhraseCounts:
    """What the passages of a cluster say of each phrase.

    Attributes:
        weights: How much the passages and titles that contain each phrase count. Passages of one
            source count less the more they are: together, the square root of their number.
        sources: The number of sources that contain each phrase, in a passage or in the title.
        min_sources: The minimum number of sources that contain a keyword.
    """

    def __init__(self, passages: Sequence[TitledText]) -> None:
        self.weights: defaultdict[Phrase, float] = defaultdict(float)
        self.passages: Counter[Phrase] = Counter()
        self.sources: Counter[Phrase] = Counter()
        self.pairs: defaultdict[str, set[Phrase]] = defaultdict(set)
        self.spellings: defaultdict[Phrase, Counter[str]] = defaultdict(Counter)
        titles = Counter(passage.title for passage in passages)
        in_titles = {title: self._count(title, TITLE_WEIGHT) for title in titles}
        for passage in passages:
            prose = "\n".join(split_sentences(passage.content))
            phrases = self._count(prose, titles[passage.title] ** -0.5)
            self.passages.update(phrases)
            in_titles[passage.title] |= phrases
        self.sources.update(chain.from_iterable(in_titles.values()))
        has_few_sources = len(titles) <= FEW_SOURCES
        self.min_sources = 1 if has_few_sources else max(2, ceil(SOURCE_SHARE * len(titles)))
        for pair in self.passages:
            if len(pair) == PAIR_LENGTH:
                for term in pair:
                    self.pairs[term].add(pair)

    def _count(self, text: str, weight: float) -> set[Phrase]:
        phrases = list(_extract_phrases(text))
        for phrase, spelling in phrases:
            self.spellings[phrase][spelling] += 1
        distinct = {phrase for phrase, _ in phrases}
        for phrase in distinct:
            self.weights[phrase] += weight
        return distinct

    def get_spelling(self, phrase: Phrase) -> str:
        """Return the most frequent spelling of a phrase."""
        spellings = self.spellings[phrase]
        return min(spellings, key=lambda spelling: (-spellings[spelling], spelling))


def find_distinctive_words(clusters: Sequence[Sequence[TitledText]], limit: int) -> list[list[str]]:
    """Return the words that distinguish each cluster from the others, the most distinctive first.

    No two phrases of a cluster share a term or begin alike. Two words that are mostly adjacent form
    a phrase. In a cluster of many sources, a phrase of a single one does not count.
    """
    counts_by_cluster = [_PhraseCounts(passages) for passages in clusters]
    overall: defaultdict[Phrase, float] = defaultdict(float)
    for counts in counts_by_cluster:
        for phrase, weight in counts.weights.items():
            overall[phrase] += weight
    average = sum(overall.values()) / max(1, len(counts_by_cluster))
    return [
        _pick_keywords(counts, _make_sort_key(counts, overall, average), limit)
        for counts in counts_by_cluster
    ]


def _pick_keywords(counts: _PhraseCounts, sort_key: SortKey, limit: int) -> list[str]:
    """Return the most distinctive phrases that have no term in common."""
    keywords: list[str] = []
    used: set[str] = set()
    words = (
        phrase
        for phrase, number in counts.sources.items()
        if len(phrase) < PAIR_LENGTH and number >= counts.min_sources
    )
    for word in sorted(words, key=sort_key):
        if len(keywords) == limit:
            break
        phrase = _extend_with_neighbour(word, counts, used, sort_key)
        spelling = counts.get_spelling(phrase)
        if used.isdisjoint(phrase) and not any(begin_alike(spelling, other) for other in keywords):
            keywords.append(spelling)
            used.update(phrase)
    return keywords


def begin_alike(first: str, second: str) -> bool:
    """Return whether two words begin with the same letters, as words of one stem mostly do."""
    first, second = sorted((first.casefold(), second.casefold()), key=len)
    return second.startswith(first[:MIN_SHARED_BEGINNING])


def _make_sort_key(
    counts: _PhraseCounts, overall: Mapping[Phrase, float], average: float
) -> SortKey:
    """Return the sort key for the phrases of a cluster."""

    def sort_key(phrase: Phrase) -> tuple[float, Phrase]:
        return -counts.weights[phrase] * log(1 + average / overall[phrase]), phrase

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
    words = find_words(text)
    for term, start, end in words:
        yield (term,), text[start:end]
    for (first, start, end), (second, second_start, second_end) in pairwise(words):
        if text[end:second_start] == " " and first != second:
            yield (first, second), text[start:second_end]


def find_words(text: str) -> list[tuple[str, int, int]]:
    """Return the term, the start and the end of each significant word, in order."""
    common = _load_common_terms()
    language = detect_language(text) or "en"
    significant = set(terms(text)) - common["en"] - common.get(language, frozenset())
    words = {
        (term, start, end)
        for term, start, end in find_occurrences(text)
        if term in significant and not _UNSPACED.match(term) and _is_word(text[start:end])
    }
    words |= {(match[0], *match.span()) for match in _UNSPACED_WORD.finditer(text)}
    return sorted(words, key=lambda word: word[1:])


@cache
def _load_common_terms() -> dict[str, frozenset[str]]:
    """Load, by language, terms that search considers but that say nothing about a subject."""
    lines = (DATA / "common-words.txt").read_text("utf-8").splitlines()
    return {line[:2]: frozenset(terms(line[3:])) for line in lines}


def _is_word(word: str) -> bool:
    return word[0].isalpha() and (len(word) >= MIN_LETTERS or not word.isascii())
