"""The terms of a text: what the inverted index holds, and a query asks for.

Words too common to look for, in English and German: the Snowball project's lists.

Where they come from and their licence: `data/NOTICE.txt`.

What a text is indexed and looked up by: its terms.

A text is normalised (NFKC, case folded) and cut into words. Stop words go, what is left is stemmed.

Which term a word becomes depends on the word alone, never on a guess of the text's language: a
query of two words is too short to guess by, and what query and document stem differently never
meets. So words in Latin letters pass the English stemmer and then the German one. Measured against
the other choices (nDCG@10 of BM25 over the training claims of SciFact; share of the inflected forms
that meet, over the 30,000 commonest words of a language, weighted by frequency):

| stemmer | SciFact | English forms | German forms |
|---|---|---|---|
| none | 0.668 | 0 | 0 |
| English | 0.698 | 0.81 | 0.13 |
| German | 0.684 | 0.32 | 0.55 |
| English, then German | 0.699 | 0.84 | 0.54 |
| German for documents, English for a query guessed wrong | | 0.39 | 0.23 |

The price of both in a row: of the English pairs that meet, 0.59 instead of 0.66 are forms of one
word (care meets car).

Scripts written without spaces, and Korean, whose particles are written onto the word, give pairs of
neighbouring characters.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import regex
import Stemmer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

_DATA: Final = Path(__file__).parent / "data"


def _words(language: str) -> frozenset[str]:
    return frozenset((_DATA / f"stop-words.{language}.txt").read_text("utf-8").split())


ENGLISH: Final = _words("english")
GERMAN: Final = _words("german")

AMBIGUOUS: Final = frozenset(
    {"als", "am", "an", "das", "den", "des", "die", "dies", "er", "es", "hat", "im", "in"}
    | {"man", "mir", "mit", "nun", "so", "war", "was", "will"}
)
"""Stop words that say little about the language: the other one has them, or writes names that
look like them (ALS, ER, MIT)."""


ANALYZER_VERSION: Final = 1
"""Raise it when a text's terms change: what is indexed is then indexed anew."""

MAX_TERM: Final = 64
"""Code points in a term: longer words are cut here. The longest German word of any use has 63."""

_ELISION: Final = 2
"""Letters of a piece beside an apostrophe that says nothing: l'homme, Darwin's."""

_UNSPACED: Final = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\u30fc\p{Hangul}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{N}]"
)
_LETTER: Final = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
_WORD: Final = regex.compile(
    rf"""(?V1)
    (?P<unspaced>(?:[{_UNSPACED}]\p{{M}}*+)++)
    | (?:{_LETTER}\p{{M}}*+)++(?:'(?:{_LETTER}\p{{M}}*+)++)*+
    """,
    regex.VERBOSE,
)
# A name in code is a term as a whole, beside its words: an_order is no order.
_NAME: Final = regex.compile(r"[\p{L}\p{N}]++(?:_++[\p{L}\p{N}]++)++")
_CHARACTER: Final = regex.compile(r".\p{M}*+", regex.DOTALL)
# Soft hyphens and joiners stand inside words, a typographic apostrophe is one.
_SPELLING: Final = str.maketrans("\u2019", "'", "\u00ad\u200c\u200d\u2060\ufeff")

# A script that mostly writes one language is stemmed as that language.
_STEMMERS: Final = {
    "latin": ("english", "german"),
    "cyrillic": ("russian",),
    "greek": ("greek",),
    "arabic": ("arabic",),
    "devanagari": ("hindi",),
}
_SCRIPT: Final = regex.compile("|".join(rf"(?P<{script}>\p{{{script}}})" for script in _STEMMERS))
_ALGORITHMS: Final = {
    name: Stemmer.Stemmer(name, 0) for names in _STEMMERS.values() for name in names
}
_ACCENT: Final = regex.compile(r"[\u0300-\u036f]")


def terms(text: str) -> list[str]:
    """The terms of a text, repeats included; the same for a query and a document.

    They come in the order of the text, and after them the names that stand in code, whole.

    Only German stop words depend on the words around them: they go from German text alone.
    """
    normal = _normal(text)
    matches = list(_WORD.finditer(normal))
    words = [match[0] for match in matches if not match["unspaced"]]
    stop_words = ENGLISH | GERMAN if _is_german(words) else ENGLISH
    found: list[str] = []
    for match in matches:
        if match["unspaced"]:
            found += _pairs(match[0])
        else:
            found += [_stem(word) for word in _pieces(match[0]) if word not in stop_words]
    return found + [match[0][:MAX_TERM] for match in _NAME.finditer(normal)]


def term_occurrences(text: str) -> Iterator[tuple[str, int, int]]:
    """Where the terms of a text stand in it: each with its start and end, in code points.

    Near enough to mark them for a reader: where normalising a text makes words of it that it does
    not show, these are missing.
    """
    # Of what normalising changes, an apostrophe alone decides where words end.
    spans = [match.span() for match in _NAME.finditer(text)]
    for match in _WORD.finditer(text.replace("\u2019", "'")):
        spans += _pair_spans(match) if match["unspaced"] else [match.span()]
    for start, end in sorted(spans):
        yield from ((term, start, end) for term in _word_terms(text[start:end]))


def resemblance(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Return the Jaccard index of two sets of terms, from 0 to 1; 0 if both are empty.

    Broder calls this the resemblance of two documents ("On the Resemblance and Containment of
    Documents", SEQUENCES 1997).
    """
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def _normal(text: str) -> str:
    """Fold what readers take for the same: case, ligatures, widths, invisible characters."""
    folded = unicodedata.normalize("NFKC", text.translate(_SPELLING)).casefold()
    return unicodedata.normalize("NFKC", folded)


def _is_german(words: list[str]) -> bool:
    """Tell by the words that only one of the two languages has."""
    german = sum(word in GERMAN and word not in AMBIGUOUS for word in words)
    return german > sum(word in ENGLISH and word not in AMBIGUOUS for word in words)


def _pieces(word: str) -> list[str]:
    if "'" not in word:
        return [word]
    if word in ENGLISH:
        return []
    return [piece for piece in word.split("'") if len(piece) > _ELISION]


def _pairs(run: str) -> Iterator[str]:
    characters = [match[0] for match in _CHARACTER.finditer(run)]
    if len(characters) == 1:
        yield run[:MAX_TERM]
    for pair in pairwise(characters):
        yield "".join(pair)[:MAX_TERM]


def _pair_spans(run: regex.Match[str]) -> list[tuple[int, int]]:
    """Where the pairs of a run stand in its text; a lone character stands for itself."""
    starts = [each.start() for each in _CHARACTER.finditer(run.string, *run.span())]
    ends = [*starts[1:], run.end()]
    return list(zip(starts, ends[1:] or ends, strict=False))


@lru_cache(maxsize=1 << 12)
def _word_terms(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    stem = word[:MAX_TERM]
    script = _SCRIPT.search(stem)
    if script is None:
        return stem
    if script.lastgroup == "latin":
        stem = _plain(stem)
    for name in _STEMMERS[script.lastgroup]:
        # Of some Greek words the stemmer leaves nothing, and nothing is no term.
        stem = _ALGORITHMS[name].stemWord(stem) or stem
    return stem


def _plain(word: str) -> str:
    """Write a word without accents, as many a query is typed; the German stemmer drops them too."""
    return word if word.isascii() else _ACCENT.sub("", unicodedata.normalize("NFKD", word))
