"""Splitting index changes into commits that Firestore accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.index.facets import vector_index_entries
from shared.index.postings import KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.index.postings import PostingsRef
    from shared.pipeline.indexing import IndexChange

MAX_BYTES: Final = 3_900_000
"""A request has about this size at most: the emulator refuses more than 4 MiB, the cloud 10."""
MAX_POSTINGS: Final = 3_000
"""A commit changes the postings of at most this many terms and facets, so that it takes seconds:
one that takes longer than the client waits would be repeated in vain."""
_VECTOR: Final = 6_200
"""Bytes of an index entry with a vector of 768 numbers. The cloud counts the index entries that a
commit writes as part of it, and a chunk has one for each entry in its `facets`."""
_MAX_VECTOR_BYTES: Final = 9_000_000
"""A commit writes at most this many bytes of index entries with vectors."""
_POSTINGS: Final = 140
"""Bytes of a postings document beside its entries: its path and its other fields."""
_ENTRY: Final = 30
"""Bytes of an entry beside the chunk id, which is sent twice: as a value and as a field path."""
_FIELD: Final = 12
"""Bytes of a text field beside the text."""


def split_commits(changes: Sequence[IndexChange]) -> Iterator[list[IndexChange]]:
    """Split changes into commits, in order; the more postings they share, the more fit into one."""
    commit: list[IndexChange] = []
    postings: set[PostingsRef] = set()
    size = facets = 0
    for change in changes:
        refs = {ref for ref, *_ in change.difference.entries(KNOWLEDGE)}
        more = _chunk_size(change, len(refs)) + sum(map(_postings_size, refs - postings))
        vectors = 1 + len(vector_index_entries(change.state.facets))
        is_full = (
            size + more > MAX_BYTES
            or len(postings | refs) > MAX_POSTINGS
            or (facets + vectors) * _VECTOR > _MAX_VECTOR_BYTES
        )
        if commit and is_full:
            yield commit
            commit, postings, size, facets = [], set(), 0, 0
            more = _chunk_size(change, len(refs)) + sum(map(_postings_size, refs))
        commit.append(change)
        postings |= refs
        size += more
        facets += vectors
    if commit:
        yield commit


def _postings_size(ref: PostingsRef) -> int:
    return _POSTINGS + _size(ref[1])


def _chunk_size(change: IndexChange, postings: int) -> int:
    """Bytes of the entries of a chunk in its postings, and of what the chunk stores."""
    entries = postings * (_ENTRY + 2 * _size(change.pending.chunk_id))
    terms = sum(_FIELD + _size(term) for term in change.state.terms)
    facets = change.state.facets.items()
    names = sum(4 * _FIELD + 2 * _size(facet) + 3 * _size(name) for facet, name in facets)
    vector = len(change.pending.compact_vector or b"")
    return entries + terms + names + vector + _POSTINGS


def _size(text: str) -> int:
    return len(text.encode())
