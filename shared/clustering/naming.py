"""Naming clusters by their most distinctive words, without a language model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, count
from typing import TYPE_CHECKING, Final

from shared.clustering.class_tfidf import find_distinctive_words
from shared.text.markup import to_plain_text
from shared.text.snippets import truncate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

MAX_KEYWORDS: Final = 8
"""The maximum number of a cluster's keywords."""
KEYWORDS_PER_NAME: Final = 3
"""The number of keywords in a name. A keyword has one or two words, so a name usually has three to
six."""
MAX_DESCRIPTION_KEYWORDS: Final = 5
"""The maximum number of keywords in a description."""
MAX_DESCRIPTION_TITLES: Final = 2
"""The maximum number of sources that a description names."""
MAX_TITLE_LENGTH: Final = 40
"""The maximum number of characters of a title in a description. Longer titles are cut."""
MAX_NAME_POOL: Final = 6
"""If the first keywords make a name that is in use, other combinations of this many are tried."""


@dataclass(frozen=True, slots=True)
class TitledText:
    """The text of a passage, with the title of its source."""

    title: str
    content: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The name, the description and the keywords of a cluster."""

    name: str
    description: str
    keywords: tuple[str, ...]


def describe_clusters(
    clusters: Sequence[Sequence[TitledText]], current: Sequence[ClusterDescription | None]
) -> list[ClusterDescription]:
    """Describe clusters by their passages. No two clusters get the same name.

    Args:
        clusters: The passages of each cluster, the most central first.
        current: The description that each cluster keeps, or None if it needs a new one.
    """
    texts = [[to_plain_text(passage.content) for passage in passages] for passages in clusters]
    keywords_by_cluster = find_distinctive_words(texts, MAX_KEYWORDS)
    used_names = {description.name.casefold() for description in current if description}
    descriptions: list[ClusterDescription] = []
    for passages, kept, keywords in zip(clusters, current, keywords_by_cluster, strict=True):
        description = kept or _describe(passages, keywords, used_names)
        used_names.add(description.name.casefold())
        descriptions.append(description)
    return descriptions


def _describe(
    passages: Sequence[TitledText], keywords: Sequence[str], used_names: Collection[str]
) -> ClusterDescription:
    names = _propose_names(keywords or [passage.title for passage in passages[:1]] or ["Passages"])
    name = next(name for name in names if name.casefold() not in used_names)
    return ClusterDescription(name, _write_description(passages, keywords), tuple(keywords))


def _propose_names(phrases: Sequence[str]) -> Iterator[str]:
    """Yield possible names of a cluster from its keywords or its title, best first, without end."""
    for chosen in combinations(phrases[:MAX_NAME_POOL], min(KEYWORDS_PER_NAME, len(phrases))):
        yield _capitalize(", ".join(chosen))
    for number in count(2):
        yield _capitalize(", ".join([*phrases[: KEYWORDS_PER_NAME - 1], str(number)]))


def _write_description(passages: Sequence[TitledText], keywords: Sequence[str]) -> str:
    words = _join_with_and(keywords[:MAX_DESCRIPTION_KEYWORDS])
    about = f"Passages about {words}" if keywords else "Passages"
    # Passages are sorted by centrality, and most_common() keeps the order of equal counts. So of
    # equally frequent titles, those of more central passages come first.
    counts = Counter(_shorten_title(passage.title) for passage in passages)
    titles = [title for title, _ in counts.most_common()]
    sources = titles[:MAX_DESCRIPTION_TITLES]
    if others := len(titles) - len(sources):
        sources.append("another source" if others == 1 else f"{others} other sources")
    return f"{about}, from {_join_with_and(sources)}." if sources else f"{about}."


def _shorten_title(title: str) -> str:
    """Shorten a title, so that it can be part of a sentence, without a full stop."""
    return truncate(" ".join(title.split()), MAX_TITLE_LENGTH).rstrip(" .") or "a source"


def _join_with_and(words: Sequence[str]) -> str:
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _capitalize(name: str) -> str:
    """Write the first letter in upper case, and leave the others as they are."""
    return name[:1].upper() + name[1:]
