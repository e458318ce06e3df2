"""What topics are called where no language model names them: after their most telling words."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from shared.clustering.class_tfidf import telling_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

KEYWORDS: Final = 8
IN_NAME: Final = 3
"""Keywords in a name: each has a word or two, so the name has three to six."""
IN_DESCRIPTION: Final = 5
TITLES: Final = 2
"""Sources that a description names."""
LONGEST_TITLE: Final = 80
"""Characters of a title in a description."""
SPARE: Final = 6
"""Keywords that a name is made of where the first ones make one that is taken."""


@dataclass(frozen=True, slots=True)
class TitledText:
    """A passage of a topic."""

    title: str
    content: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """What a topic is called, and what it is about."""

    name: str
    description: str
    keywords: tuple[str, ...]


def describe_clusters(
    topics: Sequence[Sequence[TitledText]], known: Sequence[ClusterDescription | None]
) -> list[ClusterDescription]:
    """Name topics by their passages, no two alike.

    Args:
        topics: Passages of each topic, the most central first.
        known: What is known of each already, and stays; None: it has no name yet.
    """
    words = telling_words([[each.content for each in topic] for topic in topics], KEYWORDS)
    taken = {each.name.casefold() for each in known if each}
    found: list[ClusterDescription] = []
    for topic, present, keywords in zip(topics, known, words, strict=True):
        description = present or _described(topic, keywords, taken)
        taken.add(description.name.casefold())
        found.append(description)
    return found


def _described(
    topic: Sequence[TitledText], keywords: Sequence[str], taken: Collection[str]
) -> ClusterDescription:
    words = keywords or [each.title for each in topic[:1] if each.title] or ["Passages"]
    name = next(each for each in _names(words) if each.casefold() not in taken)
    return ClusterDescription(name, _description(topic, keywords), tuple(keywords))


def _names(keywords: Sequence[str]) -> Iterator[str]:
    """What a topic of these keywords could be called, the best first."""
    for words in combinations(keywords[:SPARE], min(IN_NAME, len(keywords))):
        yield _capital(", ".join(words))
    number = 1
    while True:
        number += 1
        yield _capital(", ".join([*keywords[: IN_NAME - 1], str(number)]))


def _description(passages: Sequence[TitledText], keywords: Sequence[str]) -> str:
    about = f"Passages about {_listed(keywords[:IN_DESCRIPTION])}" if keywords else "Passages"
    # Titles by frequency; of equal ones, that of the more central passage.
    titles = [title for title, _ in Counter(_short(each.title) for each in passages).most_common()]
    others = len(titles) - TITLES
    named = titles[:TITLES] + ([_others(others)] if others > 0 else [])
    return f"{about}, from {_listed(named)}." if named else f"{about}."


def _short(title: str) -> str:
    """A title in a sentence."""
    return textwrap.shorten(title, LONGEST_TITLE, placeholder=" ...").rstrip(" .") or "a source"


def _others(count: int) -> str:
    return "another source" if count == 1 else f"{count} other sources"


def _listed(words: Sequence[str]) -> str:
    if len(words) < IN_NAME - 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
