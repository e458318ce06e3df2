"""Postings rebuilt from the indexed states of documents, as many at once as fit in memory."""

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

_OVERHEAD: Final = 3
"""The memory of postings without entries, as a number of entries."""


@dataclass(frozen=True, slots=True)
class RebuildLimits:
    """Limits of postings, and of memory.

    Attributes:
        cap: The number of entries of truncated postings.
        most: Postings with this many entries are truncated.
        room: The number of entries in memory, with three for each postings document. A million take
            some 75 MiB: 9,000 abstracts are one part, 60,000 are six.
    """

    cap: int = CAP
    most: int = CAP + SLACK
    room: int = 1_000_000


class RebuiltPostings:
    """The postings of a range, as many as there is room for.

    When there is no more room, the range is shortened: its last postings, about half of what is in
    memory, are left to the next part.

    Attributes:
        after: The position before the first postings.
        until: The last postings; None if there are none after them.
        documents: The number of documents that have terms.
        length: The number of their terms.
    """

    def __init__(
        self,
        names: IndexCollections,
        after: PostingsRef,
        average: float,
        limits: RebuildLimits,
        only: Collection[PostingsRef] | None = None,
    ) -> None:
        """Begin without entries.

        Args:
            names: The collections of the index.
            after: The position before the first postings.
            average: The mean length of a document, which truncation depends on.
            limits: The limits of postings and of memory.
            only: Rebuild only these postings; None for all.
        """
        self._names = names
        self._policies = truncation_policies(names)
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
        """The totals of all documents that were added."""
        return Totals(self.documents, self.length)

    def add(self, document_id: str, state: IndexedState) -> None:
        """Add the entries of a document."""
        self.documents += state.length > 0
        self.length += state.length
        for ref, entry in state.entries(self._names):
            if self._in_range(ref):
                self._add(ref, document_id, entry)
                if ref[0] == self._names.facets:
                    self._spellings[ref][state.facets[ref[1]]] += 1
        while self._size > self._limits.room and len(self._entries) > 1:
            self._shorten_range()

    def refs(self) -> list[PostingsRef]:
        """The rebuilt postings, in order."""
        return sorted(self._entries)

    def document(self, ref: PostingsRef, spelling: str | None) -> dict[str, Any] | None:
        """The document of postings as it should be.

        Args:
            ref: The postings.
            spelling: The present spelling of a facet; it is kept if a document uses it.

        Returns:
            None if the postings should not exist.
        """
        if ref not in self._entries:
            return None
        entries, df = self._entries[ref], len(self._entries[ref]) + self._dropped[ref]
        kept = entries if df < self._limits.most else self._truncated(ref, self._limits.cap)
        data: dict[str, Any] = {"df": df, "postings": kept, "held": len(kept)}
        if ref[0] == self._names.facets:
            data |= self._facet_fields(ref, spelling)
            if len(kept) < len(entries):
                data["since"] = 1 + max(date for key, date in entries.items() if key not in kept)
        return data

    def _in_range(self, ref: PostingsRef) -> bool:
        if self._only is not None:
            return ref in self._only
        return self.after < ref and (self.until is None or ref <= self.until)

    def _add(self, ref: PostingsRef, document_id: str, entry: int) -> None:
        if ref not in self._entries:
            self._entries[ref] = {}
            self._size += _OVERHEAD
            if ref[0] == self._names.facets:
                self._spellings[ref] = Counter()
        entries = self._entries[ref]
        entries[document_id] = entry
        self._size += 1
        if len(entries) > 2 * self._limits.most:
            self._entries[ref] = self._truncated(ref, self._limits.most)
            dropped = len(entries) - self._limits.most
            self._dropped[ref] += dropped
            self._size -= dropped

    def _truncated(self, ref: PostingsRef, limit: int) -> dict[str, int]:
        return dict(self._policies[ref[0]](self._entries[ref], self._average, limit))

    def _shorten_range(self) -> None:
        """Leave the last postings, about half of what is in memory, to the next part."""
        refs = self.refs()
        size = self._size
        while size > self._limits.room // 2 and len(refs) > 1:
            ref = refs.pop()
            size -= _OVERHEAD + len(self._entries.pop(ref))
            self._dropped.pop(ref, None)
            self._spellings.pop(ref, None)
        self._size, self.until = size, refs[-1]

    def _facet_fields(self, ref: PostingsRef, spelling: str | None) -> dict[str, str]:
        spellings = self._spellings[ref]
        most_frequent = max(spellings, key=lambda text: (spellings[text], text))
        name = spelling if spelling and spelling in spellings else most_frequent
        facet = parse_facet_id(ref[1], name)
        return {"kind": facet.kind.value, "key": facet.key, "name": name}
