"""What chunks that wait to be indexed change in the lists: pure differences, nothing is stored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.cloud.firestore import DELETE_FIELD, Increment

from shared.store.index_lists import FACETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.domain.chunk import Chunk
    from shared.domain.facet import Facet
    from shared.store.marks import Indexed, ListName


@dataclass(frozen=True, slots=True)
class Waiting:
    """A chunk that waits to be indexed, as it was read.

    Attributes:
        chunk: The chunk; None if it was deleted and is only to be taken out.
        indexed: What the lists know of it so far.
        tries: How often it could not be indexed.
        fault: What is wrong with its document, if that cannot be read.
    """

    chunk_id: str
    chunk: Chunk | None
    indexed: Indexed
    tries: int
    update_time: Any
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What the lists are to know of a chunk from now on.

    Attributes:
        waiting: The chunk as it was read.
        wanted: What its terms and facets are now; `NOTHING` for one that was deleted.
        facets: The facets that it bears.
    """

    waiting: Waiting
    wanted: Indexed
    facets: Sequence[Facet] = ()

    def differences(self) -> Iterator[tuple[ListName, int | None, int | None]]:
        """The lists that change: what each said of the chunk, and what it is to say."""
        old, new = dict(self.waiting.indexed.entries()), dict(self.wanted.entries())
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before != after:
                yield name, before, after

    def descriptions(self) -> Iterator[tuple[ListName, dict[str, str]]]:
        """What to say of those of its facets whose name is new here."""
        known = self.waiting.indexed.facets
        for facet in self.facets:
            name = self.wanted.facets[facet.id]
            if known.get(facet.id) != name:
                said = {"kind": facet.kind.value, "key": facet.key, "name": name}
                yield (FACETS, facet.id), said


@dataclass(slots=True)
class ListChange:
    """What one list gains and loses.

    Attributes:
        df: How many chunks more stand on it, or fewer.
        entries: Chunk id to what it says from now on, or that it says nothing.
        fields: What else it says.
    """

    df: int = 0
    entries: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    def note(self, chunk_id: str, before: int | None, after: int | None) -> None:
        """Take in that a chunk's entry comes, changes or goes."""
        self.entries[chunk_id] = DELETE_FIELD if after is None else after
        self.df += (after is not None) - (before is not None)

    def document(self) -> dict[str, Any]:
        """What to merge into the list.

        Firestore adds up in the order of the fields' names and answers with the sums: `held` is
        always the last of them.
        """
        if not self.entries:
            return dict(self.fields)
        added = sum(entry is not DELETE_FIELD for entry in self.entries.values())
        sums = {"held": Increment(added)} | ({"df": Increment(self.df)} if self.df else {})
        return {"postings": self.entries} | self.fields | sums


def list_changes(changes: Sequence[Change]) -> dict[ListName, ListChange]:
    """What the lists gain and lose by some chunks together."""
    lists: dict[ListName, ListChange] = defaultdict(ListChange)
    for change in changes:
        for name, before, after in change.differences():
            lists[name].note(change.waiting.chunk_id, before, after)
        for name, said in change.descriptions():
            lists[name].fields |= said
    return lists


def total_changes(changes: Sequence[Change]) -> dict[str, int]:
    """By how much the totals change; a chunk without any term is none of the documents."""
    pairs = [(each.waiting.indexed.length, each.wanted.length) for each in changes]
    counts = {
        "documents": sum((new > 0) - (old > 0) for old, new in pairs),
        "length": sum(new - old for old, new in pairs),
    }
    return {name: count for name, count in counts.items() if count}
