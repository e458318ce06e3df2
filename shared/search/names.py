"""Finds the names of authors in a question: `Ann Helm`, `Helm, Ann`, `村上春樹`."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import regex

from shared.index.facets import Facet, Kind, join_unspaced, make_named_facet
from shared.text.stop_words import GERMAN
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from shared.index.bm25 import Postings

MAX_NAME_WORDS: Final = 4
"""The maximum number of words, or of Chinese and Japanese characters, of a name."""
MAX_NAMES: Final = 30
"""The maximum number of possible names that are looked up, which one query of Firestore accepts."""
_PARTICLE: Final = r"(?:von|van|der|den|de|del|della|da|di|du|le|la|ter|bin|al)"
_CAPITALISED: Final = r"\p{Lu}[\w'\u2019-]*\.?"
_NAME: Final = regex.compile(rf"{_CAPITALISED}(?:,? (?:{_PARTICLE} )*{_CAPITALISED})+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_PROPER_WORD: Final = regex.compile(r"\b\p{Lu}[\w-]*")
_INTRODUCTION: Final = regex.compile(
    r"\b(?:by|from|of|according to|von|laut|sagt|schreibt|meint|de|par|según|selon|dice|dit|écrit)"
    rf"\s+(?:{_PARTICLE}\s+)*$",
    regex.IGNORECASE,
)
"""The words after which a capitalised word is the name of a person."""
_STATEMENT: Final = regex.compile(
    r"['\u2019]s?(?!\w)|\s+(?:say|think|write|argue|mean)s?\b|\s+(?:said|thought|wrote|argued)\b"
    r"|\s+(?:sagte?|schreibt|schrieb|meint|dice|dijo|escribe|escribió|dit|écrit)\b"
)
"""The words before which a capitalised word is the name of a person."""
_TOPIC: Final = regex.compile(r"\s+(?:on|about|über|zu|sobre|sur)\b")
"""The words before which a capitalised first word is the name of a person: `Plato on love`."""
_PARTICLES: Final = regex.compile(rf"\b(?:{_PARTICLE}\s+)+$", regex.IGNORECASE)
_NEXT_NAME: Final = regex.compile(rf",?\s+{_CAPITALISED}")
_GENITIVE: Final = re.compile(r"['\u2019]s?$")
_PEOPLE: Final = re.compile(r"\s*(?:;|&|/|、|\band\b|\bund\b|\by\b|\bet\b)\s*")


def find_author_facets(
    question: str, postings: Mapping[str, Postings] | None = None
) -> list[Facet]:
    """Return the facets of the authors whom a question may name, at most MAX_NAMES.

    Words in Latin letters are names if they are capitalised.

    Args:
        postings: The postings of the question's terms, if they have been read. Only names whose
            words occur together in a document are returned.
    """
    names = _iterate_names(question)
    if postings is not None:
        names = (name for name in names if _occurs_together(_list_name_terms(name), postings))
    facets = dict.fromkeys(make_named_facet(Kind.AUTHOR, name) for name in names)
    return list(facets)[:MAX_NAMES]


def _occurs_together(words: Sequence[str], postings: Mapping[str, Postings]) -> bool:
    """Return whether a document has all of these words."""
    if not words or not all(word in postings for word in words):
        return False
    return bool(set.intersection(*(set(postings[word].entries) for word in words)))


def _iterate_names(question: str) -> Iterator[str]:
    """Yield the parts of a question that may be the name of an author, the longest first."""
    for run in _NAME.findall(question):
        words = _GENITIVE.sub("", run).split(" ")
        for length in range(min(len(words), MAX_NAME_WORDS), 1, -1):
            for start in range(len(words) - length + 1):
                yield " ".join(words[start : start + length])
    for run in _UNSPACED.findall(question):
        for length in range(MAX_NAME_WORDS, 1, -1):
            for start in range(len(run) - length + 1):
                yield run[start : start + length]


def find_named_authors(
    question: str, documents: Collection[tuple[str | None, AbstractSet[str]]]
) -> dict[str, bool]:
    """Return the authors whom a question names, each with whether it names them in full.

    A name of several words is named if all of them but initials stand together in the question.
    A surname alone, or a name of one word, counts if the question introduces it as a person's, no
    document has it but from its author, and no other author has this surname.

    Args:
        documents: The author of each document, and the words of the question that it has.
    """
    question_words = _list_name_terms(question)
    names = {author: _read_names(author) for author, _ in documents if author}
    in_full = {
        name
        for names_of_author in names.values()
        for name, is_certain in names_of_author
        if is_certain and _has_together(question_words, name)
    }
    surnames = _find_introduced_names(question).difference(*in_full)
    for author, words in documents:
        surnames -= words - set(_list_name_terms(author or ""))
    bearers: defaultdict[str, set[Sequence[str]]] = defaultdict(set)
    for name, _ in chain.from_iterable(names.values()):
        bearers[name[-1]].add(name)
    alone = {
        name
        for surname in surnames
        for name in bearers[surname]
        if len(name) == 1 or len(bearers[surname]) == 1
    }
    return {
        author: any(name in in_full for name, _ in names_of_author)
        for author, names_of_author in names.items()
        if any(name in in_full or name in alone for name, _ in names_of_author)
    }


def _find_introduced_names(question: str) -> set[str]:
    """Return the capitalised words that a question introduces as the names of people.

    The only word of a question is one. A word beside another capitalised one is none: it is part of
    a name of two words.
    """
    names: set[str] = set()
    question_words = _list_name_terms(question)
    for match in _PROPER_WORD.finditer(question):
        before, after = question[: match.start()], question[match.end() :]
        words_before = _PARTICLES.sub("", before).split()
        follows_name = words_before and (
            words_before[-1][0].isupper() and _list_name_terms(words_before[-1])
        )
        is_introduced = (
            _INTRODUCTION.search(before)
            or _STATEMENT.match(after)
            or (not words_before and _TOPIC.match(after))
            or len(question_words) == 1
        )
        if is_introduced and not follows_name and not _NEXT_NAME.match(after):
            names.update(_list_name_terms(match[0]))
    return names


def remove_name(question: str, author: str) -> str:
    """Return a question without the words of an author's name."""
    name = set(_list_name_terms(author))
    words = [
        word
        for word in question.replace(author, " ").split()
        if not (parts := _list_name_terms(word)) or not name.issuperset(parts)
    ]
    return " ".join(words)


@lru_cache(maxsize=1 << 10)
def _read_names(author: str) -> list[tuple[Sequence[str], bool]]:
    """Return the name of each person, and whether it is certain in a question."""
    names: list[tuple[Sequence[str], bool]] = []
    for person in _PEOPLE.split(join_unspaced(author)):
        parts = [part.strip() for part in person.split(",")]
        match parts:
            case [surname, given_name] if " " not in surname or " " not in given_name:
                parts = [f"{given_name} {surname}"]
        names += [
            (words, len(words) > 1 or bool(_UNSPACED.fullmatch(part)))
            for part in parts
            if (words := _list_name_terms(part))
        ]
    return names


def _has_together(words: Sequence[str], name: Sequence[str]) -> bool:
    """Return whether the words of a name stand together, in any order."""
    return any(
        sorted(words[start : start + len(name)]) == sorted(name)
        for start in range(len(words) - len(name) + 1)
    )


@lru_cache(maxsize=1 << 12)
def _list_name_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a text without initials, and without stop words in either language."""
    return tuple(term for term in terms(text) if len(term) > 1 and term not in GERMAN)
