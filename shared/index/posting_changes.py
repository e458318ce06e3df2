"""Changes to postings: how they are written, and how long postings are truncated.

Writes add to what is stored and read nothing, so concurrent writers do not undo one another's
changes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, Increment, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import format_day
from shared.index.bm25 import CAP, select_best
from shared.index.facets import is_month, parse_facet_id
from shared.index.postings import KNOWLEDGE, TRACES, to_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from google.cloud.firestore import (
        AsyncClient,
        AsyncCollectionReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database, Write
    from shared.index.indexed_state import IndexedState
    from shared.index.postings import IndexCollections, PostingsRef

    TruncationPolicy = Callable[[Mapping[str, int], float, int], Mapping[str, int]]
    """Selects the entries to keep, from postings, the mean length of a document and a limit."""


@dataclass(frozen=True, slots=True)
class IndexDifference:
    """The change of a document in the index.

    Attributes:
        document_id: The document's id.
        before: Its current state, or NOT_INDEXED for a new document.
        after: Its new state, or NOT_INDEXED for a document to remove.
    """

    document_id: str
    before: IndexedState
    after: IndexedState

    def list_changed_entries(
        self, names: IndexCollections
    ) -> Iterator[tuple[PostingsRef, int | None, int | None]]:
        """Yield the postings that change, each with its current and its new entry."""
        old, new = dict(self.before.list_entries(names)), dict(self.after.list_entries(names))
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before != after:
                yield name, before, after

    def list_new_names(
        self, names: IndexCollections
    ) -> Iterator[tuple[PostingsRef, dict[str, str]]]:
        """Yield the kind, key and name of each facet whose name is new for this document."""
        for facet_id, name in self.after.facets.items():
            if self.before.facets.get(facet_id) != name:
                facet = parse_facet_id(facet_id, name)
                fields = {"kind": facet.kind.value, "key": facet.key, "name": name}
                yield (names.facets, facet_id), fields


@dataclass(slots=True)
class PostingsChange:
    """The change of one term's or facet's postings.

    Attributes:
        df: The change of the document frequency.
        entries: Document id to the new entry, or to DELETE_FIELD.
        fields: Other fields to set.
        days: For a month, the change of the number of documents of each day.
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
        if before is not None:
            self.days[format_day(before)] -= 1
        if after is not None:
            self.days[format_day(after)] += 1

    def to_document(self) -> dict[str, Any]:
        """Return the fields to merge into the stored postings."""
        if not self.entries:
            return dict(self.fields)
        added = sum(entry is not DELETE_FIELD for entry in self.entries.values())
        sums = {"held": Increment(added)} | ({"df": Increment(self.df)} if self.df else {})
        days = {day: Increment(count) for day, count in self.days.items() if count}
        return {"postings": self.entries} | self.fields | sums | ({"days": days} if days else {})


def combine_postings_changes(
    names: IndexCollections, differences: Sequence[IndexDifference]
) -> dict[PostingsRef, PostingsChange]:
    """Combine the changes of postings by several documents."""
    changes: dict[PostingsRef, PostingsChange] = defaultdict(PostingsChange)
    for difference in differences:
        for name, before, after in difference.list_changed_entries(names):
            changes[name].add(difference.document_id, before, after)
            if name[0] == names.facets and is_month(name[1]):
                changes[name].add_dates(before, after)
        for name, fields in difference.list_new_names(names):
            changes[name].fields |= fields
    return changes


def compute_totals_change(differences: Sequence[IndexDifference]) -> dict[str, int]:
    """Compute the change of the totals. A document without terms does not count."""
    pairs = [(difference.before.length, difference.after.length) for difference in differences]
    counts = {
        "documents": sum((new > 0) - (old > 0) for old, new in pairs),
        "length": sum(new - old for old, new in pairs),
    }
    return {name: count for name, count in counts.items() if count}


def build_postings_writes(
    database: Database, names: IndexCollections, differences: Sequence[IndexDifference]
) -> list[Write]:
    """Build the writes that index some documents, if anything changes.

    The `before` of a difference must be the document's state at the time of the commit. The same
    commit therefore also stores `after` in the document, on the condition that the document has
    not changed since it was read.
    """
    changes = combine_postings_changes(names, differences)
    writes = [_build_postings_write(database, name, change) for name, change in changes.items()]
    return writes + _build_totals_writes(database, names, differences)


def _build_postings_write(database: Database, name: PostingsRef, change: PostingsChange) -> Write:
    """Build the write that merges a change into postings, and creates them if they are missing."""
    reference, data = database.document(*name), change.to_document()
    return lambda batch: batch.set(reference, data, merge=True)


def _build_totals_writes(
    database: Database, names: IndexCollections, differences: Sequence[IndexDifference]
) -> list[Write]:
    """Build the write that adds to the totals, if they change."""
    counts = compute_totals_change(differences)
    data = {name: Increment(count) for name, count in counts.items()}
    reference = database.document(*names.totals)
    return [lambda batch: batch.set(reference, data, merge=True)] if data else []


SLACK: Final = 250
"""Entries that postings may have beyond the cap before they are truncated again."""
TRUNCATED_AT_ONCE: Final = 20
"""Postings that one commit truncates: each has a thousand entries of a hundred bytes."""


class PostingsTruncation:
    """Finds and truncates the long postings of a corpus.

    Many writers add to postings, and none of them knows how long they are. So the index job asks.
    """

    def __init__(
        self, database: Database, names: IndexCollections, cap: int = CAP, slack: int = SLACK
    ) -> None:
        """Store the limits: postings of `cap + slack` entries are truncated to `cap`."""
        self._max_entries = cap + slack
        self._database = database
        self._names = names
        self._policies = truncation_policies(names)
        self._cap = cap

    async def find_overlong(self, limit: int) -> list[PostingsRef]:
        """Load the ids of postings that may be too long, up to `limit` each of terms and facets.

        Costs one round trip.
        """
        collections = self._names.lexicon, self._names.facets
        overlong = await asyncio.gather(
            *(self._find_overlong_in(name, limit) for name in collections)
        )
        return [reference for references in overlong for reference in references]

    async def truncate(self, references: Sequence[PostingsRef]) -> None:
        """Truncate postings that may be too long, but for those that change in the meantime."""
        for start in range(0, len(references), TRUNCATED_AT_ONCE):
            names = [*references[start : start + TRUNCATED_AT_ONCE], self._names.totals]
            snapshots = await self._database.get_all(
                [self._database.document(*name) for name in names]
            )
            stored = {
                (snapshot.reference.parent.id, snapshot.id): snapshot for snapshot in snapshots
            }
            totals = stored.pop(self._names.totals, None)
            average = to_totals(totals.to_dict() if totals else None).average
            writes = [self._build_cut(snapshot, average) for snapshot in stored.values()]
            await self._database.commit_skipping_conflicts(writes)

    async def _find_overlong_in(self, collection: str, limit: int) -> list[PostingsRef]:
        query = overlong_query(self._database.collection(collection), self._max_entries, limit)
        return [(collection, snapshot.id) for snapshot in await self._database.find(query)]

    def _build_cut(self, snapshot: DocumentSnapshot[Any], average: float) -> Write:
        collection, data = snapshot.reference.parent.id, snapshot.to_dict() or {}
        entries = data.get("postings", {})
        remaining = self._policies[collection](entries, average, self._cap)
        change: dict[str, Any] = {"postings": dict(remaining), "held": len(remaining)}
        dropped = [entry for name, entry in entries.items() if name not in remaining]
        if dropped and collection == self._names.facets:
            # Of several entries with one date, some may be dropped: only later dates are complete.
            since = max(dropped) + 1
            change["since"] = max(data.get("since", since), since)
        option = LastUpdateOption(snapshot.update_time)
        return lambda batch: batch.update(snapshot.reference, change, option)


def select_newest(
    entries: Mapping[str, int], _average: float = 1.0, limit: int = CAP
) -> dict[str, int]:
    """Return the entries of the latest dates. Ties go to the highest ids."""
    return dict(heapq.nlargest(limit, entries.items(), key=lambda entry: (entry[1], entry[0])))


def truncation_policies(names: IndexCollections) -> Mapping[str, TruncationPolicy]:
    """Return each collection's policy. Terms keep their best entries, facets their newest.

    The job that truncates postings and the one that rebuilds them must agree.
    """
    return {names.lexicon: select_best, names.facets: select_newest}


def overlong_query(postings: AsyncCollectionReference, length: int, limit: int) -> AsyncQuery:
    """Query the ids of postings that may be too long, without their entries."""
    return postings.where(filter=FieldFilter("held", ">=", length)).select([]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, to prove that each has its index."""
    for names in (KNOWLEDGE, TRACES):
        yield overlong_query(client.collection(names.lexicon), 1, 1)
        yield overlong_query(client.collection(names.facets), 1, 1)
