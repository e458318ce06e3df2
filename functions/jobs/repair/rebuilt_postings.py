"""Rebuilds postings from the indexed states of documents, as many as fit in memory.

"Postings" here are those of one term or facet: the entries of its documents, in one stored
document.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.dates import format_utc_day
from shared.index.bm25 import CAP, Totals
from shared.index.facets import is_month, parse_facet_id
from shared.index.on_request import read_level
from shared.index.posting_changes import SLACK, get_truncation_policies

if TYPE_CHECKING:
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

_OVERHEAD: Final = 3
"""The memory that postings take in addition to their entries, counted in entries."""


@dataclass(frozen=True, slots=True)
class RebuildLimits:
    """The maximum size of postings, and of all postings in memory.

    Attributes:
        cap: The number of entries that truncated postings keep.
        truncate_at: The number of entries at which postings are truncated.
        memory_budget: The maximum number of entries in memory. The postings of each term or facet
            count for three more. A million entries take about 75 MiB: 9,000 abstracts fit into one
            part, and 60,000 need six.
    """

    cap: int = CAP
    truncate_at: int = CAP + SLACK
    memory_budget: int = 1_000_000


class RebuiltPostings:
    """The postings of a range of terms and facets, as many as fit in memory.

    When the memory budget is used up, the range is shortened: its last postings, with about half of
    the entries in memory, are left to the next part.

    Attributes:
        start_after: The position before the first postings.
        end_at: The last postings, or None if the range has no end.
        document_count: The number of added documents that have terms.
        total_length: The number of terms in these documents.
    """

    def __init__(
        self,
        names: IndexCollections,
        start_after: PostingsRef,
        average: float,
        limits: RebuildLimits,
    ) -> None:
        """Begin without postings.

        Args:
            average: The mean length of a document, on which truncation depends.
        """
        self._names = names
        self._policies = get_truncation_policies(names)
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
                collection, postings_id = ref
                self._add_entry(ref, document_id, entry)
                if collection == self._names.facets:
                    self._spellings[ref][state.facets[postings_id]] += 1
                    if is_month(postings_id) and not read_level(entry):
                        self._days[ref][format_utc_day(entry)] += 1
        while self._entry_count > self._limits.memory_budget and len(self._entries) > 1:
            self._shorten_range()

    def list_refs(self) -> list[PostingsRef]:
        """Return the references of the rebuilt postings, sorted."""
        return sorted(self._entries)

    def build_fields(self, ref: PostingsRef, spelling: str | None) -> dict[str, Any] | None:
        """Build the correct stored fields of postings, as `shared.index.postings` describes them.

        Args:
            spelling: The stored name of a facet, which is kept if a document spells it that way.

        Returns:
            The fields, or None if the postings should not exist.
        """
        if ref not in self._entries:
            return None
        entries = self._entries[ref]
        df = len(entries) + self._dropped[ref]
        kept_entries = (
            entries if df < self._limits.truncate_at else self._truncate(ref, self._limits.cap)
        )
        data: dict[str, Any] = {"df": df, "postings": kept_entries, "held": len(kept_entries)}
        if ref[0] == self._names.facets:
            data |= self._build_facet_fields(ref, spelling)
            if ref in self._days:
                data["days"] = dict(self._days[ref])
            if len(kept_entries) < len(entries):
                # Entries of a facet are dates. Some documents with the latest dropped date may be
                # missing, so the postings are complete only from the next date on.
                dropped_dates = (date for key, date in entries.items() if key not in kept_entries)
                data["since"] = 1 + max(dropped_dates)
        return data

    def _is_in_range(self, ref: PostingsRef) -> bool:
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
        """Leave the last postings, with about half of the entries, to the next part."""
        refs = self.list_refs()
        size = self._entry_count
        while size > self._limits.memory_budget // 2 and len(refs) > 1:
            ref = refs.pop()
            size -= _OVERHEAD + len(self._entries.pop(ref))
            self._dropped.pop(ref, None)
            self._spellings.pop(ref, None)
            self._days.pop(ref, None)
        self._entry_count = size
        self.end_at = refs[-1]

    def _build_facet_fields(self, ref: PostingsRef, spelling: str | None) -> dict[str, str]:
        spellings = self._spellings[ref]
        most_frequent = max(spellings, key=lambda text: (spellings[text], text))
        name = spelling if spelling and spelling in spellings else most_frequent
        facet = parse_facet_id(ref[1], name)
        return {"kind": facet.kind.value, "key": facet.key, "name": name}
