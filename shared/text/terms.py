"""Analyses a text into terms, by which it is indexed and found.

A text is normalized (NFKC, case folded) and split into words. Stop words, which are too common to
search for, are dropped. The other words are stemmed, which means reduced to a form that their
inflections share. The stop words are the Snowball project's lists for English and German; their
source and licence are in `data/NOTICE.txt`.

A word's term depends on the word alone, not on the language of the text: the language of a query of
two words cannot be detected, and a word that is stemmed differently in query and document is never
found. So words in Latin letters pass the English stemmer and then the German one. The table
compares this with other choices. The first column is the nDCG@10 of BM25 over SciFact's training
claims. The others are the shares of inflected forms that have the same term, over the 30,000
commonest words of the language, weighted by frequency.

| stemmer | SciFact | English forms | German forms |
|---|---|---|---|
| none | 0.668 | 0 | 0 |
| English | 0.698 | 0.81 | 0.13 |
| German | 0.684 | 0.32 | 0.55 |
| English, then German | 0.699 | 0.84 | 0.54 |
| German for documents, English for a query guessed wrong | | 0.39 | 0.23 |

Two stemmers in a row cost precision: of all pairs of English words with the same term, 0.59 instead
of 0.66 are forms of one word ("care" and "car" collide).

In scripts without spaces, and in Korean, whose particles are attached to the word, each pair of
adjacent characters is a term. An emoji is a term in itself, whatever its skin colour.

A word that has several spellings also has variants: further terms, by which it is found, but which
do not count into the length of a text.

| text | its terms | their variants |
|---|---|---|
| `getUserById` | `getuserbyid` | `get`, `user`, `id` |
| `Node.js`, `HTTP/2` | `nod`, `js`, `http`, `2` | `nodej`, `http2` |
| `1200kg` | `1200kg` | `1200`, `kg` |
| `10,000` | `10`, `000` | `10000` |
| `C#` | `c` | `c#` |
| `人工` | `人工` | `人`, `工` |
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import regex
import Stemmer

from shared.text.stop_words import AMBIGUOUS, DATA, ENGLISH, GERMAN
from shared.text.term_counts import TermCounts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

_IRREGULAR: Final[dict[str, str]] = dict(
    line.split() for line in (DATA / "irregular-forms.english.txt").read_text("utf-8").splitlines()
)
"""The word of each inflected form that a stemmer cannot reduce: `mice`, of `mouse`.

Forms that are also other words are missing, such as `leaves` and `felt`."""

ANALYZER_VERSION: Final = 3
"""The version of the analyzer. If it changes, the jobs index every text again."""

MAX_TERM: Final = 64
"""A term has at most this many code points. A longer word is cut off. The longest German word in
common use has 63 letters."""

TITLE_WEIGHT: Final = 3
"""How many times a term of a title counts."""

_MAX_ELISION: Final = 2
"""A part of a word of up to this many letters before or after an apostrophe is dropped: the `l` of
`l'homme`, the `s` of `Darwin's`."""

# Letters and digits of scripts without spaces, and of Korean.
_UNSPACED: Final = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\u30fc\p{Hangul}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{N}]"
)
_LETTER: Final = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
# The two letters of a flag, or a picture, without signs such as © and ↔.
_EMOJI: Final = (
    r"\p{Regional_Indicator}{2}"
    r"|[\p{Extended_Pictographic}&&[\p{Emoji_Presentation}\u2600-\u27BF\U0001F000-\U0001FFFF]]"
)
# A word, which may have apostrophes, a run of characters of scripts without spaces, or an emoji.
_WORD: Final = regex.compile(
    rf"""(?V1)
    (?:{_LETTER}\p{{M}}*+)++(?:'(?:{_LETTER}\p{{M}}*+)++)*+
    | (?P<unspaced>(?:[{_UNSPACED}]\p{{M}}*+)++)
    | (?P<emoji>{_EMOJI})
    """,
    regex.VERBOSE,
)
# A name in code, such as an_order, is a term as a whole, in addition to the terms of its words.
_NAME: Final = regex.compile(r"[\p{L}\p{N}]++(?:_++[\p{L}\p{N}]++)++")
_TOKEN: Final = re.compile(r"\S+")
# Words with the signs between them, and the signs of C++ and C#.
_COMPOUND: Final = re.compile(r"\w+(?:[-\u2010\u2011.,']\w+|/\d\w*)*(?:(?:\+\+|#)(?!\w))?")
_PUNCTUATION: Final = ".,;:!?()[]\"'"
# A part of a word: digits, capitals, or letters of which only the first may be a capital.
_PART: Final = regex.compile(
    r"(?V1)\p{N}+|\p{Lu}{2,}(?=s(?!\p{Ll}))|\p{Lu}+(?!\p{Ll})|\p{Lu}?[[\p{L}\p{M}]--\p{Lu}]+"
)
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}([., '])\d{3}(?:\1\d{3})*(?![\d])")
_SYLLABLE: Final = regex.compile(r"[\p{Han}\p{Hangul}]")
_CHARACTER: Final = regex.compile(r".\p{M}*+", regex.DOTALL)
# Soft hyphens and joiners are dropped, and typographic apostrophes replaced by plain ones.
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
# Letters that Unicode does not decompose, as they are written on a keyboard that lacks them.
_PLAIN_LETTERS: Final = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ħ": "h",
        "\u0131": "i",
    }
)


def fold_letters(text: str) -> str:
    """Fold case, accents and width of Latin letters and digits. Every character keeps its place."""
    return "".join(map(_fold_letter, text))


@lru_cache(maxsize=1 << 10)
def _fold_letter(letter: str) -> str:
    base = unicodedata.normalize("NFKD", letter)[0]
    return base.lower() if base.isascii() else letter.lower()[0]


def terms(text: str) -> list[str]:
    """Return the terms of a query or a document, repeats included.

    The terms of words come first, in the order of the text, and then whole names in code, such as
    `an_order`. German stop words are dropped only from German text, because some are English words.
    """
    normal = _normalize(text)
    matches = list(_WORD.finditer(normal))
    words = [match[0] for match in matches if not match.lastgroup]
    stop_words = ENGLISH | GERMAN if _is_german(words) else ENGLISH
    result: list[str] = []
    for match in matches:
        match match.lastgroup:
            case "unspaced":
                result += _iterate_pairs(match[0])
            case "emoji":
                result.append(match[0])
            case _:
                words = _split_elision(match[0])
                result += [_stem(word) for word in words if word not in stop_words]
    return result + [match[0][:MAX_TERM] for match in _NAME.finditer(normal)]


def find_variants(text: str) -> list[str]:
    """Return the variants of a query's words, repeats included."""
    return list(_iterate_variants(_normalize_spelling(text)))


def count_terms(text: str, title: str = "") -> TermCounts:
    """Count the terms of a document and their variants.

    Single Chinese and Korean characters count as well, for queries of one character.

    Args:
        title: The part of the text that is its title, whose terms count three times.
    """
    words = terms(text)
    counts = Counter(words)
    counts.update(find_variants(text))
    counts.update((TITLE_WEIGHT - 1) * [*terms(title), *find_variants(title)])
    if not text.isascii():
        counts.update(_SYLLABLE.findall(_normalize(text)))
    return TermCounts(counts, len(words) or min(1, len(counts)))


def find_occurrences(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each term of a text with the start and the end of its word, in code points.

    Terms of words that appear only after normalization are missing, which is good enough for
    highlighting.
    """
    for token in _TOKEN.finditer(text):
        offset, written = token.start(), token[0]
        # Long tokens bypass the cache, so that the cache stays small.
        find = (
            _find_token_occurrences
            if len(written) <= MAX_TERM
            else _find_token_occurrences.__wrapped__
        )
        for term, start, end in find(written):
            yield term, offset + start, offset + end


def find_variant_occurrences(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each variant of a text, as `find_occurrences` does, and each single character."""
    yield from _find_variant_spans(text.replace("\u2019", "'"))
    if not text.isascii():
        yield from ((match[0], *match.span()) for match in _SYLLABLE.finditer(text))


MIN_COPY: Final = 0.6
"""The minimum resemblance of a text and a copy of it with typos, other line breaks or renamed
variables, as measured in `shared.traces.near_duplicates`."""


def compute_resemblance(terms: AbstractSet[str], other_terms: AbstractSet[str]) -> float:
    """Return the Jaccard index of two sets of terms, from 0 to 1, or 0 if both are empty.

    Broder calls this the resemblance of two documents ("On the Resemblance and Containment of
    Documents", SEQUENCES 1997).
    """
    union = len(terms | other_terms)
    return len(terms & other_terms) / union if union else 0.0


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", _normalize_spelling(text).casefold())


def _normalize_spelling(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_SPELLING))


def _iterate_variants(text: str) -> Iterator[str]:
    """Yield the variants in a text of normal spelling."""
    yield from (variant for variant, _, _ in _find_variant_spans(text))
    for match in _THOUSANDS.finditer(text):
        yield "".join(filter(str.isdigit, match[0]))


def _find_variant_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the variants of compounds that are no longer than a term, with their spans."""
    end = 0
    for token in text.split():
        word = token.strip(_PUNCTUATION)
        if word.isalpha() and (word.islower() or word[1:].islower()):
            continue  # a common word, as almost all are, and they take most of the time
        start = text.index(token, end)
        end = start + len(token)
        for match in _COMPOUND.finditer(token):
            if len(match[0]) <= MAX_TERM:
                for variant in _find_compound_variants(match[0]):
                    yield variant, start + match.start(), start + match.end()


@lru_cache(maxsize=1 << 14)
def _find_compound_variants(compound: str) -> tuple[str, ...]:
    """Return the variants of the words of a compound, and of the compound."""
    words = terms(compound)
    variants = dict.fromkeys(_iterate_compound_variants(compound))
    return tuple(variant for variant in variants if variant not in words)


def _iterate_compound_variants(compound: str) -> Iterator[str]:
    """Yield the parts of the words of a compound, and then what its words make together."""
    folded = compound.casefold()
    words = [match[0] for match in _WORD.finditer(compound) if not match.lastgroup]
    for parts in (_PART.findall(word) for word in words if "'" not in word):
        has_digits = any(map(str.isdigit, parts))
        for part in map(str.casefold, parts if len(parts) > 1 else ()):
            if (len(part) > 1 or has_digits) and part not in ENGLISH:
                yield _stem(part)
    joined = "".join(filter(str.isalnum, folded))
    if compound.endswith(("+", "#")):
        yield folded[:MAX_TERM]
    elif joined != folded and "_" not in compound and not (joined.isdigit() or folded in ENGLISH):
        yield _stem(joined)


def _is_german(words: list[str]) -> bool:
    """Return whether more of the words are unambiguous German stop words than English ones."""
    german = sum(word in GERMAN and word not in AMBIGUOUS for word in words)
    return german > sum(word in ENGLISH and word not in AMBIGUOUS for word in words)


def _split_elision(word: str) -> list[str]:
    """Split a word at its apostrophes, and drop short parts. A stop word like "don't" has none."""
    if "'" not in word:
        return [word]
    if word in ENGLISH:
        return []
    return [piece for piece in word.split("'") if len(piece) > _MAX_ELISION]


def _iterate_pairs(run: str) -> Iterator[str]:
    """Yield each pair of adjacent characters of a run, or an only character."""
    characters = [match[0] for match in _CHARACTER.finditer(run)]
    if len(characters) == 1:
        yield run[:MAX_TERM]
    for pair in pairwise(characters):
        yield "".join(pair)[:MAX_TERM]


def _pair_spans(run: regex.Match[str]) -> list[tuple[int, int]]:
    """Return the span of each pair of adjacent characters, or the span of an only character."""
    starts = [match.start() for match in _CHARACTER.finditer(run.string, *run.span())]
    ends = [*starts[1:], run.end()]
    return list(zip(starts, ends[1:] or ends, strict=False))


@lru_cache(maxsize=1 << 14)
def _find_token_occurrences(token: str) -> tuple[tuple[str, int, int], ...]:
    """Return the terms of a token, which has no spaces, with their start and end."""
    # Of all that normalization changes, only the apostrophe affects where words end.
    spans = [match.span() for match in _NAME.finditer(token)]
    for match in _WORD.finditer(token.replace("\u2019", "'")):
        if match.lastgroup == "unspaced":
            spans += _pair_spans(match)
        else:
            spans.append(match.span())
    return tuple(
        (term, start, end) for start, end in sorted(spans) for term in terms(token[start:end])
    )


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    """Return the stem of a word, by the stemmers of its script, or the word if there are none."""
    stem = _IRREGULAR.get(word, word)[:MAX_TERM]
    script = _SCRIPT.search(stem)
    if script is None:
        return stem
    if script.lastgroup == "latin":
        stem = _strip_accents(stem)
    for name in _STEMMERS[script.lastgroup]:
        # The stemmer returns an empty stem for some Greek words, but a term must not be empty.
        stem = _ALGORITHMS[name].stemWord(stem) or stem
    return stem


def _strip_accents(word: str) -> str:
    """Remove accents and strokes, which queries often lack. The German stemmer does so, too."""
    if word.isascii():
        return word
    without_accents: str = _ACCENT.sub("", unicodedata.normalize("NFKD", word))
    return without_accents.translate(_PLAIN_LETTERS)
