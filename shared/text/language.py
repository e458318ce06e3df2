"""Recognizes the language of a text or a question by its script, and a Latin one by its stop words.

A wrong language is worse than none: a question in it is compared by the multilingual half of the
vectors alone (`shared.ai.vector_halves`). So a text with as many English stop words is English, and
a single short word decides nothing. None of SciFact's 1,109 claims and 5,183 abstracts is taken for
another language than English.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import regex

from shared.text.stop_words import AMBIGUOUS, ENGLISH, STOP_WORDS

_SCRIPTS: Final = {
    "Hiragana": "ja",
    "Katakana": "ja",
    "Hangul": "ko",
    "Han": "zh",
    "Cyrillic": "ru",
    "Greek": "el",
    "Arabic": "ar",
    "Hebrew": "he",
    "Thai": "th",
    "Devanagari": "hi",
    "Latin": "",
}
"""The commonest language of each script. Latin letters are those of many."""
_LETTER: Final = regex.compile("|".join(rf"(?P<{name}>\p{{{name}}})" for name in _SCRIPTS))
_SYLLABIC: Final = frozenset({"Hiragana", "Katakana", "Hangul", "Han"})
_SYLLABLE_WEIGHT: Final = 3
"""A character that stands for a syllable or a word counts as this many letters."""
_WORD: Final = regex.compile(r"\p{Latin}[\p{Latin}\p{M}]*")
_MAX_CHARACTERS: Final = 1_000
"""The language of a longer text is that of its beginning."""
_MIN_LONG_WORD: Final = 4
"""A single stop word decides if it has this many letters or one that English lacks."""

_ENGLISH_LOOKALIKES: Final = frozenset(
    {"ale", "come", "des", "door", "dove", "est", "fire", "han", "het", "main", "mine", "mini"}
    | {"per", "plus", "pour", "sans", "sen", "son", "sous", "sur", "till", "van", "war"}
)
"""Words of English texts that are stop words of another language."""


def detect_language(text: str) -> str | None:
    """Return the language of a text as an ISO 639-1 code, or None if it cannot be told."""
    beginning = text[:_MAX_CHARACTERS]
    script = "Latin" if beginning.isascii() else _detect_script(beginning)
    return _SCRIPTS[script] or _detect_latin_language(beginning) if script else None


def is_foreign(text: str) -> bool:
    """Return whether a text is recognized as one in another language than English."""
    return detect_language(text) not in {"en", None}


def is_likely_foreign(text: str) -> bool:
    """Return whether a question is more likely in another language than in English.

    One word may tell, as in "Entstehung der Alpen", unless as many are English. Only for questions
    about texts in several languages: "van der Waals" is taken for German.
    """
    counts = Counter(_WORD.findall(text.casefold()))
    english = len((ENGLISH - AMBIGUOUS) & counts.keys())
    others = (_find_telling_words(language, counts) for language in STOP_WORDS.keys() - {"en"})
    return is_foreign(text) or max(map(len, others)) > english


def _detect_script(text: str) -> str | None:
    """Return the script of most of the text, or None if it has no letters."""
    letters = Counter(match.lastgroup for match in _LETTER.finditer(text))
    if letters["Hiragana"] or letters["Katakana"]:  # Japanese has Chinese characters, too
        letters["Hiragana"] += letters.pop("Katakana", 0) + letters.pop("Han", 0)
    for script in _SYLLABIC & letters.keys():
        letters[script] *= _SYLLABLE_WEIGHT
    return max(letters, key=letters.__getitem__, default=None)


def _detect_latin_language(text: str) -> str | None:
    counts = Counter(_WORD.findall(text.casefold()))
    totals = {
        language: len(stop_words & counts.keys()) for language, stop_words in STOP_WORDS.items()
    }
    best = max(totals, key=totals.__getitem__)  # English, if another has as many
    telling = _find_telling_words(best, counts)
    is_told = len(telling) > 1 or any(
        len(word) >= _MIN_LONG_WORD or not word.isascii() for word in telling
    )
    if is_told:
        return best
    return "en" if totals["en"] else None


def _find_telling_words(language: str, counts: Counter[str]) -> frozenset[str]:
    """Return the stop words of a language among words, without those that English has, too."""
    return (STOP_WORDS[language] & counts.keys()) - ENGLISH - AMBIGUOUS - _ENGLISH_LOOKALIKES
