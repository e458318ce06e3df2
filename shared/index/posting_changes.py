"""Writes changes to postings, and truncates postings that grew too long.

Writes are increments and merges that read nothing, so concurrent writers do not undo one another's
changes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import split
from shared.core.dates import format_utc_day
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD, Increment
from shared.firestore.writes import Set, Update, Write
from shared.index.bm25 import CAP, select_best
from shared.index.facets import is_month, parse_facet_id
from shared.index.on_request import read_level
from shared.index.postings import to_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.firestore.database import Database
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

    TruncationPolicy = Callable[[Mapping[str, int], float, int], Mapping[str, int]]
    """Selects the entries to keep, given all entries, a document's mean length and a limit."""


@dataclass(frozen=True, slots=True)
class IndexDifference:
    """How a document changes in the index.

    Attributes:
        before: How it is indexed now, or NOT_INDEXED for a new document.
        after: How it will be indexed, or NOT_INDEXED for a document to remove.
    """

    document_id: str
    before: IndexedState
    after: IndexedState

    def list_changed_entries(
        self, names: IndexCollections
    ) -> Iterator[tuple[PostingsRef, int | None, int | None]]:
        """Yield the postings that change, each with the document's current and new entry."""
        old, new = dict(self.before.list_entries(names)), dict(self.after.list_entries(names))
        for postings_ref in old.keys() | new.keys():
            before, after = old.get(postings_ref), new.get(postings_ref)
            if before != after:
                yield postings_ref, before, after

    def list_new_names(
        self, names: IndexCollections
    ) -> Iterator[tuple[PostingsRef, dict[str, str]]]:
        """Yield the postings of facets that are new or renamed, with the fields that name them."""
        for facet_id, name in self.after.facets.items():
            if self.before.facets.get(facet_id) != name:
                facet = parse_facet_id(facet_id, name)
                fields = {"kind": facet.kind.value, "key": facet.key, "name": name}
                yield (names.facets, facet_id), fields


@dataclass(slots=True)
class PostingsChange:
    """How the postings of one term or facet change.

    Attributes:
        df: The increment of the document frequency.
        entries: The new entries by document id, or DELETE_FIELD for an entry to delete.
        days: For a month's postings, the increment of each day's number of documents.
    """

    df: int = 0
    entries: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    days: Counter[str] = field(default_factory=Counter)

    def add(self, document_id: str, before: int | None, after: int | None) -> None:
        """Add the change of one document's entry."""
        self.entries[document_id] = DELETE_FIELD if after is None else after
        self.df += (after is not None) - (before is not None)

    def add_dates(self, before: int | None, after: int | None) -> None:
        """Add the change of one document's date, in microseconds since 1970."""
        if before is not None and not read_level(before):
            self.days[format_utc_day(before)] -= 1
        if after is not None and not read_level(after):
            self.days[format_utc_day(after)] += 1

    def to_document(self) -> dict[str, Any]:
        """Return the fields to merge into the stored postings."""
        if not self.entries:
            return dict(self.fields)
        # `held` is an upper bound, so it also counts entries that replace existing ones.
        written = sum(entry is not DELETE_FIELD for entry in self.entries.values())
        sums = {"held": Increment(written)} | ({"df": Increment(self.df)} if self.df else {})
        days = {day: Increment(count) for day, count in self.days.items() if count}
        return {"postings": self.entries} | self.fields | sums | ({"days": days} if days else {})


def combine_postings_changes(
    names: IndexCollections, differences: Sequence[IndexDifference]
) -> dict[PostingsRef, PostingsChange]:
    """Combine the changes of several documents into one change for each of the postings."""
    changes: dict[PostingsRef, PostingsChange] = defaultdict(PostingsChange)
    for difference in differences:
        for postings_ref, before, after in difference.list_changed_entries(names):
            change = changes[postings_ref]
            change.add(difference.document_id, before, after)
            collection, document_id = postings_ref
            if collection == names.facets and is_month(document_id):
                change.add_dates(before, after)
        for postings_ref, fields in difference.list_new_names(names):
            changes[postings_ref].fields |= fields
    return changes


def compute_totals_change(differences: Sequence[IndexDifference]) -> dict[str, int]:
    """Compute the increments of the totals. A document without terms does not count."""
    pairs = [(difference.before.length, difference.after.length) for difference in differences]
    counts = {
        "documents": sum((new > 0) - (old > 0) for old, new in pairs),
        "length": sum(new - old for old, new in pairs),
    }
    return {name: count for name, count in counts.items() if count}


def build_postings_writes(
    names: IndexCollections, differences: Sequence[IndexDifference]
) -> list[Write]:
    """Build the writes that apply the differences to the index, if there are any.

    At the time of the commit, each document must still be indexed as its `before` says. So the same
    commit must store `after` in the document, on the condition that the document has not changed
    since it was read.
    """
    changes = combine_postings_changes(names, differences)
    writes = [
        _build_postings_write(postings_ref, change) for postings_ref, change in changes.items()
    ]
    return writes + _build_totals_writes(names, differences)


def _build_postings_write(postings_ref: PostingsRef, change: PostingsChange) -> Write:
    """Build the write that merges a change into postings, which it creates if they are missing."""
    reference, fields = Reference(*postings_ref), change.to_document()
    return Set(reference, fields, merge=True)


def _build_totals_writes(
    names: IndexCollections, differences: Sequence[IndexDifference]
) -> list[Write]:
    """Build the write that adds to the totals, if they change."""
    counts = compute_totals_change(differences)
    fields = {name: Increment(count) for name, count in counts.items()}
    reference = Reference(*names.totals)
    return [Set(reference, fields, merge=True)] if fields else []


SLACK: Final = 250
"""How many entries postings may have beyond the cap before they are truncated again."""
TRUNCATED_AT_ONCE: Final = 20
"""The number of postings that one commit truncates. Each has a thousand entries of a hundred
bytes."""


class PostingsTruncation:
    """Finds and truncates the long postings of a corpus, for the index job.

    Writers add entries without reading the postings, so no writer knows how long they are.
    """

    def __init__(
        self, database: Database, names: IndexCollections, cap: int = CAP, slack: int = SLACK
    ) -> None:
        """Set the limits: postings with `cap + slack` entries or more are truncated to `cap`."""
        self._max_entries = cap + slack
        self._database = database
        self._names = names
        self._policies = get_truncation_policies(names)
        self._cap = cap

    async def find_overlong(self, limit: int) -> list[PostingsRef]:
        """Find postings that may be too long: up to `limit` of terms, and as many of facets.

        Costs one round trip.
        """
        collections = self._names.lexicon, self._names.facets
        overlong = await asyncio.gather(
            *(self._find_overlong_in(name, limit) for name in collections)
        )
        return [reference for references in overlong for reference in references]

    async def truncate(self, references: Sequence[PostingsRef]) -> None:
        """Truncate postings that may be too long, except those that change in the meantime.

        Costs two round trips for each TRUNCATED_AT_ONCE postings.
        """
        for block in split(references, TRUNCATED_AT_ONCE):
            refs = [*block, self._names.totals]
            snapshots = await self._database.get_all([Reference(*reference) for reference in refs])
            snapshots_by_ref = {
                (snapshot.reference.collection_id, snapshot.id): snapshot for snapshot in snapshots
            }
            totals = snapshots_by_ref.pop(self._names.totals, None)
            average = to_totals(totals.fields if totals else None).average
            writes = [
                self._build_truncation(snapshot, average) for snapshot in snapshots_by_ref.values()
            ]
            await self._database.commit_skipping_conflicts(writes)

    async def _find_overlong_in(self, collection: str, limit: int) -> list[PostingsRef]:
        query = Query(collection).where("held", ">=", self._max_entries).select([]).limit(limit)
        return [(collection, snapshot.id) for snapshot in await self._database.find(query)]

    def _build_truncation(self, snapshot: Document, average: float) -> Write:
        collection, fields = snapshot.reference.collection_id, snapshot.fields
        entries = fields.get("postings", {})
        remaining = self._policies[collection](entries, average, self._cap)
        change: dict[str, Any] = {"postings": dict(remaining), "held": len(remaining)}
        dropped = [entry for document_id, entry in entries.items() if document_id not in remaining]
        if dropped and collection == self._names.facets:
            # Documents with the date of a dropped entry may be missing; those after it are not.
            since = max(dropped) + 1
            change["since"] = max(fields.get("since", since), since)
        return Update(snapshot.reference, change, snapshot.update_time)


def select_newest(
    entries: Mapping[str, int], _average: float = 1.0, limit: int = CAP
) -> dict[str, int]:
    """Return the entries with the latest dates. Among equal dates, the highest ids are kept."""
    return dict(heapq.nlargest(limit, entries.items(), key=lambda entry: (entry[1], entry[0])))


def get_truncation_policies(names: IndexCollections) -> Mapping[str, TruncationPolicy]:
    """Return each collection's policy. Terms keep their best entries, facets their newest.

    The job that truncates postings and the job that rebuilds them must use the same policies.
    """
    return {names.lexicon: select_best, names.facets: select_newest}
