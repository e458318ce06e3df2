"""Splits index changes into commits that Firestore accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.index.facets import select_vector_index_facets
from shared.index.postings import KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.index.postings import PostingsRef
    from shared.writer.indexing import IndexChange

MAX_BYTES: Final = 3_900_000
"""The approximate maximum size of a request, in bytes. The emulator rejects requests above 4 MiB,
the cloud above 10 MiB."""
MAX_POSTINGS: Final = 3_000
"""The maximum number of postings that a commit changes, so that it ends before the client's
timeout, after which the client would only repeat it."""
_VECTOR_ENTRY_BYTES: Final = 6_200
"""The size of an index entry with a vector of 768 numbers, in bytes. The cloud counts the index
entries that a commit writes as part of the commit. A chunk has one such entry, and one for each
facet in its field `facets`."""
_MAX_VECTOR_BYTES: Final = 9_000_000
"""The maximum size of the index entries with vectors that a commit writes, in bytes."""
_POSTINGS_BYTES: Final = 140
"""The size of a postings document without its entries, in bytes: its path and its other fields."""
_ENTRY_BYTES: Final = 30
"""The size of an entry without the chunk id, in bytes. The id itself is sent twice: as the name of
the field, and in the field mask."""
_FIELD_BYTES: Final = 12
"""The size of a text field without its text, in bytes."""


def split_commits(changes: Sequence[IndexChange]) -> Iterator[list[IndexChange]]:
    """Split changes into commits, in order. The more postings they share, the more fit into one."""
    commit: list[IndexChange] = []
    postings: set[PostingsRef] = set()
    size = vector_count = 0
    for change in changes:
        refs = {ref for ref, *_ in change.difference.list_changed_entries(KNOWLEDGE)}
        change_size = _estimate_chunk_size(change, len(refs)) + sum(
            map(_estimate_postings_size, refs - postings)
        )
        new_vectors = 1 + len(select_vector_index_facets(change.state.facets))
        is_full = (
            size + change_size > MAX_BYTES
            or len(postings | refs) > MAX_POSTINGS
            or (vector_count + new_vectors) * _VECTOR_ENTRY_BYTES > _MAX_VECTOR_BYTES
        )
        if commit and is_full:
            yield commit
            commit, postings, size, vector_count = [], set(), 0, 0
            change_size = _estimate_chunk_size(change, len(refs)) + sum(
                map(_estimate_postings_size, refs)
            )
        commit.append(change)
        postings |= refs
        size += change_size
        vector_count += new_vectors
    if commit:
        yield commit


def _estimate_postings_size(ref: PostingsRef) -> int:
    return _POSTINGS_BYTES + _count_bytes(ref[1])


def _estimate_chunk_size(change: IndexChange, postings_count: int) -> int:
    """Estimate the size of a chunk's entries in its postings, and of its own fields, in bytes."""
    entries = postings_count * (_ENTRY_BYTES + 2 * _count_bytes(change.pending.chunk_id))
    terms = sum(_FIELD_BYTES + _count_bytes(term) for term in change.state.terms)
    facets = change.state.facets.items()
    names = sum(
        4 * _FIELD_BYTES + 2 * _count_bytes(facet) + 3 * _count_bytes(name)
        for facet, name in facets
    )
    return entries + terms + names + _POSTINGS_BYTES


def _count_bytes(text: str) -> int:
    return len(text.encode())
