"""Changes of sources and their chunks, packed into commits that Firestore accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.firestore.writes import Write

MAX_WRITES: Final = 200
"""The maximum number of writes in a commit."""
MAX_BYTES: Final = 2_000_000
"""The maximum size of a commit, in bytes. The emulator rejects requests above 4 MiB, the cloud
above 10 MiB."""


@dataclass(frozen=True, slots=True)
class Change:
    """A write, the name of the count that it adds to, and its approximate size in bytes."""

    kind: str
    write: Write
    size: int = 1_000


def split_commits(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Split changes into commits that Firestore accepts. The order stays."""
    return pack_commits([[change] for change in changes])


def pack_commits(groups: Iterable[Sequence[Change]]) -> Iterator[list[Change]]:
    """Pack groups of changes into commits that Firestore accepts. No group is split."""
    commit: list[Change] = []
    size = 0
    for group in groups:
        group_size = sum(change.size for change in group)
        if commit and (len(commit) + len(group) > MAX_WRITES or size + group_size > MAX_BYTES):
            yield commit
            commit, size = [], 0
        commit += group
        size += group_size
    if commit:
        yield commit
