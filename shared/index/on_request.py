"""Marks documents that a search finds only on request.

| level | documents | a search finds them if it filters by |
|---|---|---|
| 1 | conversations with assistants | their category, a source or a title |
| 2 | those with the tag `keep-out` | that tag |

What an assistant said is not what the user read. These documents are not embedded, so they appear
in no semantic search, cluster or map. Their entries in postings are marked with their level.
Readers drop marked entries unless a facet of the search asks for them. Marked entries come last, so
truncated postings lose them first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.index.facets import Facet, Kind, make_named_facet

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

CATEGORY: Final = "conversation"
"""The category of conversations."""
KEEP_OUT: Final = "keep-out"
"""The tag of what the owner keeps out of search, lists and exports."""
CONVERSATION_LEVEL: Final = 1
KEEP_OUT_LEVEL: Final = 2
_LEVELS: Final = {
    make_named_facet(Kind.CATEGORY, CATEGORY): CONVERSATION_LEVEL,
    make_named_facet(Kind.TAG, KEEP_OUT): KEEP_OUT_LEVEL,
}
_OFFSET: Final = 1 << 60
"""Marking an entry subtracts this for each level. Entries of terms are positive, and dates are
above -2^56."""


def is_kept_out(tags: Iterable[str]) -> bool:
    """Return whether one of these tags, such as `keep-out` or `keep-out/health`, keeps out."""
    return any(_find_root(make_named_facet(Kind.TAG, tag)) in _LEVELS for tag in tags)


def is_on_request(category: str, tags: Iterable[str]) -> bool:
    """Return whether documents with this category and these tags are found only on request."""
    return make_named_facet(Kind.CATEGORY, category) in _LEVELS or is_kept_out(tags)


def find_level(facets: Container[Facet]) -> int:
    """Return the level of a document with these facets, or 0 if every search finds it."""
    return max((level for facet, level in _LEVELS.items() if facet in facets), default=0)


def find_level_by_ids(facet_ids: Container[str]) -> int:
    """Return the same by the ids of the facets."""
    return max((level for facet, level in _LEVELS.items() if facet.id in facet_ids), default=0)


def find_asked_level(facets: Iterable[Facet]) -> int:
    """Return the highest level for which filters by these facets ask."""
    return max(map(_find_level_of_filter, facets), default=0)


def _find_level_of_filter(facet: Facet) -> int:
    if facet.kind in {Kind.SOURCE, Kind.TITLE}:
        return CONVERSATION_LEVEL
    return _LEVELS.get(_find_root(facet), 0)


def _find_root(facet: Facet) -> Facet:
    return Facet(facet.kind, facet.key.partition("/")[0])


def mark(entry: int, level: int) -> int:
    """Mark an entry in postings. Level 0 leaves it as it is."""
    return entry - level * _OFFSET


def unmark(entry: int) -> int:
    """Remove the mark of an entry, or of the date from which entries are complete."""
    return entry + read_level(entry) * _OFFSET


def read_level(entry: int) -> int:
    """Return the level with which an entry in postings is marked, or 0."""
    return max(0, (_OFFSET // 2 - entry) // _OFFSET)
