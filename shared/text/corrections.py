"""Recognizes that of two similar texts, one may correct the other.

Cosines and common terms are blind to the smallest changes of meaning. These count as corrections:

- other numbers: "timeout 5 s" and "timeout 50 s",
- more negations: "Use retries" and "Do not use retries",
- the same words in another order, or with other signs: "Alice reports to Bob" and "Bob reports to
  Alice", "written in C" and "written in C++".

The lists of words are short: English, German, French, Spanish, Chinese and Japanese. Other
opposites, such as "enable" and "disable", are not recognized.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from shared.text.folding import fold_text

_NEGATIONS: Final = frozenset(
    [
        # English, German, French, Spanish
        *("not", "no", "never", "none", "nothing", "nobody", "neither", "nor", "without"),
        *("cannot", "avoid", "nicht", "nie", "niemals", "nichts", "niemand", "weder", "ohne"),
        *("kein", "keine", "keinen", "keinem", "keiner", "keines", "ne", "n", "pas", "jamais"),
        *("sans", "aucun", "aucune", "rien", "ni", "non", "nunca", "jamás", "sin", "ningún"),
        *("ninguno", "ninguna", "nada", "nadie"),
    ]
)
_NUMBER_WORDS: Final = {
    word: str(number)
    for number, words in {
        2: "two zwei deux dos",
        3: "three drei trois tres",
        4: "four vier quatre cuatro",
        5: "five fünf cinq cinco",
        6: "six sechs seis",
        7: "seven sieben sept siete",
        8: "eight acht huit ocho",
        9: "nine neun neuf nueve",
        10: "ten zehn dix diez",
    }.items()
    for word in words.split()
}

# A character of Chinese or Japanese, or a word in letters and digits.
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+(?:'t\b)?")
_UNSPACED_NEGATION: Final = re.compile(r"[不没沒无無非未别別勿莫]|な[いくし]|なかっ|ません|ずに")
# A minus follows a space or nothing: the hyphen of "utf-8" is none.
_NUMBER: Final = re.compile(r"(?:(?<!\S)[-\u2212])?\d+(?:[.,:]\d+)*|[一二三四五六七八九十百千万]")
_PUNCTUATION: Final = '.,;:()"\u3001\u3002\uff0c\uff1a\uff1b\u201c\u201d\u201e'


def may_correct(text: str, other: str) -> bool:
    """Return whether a text may correct another that is similar, in either order."""
    first, second = (fold_text(line).replace("\u2019", "'") for line in (text, other))
    if first == second:
        return False
    if _count_numbers(first) != _count_numbers(second):
        return True
    if _count_negations(first) != _count_negations(second):
        return True
    has_same_words = set(_WORD.findall(first)) == set(_WORD.findall(second))
    return has_same_words and _split(first) != _split(second)


def _count_numbers(line: str) -> Counter[str]:
    numbers = _NUMBER.findall(line)
    return Counter([*numbers, *filter(None, map(_NUMBER_WORDS.get, _WORD.findall(line)))])


def _count_negations(line: str) -> int:
    words = _WORD.findall(line)
    negations: int = sum(word in _NEGATIONS or word.endswith("n't") for word in words)
    return negations + len(_UNSPACED_NEGATION.findall(line))


def _split(line: str) -> list[str]:
    """Return the words of a text with their signs, but without punctuation around them."""
    return [word for part in line.split() if (word := part.strip(_PUNCTUATION))]
