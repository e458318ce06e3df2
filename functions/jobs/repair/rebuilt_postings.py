"""Lists made from scratch, of what the documents' marks say: as many at once as memory takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.index.bm25 import CAP, Totals
from shared.index.facets import parse_facet_id
from shared.index.posting_changes import SLACK, truncation_policies

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

_LIST: Final = 3
"""Entries that take the memory of a list."""


@dataclass(frozen=True, slots=True)
class RebuildLimits:
    """How much is held.

    Attributes:
        cap: Entries of a list that was cut.
        most: Entries of a list that was not.
        room: Entries of a part, a list counting as three. A million of them take some 75 MiB: 9,000
            abstracts are one part, 60,000 are six.
    """

    cap: int = CAP
    most: int = CAP + SLACK
    room: int = 1_000_000


class RebuiltPostings:
    """The first lists of a range, as many as there is room for.

    Whenever there is no more room, the part ends earlier: half of what it holds, the lists that
    come last, are left to the next one.

    Attributes:
        after: The list before its first.
        until: Its last list; None if no list comes after it.
        documents: How many documents have terms.
        length: How many terms these hold.
    """

    def __init__(
        self,
        names: IndexCollections,
        after: PostingsRef,
        average: float,
        limits: RebuildLimits,
        only: Collection[PostingsRef] | None = None,
    ) -> None:
        """Hold nothing yet.

        Args:
            names: Whose lists.
            after: After which list to begin.
            average: The mean length of a document, by which entries are weighed.
            limits: How much to hold.
            only: Hold no others than these; None: hold all.
        """
        self._names = names
        self._keep = truncation_policies(names)
        self._only = only
        self.after = after
        self.until: PostingsRef | None = None
        self.documents = 0
        self.length = 0
        self._average = average
        self._limits = limits
        self._size = 0
        self._entries: dict[PostingsRef, dict[str, int]] = {}
        self._dropped: Counter[PostingsRef] = Counter()
        self._spellings: dict[PostingsRef, Counter[str]] = {}

    @property
    def totals(self) -> Totals:
        """Of all documents that were added."""
        return Totals(self.documents, self.length)

    def add(self, document_id: str, mark: IndexedState) -> None:
        """Take in what the lists have to know of a document."""
        self.documents += mark.length > 0
        self.length += mark.length
        for name, entry in mark.entries(self._names):
            if self._holds(name):
                self._add(name, document_id, entry)
                if name[0] == self._names.facets:
                    self._spellings[name][mark.facets[name[1]]] += 1
        while self._size > self._limits.room and len(self._entries) > 1:
            self._narrow()

    def names(self) -> list[PostingsRef]:
        """Its lists, in their order."""
        return sorted(self._entries)

    def document(self, name: PostingsRef, known_as: str | None) -> dict[str, Any] | None:
        """A list as it is to be.

        Args:
            name: Which.
            known_as: The name that people know a facet by so far; it stays if a document uses it.

        Returns:
            None if there is to be no such list.
        """
        if name not in self._entries:
            return None
        entries, df = self._entries[name], len(self._entries[name]) + self._dropped[name]
        kept = entries if df < self._limits.most else self._kept(name, self._limits.cap)
        found: dict[str, Any] = {"df": df, "postings": kept, "held": len(kept)}
        if name[0] == self._names.facets:
            found |= self._described(name, known_as)
            if len(kept) < len(entries):
                found["since"] = 1 + max(date for each, date in entries.items() if each not in kept)
        return found

    def _holds(self, name: PostingsRef) -> bool:
        if self._only is not None:
            return name in self._only
        return self.after < name and (self.until is None or name <= self.until)

    def _add(self, name: PostingsRef, document_id: str, entry: int) -> None:
        if name not in self._entries:
            self._entries[name] = {}
            self._size += _LIST
            if name[0] == self._names.facets:
                self._spellings[name] = Counter()
        entries = self._entries[name]
        entries[document_id] = entry
        self._size += 1
        if len(entries) > 2 * self._limits.most:
            self._entries[name] = self._kept(name, self._limits.most)
            dropped = len(entries) - self._limits.most
            self._dropped[name] += dropped
            self._size -= dropped

    def _kept(self, name: PostingsRef, limit: int) -> dict[str, int]:
        return dict(self._keep[name[0]](self._entries[name], self._average, limit))

    def _narrow(self) -> None:
        """Leave the last lists, about half of what is held, to the next part."""
        names = self.names()
        left = self._size
        while left > self._limits.room // 2 and len(names) > 1:
            name = names.pop()
            left -= _LIST + len(self._entries.pop(name))
            self._dropped.pop(name, None)
            self._spellings.pop(name, None)
        self._size, self.until = left, names[-1]

    def _described(self, name: PostingsRef, known_as: str | None) -> dict[str, str]:
        spellings = self._spellings[name]
        commonest = max(spellings, key=lambda spelling: (spellings[spelling], spelling))
        spelling = known_as if known_as and known_as in spellings else commonest
        facet = parse_facet_id(name[1], spelling)
        return {"kind": facet.kind.value, "key": facet.key, "name": spelling}
