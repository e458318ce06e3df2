"""Rebuilds posting lists from the indexed states of documents, as many as fit in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.dates import format_day
from shared.index.bm25 import CAP, Totals
from shared.index.facets import is_month, parse_facet_id
from shared.index.posting_changes import SLACK, truncation_policies

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

_OVERHEAD: Final = 3
"""The memory of an empty posting list, counted in entries."""


@dataclass(frozen=True, slots=True)
class RebuildLimits:
    """The maximum size of a posting list, and of all lists in memory.

    Attributes:
        cap: The number of entries that a posting list keeps when it is truncated.
        truncate_at: A posting list with this many entries is truncated.
        memory_budget: The number of entries in memory, to which each posting list adds three. A
            million entries take about 75 MiB. 9,000 abstracts fit into one part; 60,000 need six.
    """

    cap: int = CAP
    truncate_at: int = CAP + SLACK
    memory_budget: int = 1_000_000


class RebuiltPostings:
    """The posting lists of a range, as many as fit in memory.

    When the memory budget is used up, the range is shortened: the last posting lists, with about
    half of the entries in memory, are left to the next part.

    Attributes:
        start_after: The position before the first posting list.
        end_at: The last posting list, or None if the range has no end.
        document_count: The number of added documents that have terms.
        total_length: The number of terms in these documents.
    """

    def __init__(
        self,
        names: IndexCollections,
        start_after: PostingsRef,
        average: float,
        limits: RebuildLimits,
        only_refs: Collection[PostingsRef] | None = None,
    ) -> None:
        """Begin with no posting lists.

        Args:
            names: The collections of the index.
            start_after: The position before the first posting list.
            average: The mean length of a document, which truncation depends on.
            limits: The limits of a posting list and of memory.
            only_refs: The only posting lists to rebuild, or None to rebuild all of them.
        """
        self._names = names
        self._policies = truncation_policies(names)
        self._only_refs = only_refs
        self.start_after = start_after
        self.end_at: PostingsRef | None = None
        self.document_count = 0
        self.total_length = 0
        self._average = average
        self._limits = limits
        self._entry_count = 0
        self._entries: dict[PostingsRef, dict[str, int]] = {}
        self._dropped: Counter[PostingsRef] = Counter()
        self._spellings: dict[PostingsRef, Counter[str]] = {}
        self._days: defaultdict[PostingsRef, Counter[str]] = defaultdict(Counter)

    @property
    def totals(self) -> Totals:
        """The totals of all documents that were added."""
        return Totals(self.document_count, self.total_length)

    def add_document(self, document_id: str, state: IndexedState) -> None:
        """Add the entries of a document."""
        self.document_count += state.length > 0
        self.total_length += state.length
        for ref, entry in state.list_entries(self._names):
            if self._is_in_range(ref):
                collection, list_id = ref
                self._add_entry(ref, document_id, entry)
                if collection == self._names.facets:
                    self._spellings[ref][state.facets[list_id]] += 1
                    if is_month(list_id):
                        self._days[ref][format_day(entry)] += 1
        while self._entry_count > self._limits.memory_budget and len(self._entries) > 1:
            self._shorten_range()

    def list_refs(self) -> list[PostingsRef]:
        """Return the references of the rebuilt posting lists, in order."""
        return sorted(self._entries)

    def build_fields(self, ref: PostingsRef, spelling: str | None) -> dict[str, Any] | None:
        """Build the correct stored fields of a posting list.

        `df` is the document frequency, `postings` are the entries, and `held` is an upper bound of
        their number. `since` is the first date from which a truncated list of a facet is complete.
        `days` counts the documents of a month by day.

        Args:
            ref: The posting list.
            spelling: The stored spelling of a facet, which is kept if a document uses it.

        Returns:
            The fields, or None if the posting list should not exist.
        """
        if ref not in self._entries:
            return None
        entries, df = self._entries[ref], len(self._entries[ref]) + self._dropped[ref]
        kept_entries = (
            entries if df < self._limits.truncate_at else self._truncate(ref, self._limits.cap)
        )
        data: dict[str, Any] = {"df": df, "postings": kept_entries, "held": len(kept_entries)}
        if ref[0] == self._names.facets:
            data |= self._build_facet_fields(ref, spelling)
            if ref in self._days:
                data["days"] = dict(self._days[ref])
            if len(kept_entries) < len(entries):
                # Entries of a facet are dates. Some of the latest dropped date may be missing, so
                # the list is complete only from the next one on.
                dropped_dates = (date for key, date in entries.items() if key not in kept_entries)
                data["since"] = 1 + max(dropped_dates)
        return data

    def _is_in_range(self, ref: PostingsRef) -> bool:
        if self._only_refs is not None:
            return ref in self._only_refs
        return self.start_after < ref and (self.end_at is None or ref <= self.end_at)

    def _add_entry(self, ref: PostingsRef, document_id: str, entry: int) -> None:
        if ref not in self._entries:
            self._entries[ref] = {}
            self._entry_count += _OVERHEAD
            if ref[0] == self._names.facets:
                self._spellings[ref] = Counter()
        entries = self._entries[ref]
        entries[document_id] = entry
        self._entry_count += 1
        if len(entries) > 2 * self._limits.truncate_at:
            self._entries[ref] = self._truncate(ref, self._limits.truncate_at)
            dropped_count = len(entries) - self._limits.truncate_at
            self._dropped[ref] += dropped_count
            self._entry_count -= dropped_count

    def _truncate(self, ref: PostingsRef, limit: int) -> dict[str, int]:
        return dict(self._policies[ref[0]](self._entries[ref], self._average, limit))

    def _shorten_range(self) -> None:
        """Leave the last posting lists, with half of the entries in memory, to the next part."""
        refs = self.list_refs()
        size = self._entry_count
        while size > self._limits.memory_budget // 2 and len(refs) > 1:
            ref = refs.pop()
            size -= _OVERHEAD + len(self._entries.pop(ref))
            self._dropped.pop(ref, None)
            self._spellings.pop(ref, None)
            self._days.pop(ref, None)
        self._entry_count, self.end_at = size, refs[-1]

    def _build_facet_fields(self, ref: PostingsRef, spelling: str | None) -> dict[str, str]:
        spellings = self._spellings[ref]
        most_frequent = max(spellings, key=lambda text: (spellings[text], text))
        name = spelling if spelling and spelling in spellings else most_frequent
        facet = parse_facet_id(ref[1], name)
        return {"kind": facet.kind.value, "key": facet.key, "name": name}
