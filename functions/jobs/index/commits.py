"""Cut changes into commits that Firestore takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.index.postings import KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.index.postings import PostingsRef
    from shared.pipeline.indexing import IndexChange

MAX_BYTES: Final = 3_900_000
"""About how large a request may be: the emulator refuses those above 4 MiB, the cloud above 10."""
MAX_LISTS: Final = 3_000
"""Lists that one commit may change, for it to be done in seconds: a commit that takes longer than
the client waits would be tried again, and again in vain."""
_VECTOR: Final = 6_200
"""Bytes of an index entry with a vector of 768 numbers. The cloud counts the index entries that a
commit writes as part of it, and a chunk has one for each facet."""
_INDEXED: Final = 9_000_000
"""Bytes of such entries that a commit may write."""
_LIST: Final = 140
"""Bytes around a list: the path to its name, its other fields."""
_ENTRY: Final = 30
"""Bytes around an entry, which names its chunk twice: what is written, and where."""
_PART: Final = 12
"""Bytes around a text in a chunk's mark, or in what a facet's list says of itself."""


def commits(changes: Sequence[IndexChange]) -> Iterator[list[IndexChange]]:
    """Cut changes, in their order, into commits. The more they share, the more go into one."""
    commit: list[IndexChange] = []
    lists: set[PostingsRef] = set()
    size = facets = 0
    for change in changes:
        touched = {name for name, *_ in change.difference.entries(KNOWLEDGE)}
        more = _own_size(change, len(touched)) + sum(map(_list_size, touched - lists))
        entries = 1 + len(change.wanted.facets)
        full = (
            size + more > MAX_BYTES
            or len(lists | touched) > MAX_LISTS
            or (facets + entries) * _VECTOR > _INDEXED
        )
        if commit and full:
            yield commit
            commit, lists, size, facets = [], set(), 0, 0
            more = _own_size(change, len(touched)) + sum(map(_list_size, touched))
        commit.append(change)
        lists |= touched
        size += more
        facets += entries
    if commit:
        yield commit


def _list_size(name: PostingsRef) -> int:
    return _LIST + _size(name[1])


def _own_size(change: IndexChange, touched: int) -> int:
    """The entries, the mark, and what it says of facets."""
    entries = touched * (_ENTRY + 2 * _size(change.waiting.chunk_id))
    terms = sum(_PART + _size(term) for term in change.wanted.terms)
    facets = change.wanted.facets.items()
    named = sum(4 * _PART + 2 * _size(facet) + 3 * _size(name) for facet, name in facets)
    return entries + terms + named + _LIST


def _size(text: str) -> int:
    return len(text.encode())
