"""Naming clusters by their most distinctive words, without a language model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, count
from typing import TYPE_CHECKING, Final

from shared.clustering.class_tfidf import begin_alike, find_distinctive_words
from shared.text.snippets import truncate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from shared.clustering.class_tfidf import TitledText

MAX_KEYWORDS: Final = 8
"""The maximum number of a cluster's keywords."""
KEYWORDS_PER_NAME: Final = 3
"""The number of keywords in a name. A keyword has one or two words, so a name usually has three to
six."""
MAX_DESCRIPTION_KEYWORDS: Final = 5
"""The maximum number of keywords in a description."""
MAX_DESCRIPTION_TITLES: Final = 2
"""The maximum number of sources that a description names."""
MAX_TITLE_LENGTH: Final = 50
"""The maximum number of characters of a title in a name or description. Longer ones are cut."""
MIN_KEYWORDS: Final = 2
"""A cluster with fewer keywords is named after the commonest title of its passages."""
MAIN_TITLE_SHARE, SOLE_TITLE_SHARE = 0.6, 0.9
"""A cluster is named after a source that more than the first share of its passages is from, unless
they have a tag in common; and in any case from the second share on."""
TAG_SHARE: Final = 0.5
"""A name begins with a tag that at least this share of the passages has."""
MIN_TAG_LIFT: Final = 1.5
"""The tag's share in the cluster is at least this many times its share in all clusters."""
MAX_NAME_POOL: Final = 6
"""If the first keywords make a name that is in use, other combinations of this many are tried."""


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
    keywords_by_cluster = find_distinctive_words(clusters, MAX_KEYWORDS)
    tag_shares = _compute_tag_shares([passage for passages in clusters for passage in passages])
    used_names = {description.name.casefold() for description in current if description}
    descriptions: list[ClusterDescription] = []
    for passages, kept, keywords in zip(clusters, current, keywords_by_cluster, strict=True):
        description = kept or _describe(passages, keywords, tag_shares, used_names)
        used_names.add(description.name.casefold())
        descriptions.append(description)
    return descriptions


def _describe(
    passages: Sequence[TitledText],
    keywords: Sequence[str],
    tag_shares: Mapping[str, float],
    used_names: Collection[str],
) -> ClusterDescription:
    title, title_share = _find_title(passages)
    tag = _find_tag(passages, tag_shares) if title_share < SOLE_TITLE_SHARE else None
    if tag:
        names = _propose_names([tag, *(word for word in keywords if not begin_alike(word, tag))])
    elif title_share > MAIN_TITLE_SHARE or len(keywords) < MIN_KEYWORDS:
        names = _propose_titles(title, keywords)
    else:
        names = _propose_names(keywords)
    name = next(name for name in names if name.casefold() not in used_names)
    return ClusterDescription(name, _write_description(passages, keywords), tuple(keywords))


def _compute_tag_shares(passages: Sequence[TitledText]) -> dict[str, float]:
    """Return the share of passages that have each tag, by the last part of its path."""
    counts = Counter(
        name
        for passage in passages
        for name in {tag.rpartition("/")[2].replace("-", " ") for tag in passage.tags}
    )
    return {tag: number / len(passages) for tag, number in counts.items()}


def _find_tag(passages: Sequence[TitledText], overall: Mapping[str, float]) -> str | None:
    """Return the tag that most passages have, if other clusters have it less."""
    shares = _compute_tag_shares(passages)
    tag = max(sorted(shares), key=shares.__getitem__, default=None)
    if tag and shares[tag] >= max(TAG_SHARE, MIN_TAG_LIFT * overall[tag]):
        return tag
    return None


def _find_title(passages: Sequence[TitledText]) -> tuple[str, float]:
    """Return the commonest title of the passages' sources, and the share of passages that have it.

    Of equally common ones, that of the most central passage comes first.
    """
    counts = Counter(passage.title for passage in passages)
    if not counts:
        return "Passages", 1.0
    title, number = counts.most_common(1)[0]
    return _shorten_title(title), number / len(passages)


def _propose_names(phrases: Sequence[str]) -> Iterator[str]:
    """Yield possible names of a cluster from its tag and keywords, best first, without end."""
    for chosen in combinations(phrases[:MAX_NAME_POOL], min(KEYWORDS_PER_NAME, len(phrases))):
        yield _capitalize(", ".join(chosen))
    for number in count(2):
        yield _capitalize(", ".join([*phrases[: KEYWORDS_PER_NAME - 1], str(number)]))


def _propose_titles(title: str, keywords: Sequence[str]) -> Iterator[str]:
    """Yield possible names of a cluster from its title, best first, without end."""
    yield _capitalize(title)
    for keyword in keywords:
        yield _capitalize(f"{title}: {keyword}")
    for number in count(2):
        yield _capitalize(f"{title}, {number}")


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
