"""Changes of sources and chunks, and how they are packed into commits that Firestore accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from shared.index.postings import KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.firestore.writes import Write
    from shared.index.posting_changes import IndexDifference
    from shared.index.postings import PostingsRef

MAX_CHANGES: Final = 200
"""The maximum number of changes in a commit."""
MAX_BYTES: Final = 3_900_000
"""The maximum size of a commit, in bytes. The emulator rejects requests above 4 MiB, the cloud
above 10 MiB."""
MAX_POSTINGS: Final = 3_000
"""The maximum number of postings that a commit changes, so that it ends before the client's
timeout, after which the client would only repeat it."""
MAX_VECTOR_ENTRIES: Final = 1_300
"""The maximum number of index entries with a vector that a commit writes or deletes. The cloud
counts them as part of the commit: an entry with 768 numbers takes 6,200 bytes."""
ENTRIES_PER_DELETION: Final = 12
"""The number of such entries that a deleted chunk counts for: one, and one for each facet."""
_POSTINGS_BYTES: Final = 140
"""The size of a postings document without its entries, in bytes: its path and its other fields."""
_ENTRY_BYTES: Final = 30
"""The size of an entry without the chunk id, in bytes. The id itself is sent twice: as the name of
the field, and in the field mask."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a source or a chunk.

    Attributes:
        kind: The name of the count that it adds to, or "".
        write: All writes that must be in the same commit, except those of postings.
        vector_entries: The number of index entries with a vector that it writes or deletes.
        difference: How the same commit changes the postings. None: the index job changes them.
        size: The size of the write in bytes.
    """

    kind: str
    write: Write
    vector_entries: int = 0
    difference: IndexDifference | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Measure the write.

        Raises:
            ValueError: Firestore cannot store one of its values.
        """
        object.__setattr__(self, "size", self.write.measure())


ChangeT = TypeVar("ChangeT", bound=Change)


def split_commits(changes: Iterable[ChangeT]) -> Iterator[list[ChangeT]]:
    """Split changes into commits that Firestore accepts. The order stays."""
    return pack_commits([change] for change in changes)


def pack_commits(groups: Iterable[Sequence[ChangeT]]) -> Iterator[list[ChangeT]]:
    """Pack groups of changes into commits that Firestore accepts. No group is split.

    The more postings the changes share, the more of them fit into a commit.
    """
    commit: list[ChangeT] = []
    load = _Load()
    for group in groups:
        heavier = load.plus(group)
        if commit and heavier.is_excessive:
            yield commit
            commit, heavier = [], _Load().plus(group)
        commit += group
        load = heavier
    if commit:
        yield commit


@dataclass(frozen=True, slots=True)
class _Load:
    """What a commit contains so far."""

    changes: int = 0
    size: int = 0
    vector_entries: int = 0
    postings: frozenset[PostingsRef] = frozenset()

    def plus(self, group: Sequence[Change]) -> _Load:
        """Return the load with another group."""
        size, postings = self.size, self.postings
        for change in group:
            size += change.size
            if change.difference:
                changed = change.difference.list_changed_entries(KNOWLEDGE)
                refs = frozenset(ref for ref, *_ in changed)
                size += len(refs) * (_ENTRY_BYTES + 2 * _count_bytes(change.difference.document_id))
                size += sum(_POSTINGS_BYTES + _count_bytes(name) for _, name in refs - postings)
                postings |= refs
        return _Load(
            self.changes + len(group),
            size,
            self.vector_entries + sum(change.vector_entries for change in group),
            postings,
        )

    @property
    def is_excessive(self) -> bool:
        """Whether Firestore might not accept it."""
        return (
            self.changes > MAX_CHANGES
            or self.size > MAX_BYTES
            or self.vector_entries > MAX_VECTOR_ENTRIES
            or len(self.postings) > MAX_POSTINGS
        )


def _count_bytes(text: str) -> int:
    return len(text.encode())
