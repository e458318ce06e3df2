"""Suggests existing names that are similar to an unknown name."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher, get_close_matches
from os.path import commonprefix
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_SIMILARITY: Final = 0.6
"""A suggested name has at least this similarity to the unknown name. It is difflib's default."""
MIN_WORD_SIMILARITY: Final = 0.82
"""A suggested word has at least this similarity to the unknown word.

`breed` has 0.8 to `bread`. Of common English words that 1,500 abstracts of SciFact lack, 11 % get a
suggestion, and 30 % of words with one typo the right one. At 0.75, from four letters on, these were
46 % and 41 %."""
_FEW_VALUED: Final = frozenset({"category", "folder", "language"})
"""The kinds with few values. The message about an unknown one names those there are."""
_MAX_VALUES: Final = 20
_WORD: Final = re.compile(r"[^\W_]+")
_ALL_WORDS_SIMILARITY: Final = 0.9
"""Two names have this similarity if one contains all words of the other. It is less than the 1.0 of
two names with the same words."""


def find_nearest_names(query: str, names: Sequence[str], limit: int = 3) -> list[str]:
    """Return the names most similar to an unknown name, best first.

    Names are compared by their letters, or by whole words, regardless of case, accents and
    punctuation: `loaf` finds `Ida Loaf`, and `Muller, Eva` finds `Eva Müller`. Whole texts are
    compared differently, by their terms (`shared.text.terms`).

    Args:
        names: The existing names. Names that are equally similar keep this order.
    """
    folded_query = _fold(query)
    # The matcher caches its analysis of the second sequence, which is the same for all names.
    matcher = SequenceMatcher(None, "", folded_query, autojunk=False)
    similarities = {name: _compute_similarity(matcher, folded_query, _fold(name)) for name in names}
    nearest = [name for name in similarities if similarities[name] >= MIN_SIMILARITY]
    return sorted(nearest, key=lambda name: -similarities[name])[:limit]


def find_nearest_word(word: str, term: str, known_terms: Sequence[str]) -> str | None:
    """Return the known word that is most similar to an unknown one, or None.

    Terms are stems, so the word gets the ending of the unknown one: for `univrsity`, the known term
    `univers` becomes `university`.
    """
    nearest = get_close_matches(term, known_terms, 1, MIN_WORD_SIMILARITY)
    if not nearest:
        return None
    common = len(commonprefix([word.casefold(), term]))  # noqa: RUF071 - of characters
    stem_ending = term[common:]
    stem = nearest[0].removesuffix(stem_ending)
    return stem + word.casefold()[common:] if stem + stem_ending == nearest[0] else nearest[0]


def unknown_name_message(kind: str, query: str, names: Sequence[str]) -> str:
    """Write the message that a name does not exist, with similar names, or all if there are few.

    Args:
        kind: What is named, in words: a tag, an author, ...
    """
    # The list may be outdated, and contain the unknown name although it no longer exists.
    others = [name for name in names if name != query]
    if kind in _FEW_VALUED and others:
        return f"There is no {kind} {query!r}. There are: {', '.join(others[:_MAX_VALUES])}."
    nearest = find_nearest_names(query, others)
    if not nearest:
        return f"There is no {kind} {query!r}, nor any like it."
    return f"There is no {kind} {query!r}. Nearest: {', '.join(map(repr, nearest))}."


def _fold(name: str) -> str:
    """Return the words of a name without case, accents and punctuation, or else the name."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(plain)) or name.casefold()


def _compute_similarity(matcher: SequenceMatcher[str], query: str, name: str) -> float:
    """Return the similarity of two folded names, from 0 to 1, by words or else by letters.

    Args:
        matcher: A matcher whose second sequence is the query.
    """
    query_words = set(query.split())
    name_words = set(name.split())
    if query_words and name_words and (query_words <= name_words or name_words <= query_words):
        return 1.0 if query_words == name_words else _ALL_WORDS_SIMILARITY
    matcher.set_seq1(name)
    return matcher.ratio() if matcher.quick_ratio() >= MIN_SIMILARITY else 0.0
