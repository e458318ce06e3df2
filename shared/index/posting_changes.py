"""Changes of postings: what they are, how they are written, and how postings too long are cut.

The writes by which documents enter the lists, change in them and leave them.

They add to what is there and read nothing, so that several writers do not undo one another: none of
them has to know what the others write.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, Increment, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.index.bm25 import CAP
from shared.index.facets import parse_facet_id
from shared.index.postings import TRACES, to_totals

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
    """Of a list's entries, the mean length of a document and a number, what to keep."""


@dataclass(frozen=True, slots=True)
class IndexDifference:
    """What the lists are to learn of a document.

    Attributes:
        document_id: Which.
        before: What they know of it; `NOTHING` of one that is new.
        after: What they are to know of it; `NOTHING` of one that goes.
    """

    document_id: str
    before: IndexedState
    after: IndexedState

    def entries(
        self, names: IndexCollections
    ) -> Iterator[tuple[PostingsRef, int | None, int | None]]:
        """The lists that change: what each said of the document, and what it is to say."""
        old, new = dict(self.before.entries(names)), dict(self.after.entries(names))
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before != after:
                yield name, before, after

    def descriptions(self, names: IndexCollections) -> Iterator[tuple[PostingsRef, dict[str, str]]]:
        """What to say of those of its facets whose name is new here."""
        for facet_id, name in self.after.facets.items():
            if self.before.facets.get(facet_id) != name:
                facet = parse_facet_id(facet_id, name)
                said = {"kind": facet.kind.value, "key": facet.key, "name": name}
                yield (names.facets, facet_id), said


@dataclass(slots=True)
class PostingsChange:
    """What one list gains and loses.

    Attributes:
        df: How many documents more stand on it, or fewer.
        entries: Document id to what it says from now on, or that it says nothing.
        fields: What else it says.
    """

    df: int = 0
    entries: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    def note(self, document_id: str, before: int | None, after: int | None) -> None:
        """Take in that a document's entry comes, changes or goes."""
        self.entries[document_id] = DELETE_FIELD if after is None else after
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


def postings_changes(
    names: IndexCollections, differences: Sequence[IndexDifference]
) -> dict[PostingsRef, PostingsChange]:
    """What the lists gain and lose by some documents together."""
    lists: dict[PostingsRef, PostingsChange] = defaultdict(PostingsChange)
    for difference in differences:
        for name, before, after in difference.entries(names):
            lists[name].note(difference.document_id, before, after)
        for name, said in difference.descriptions(names):
            lists[name].fields |= said
    return lists


def totals_change(differences: Sequence[IndexDifference]) -> dict[str, int]:
    """By how much the totals change; one without any term is none of the documents."""
    pairs = [(each.before.length, each.after.length) for each in differences]
    counts = {
        "documents": sum((new > 0) - (old > 0) for old, new in pairs),
        "length": sum(new - old for old, new in pairs),
    }
    return {name: count for name, count in counts.items() if count}


def postings_writes(
    database: Database, names: IndexCollections, difference: IndexDifference
) -> list[Write]:
    """Bring the lists up to date with one document; nothing to write where nothing changes.

    `difference.before` must be what the lists know of the document by the time of the commit: the
    commit writes `difference.after` into the document too, on the condition that it is still as it
    was read.
    """
    lists = postings_changes(names, [difference])
    writes = [postings_write(database, name, change) for name, change in lists.items()]
    return writes + totals_writes(database, names, [difference])


def postings_write(database: Database, name: PostingsRef, change: PostingsChange) -> Write:
    """Merge a change into a list, which comes into being where it is missing."""
    reference, data = database.document(*name), change.document()
    return lambda batch: batch.set(reference, data, merge=True)


def totals_writes(
    database: Database, names: IndexCollections, differences: Sequence[IndexDifference]
) -> list[Write]:
    """Add to the totals; no write where they stay as they are."""
    counts = totals_change(differences)
    data = {name: Increment(count) for name, count in counts.items()}
    reference = database.document(*names.totals)
    return [lambda batch: batch.set(reference, data, merge=True)] if data else []


SLACK: Final = 250
"""Entries that a list takes beyond its cap before it is cut again."""
SHORTENED: Final = 20
"""Lists that are cut in one commit: a thousand entries of a hundred bytes each."""


class PostingsTruncation:
    """Finds and cuts the long lists of a corpus.

    Attributes:
        most: With as many entries a list is too long.
    """

    def __init__(
        self, database: Database, names: IndexCollections, cap: int = CAP, slack: int = SLACK
    ) -> None:
        """Keep those of these names, in this database, no longer than `cap + slack` for long."""
        self.most = cap + slack
        self._database = database
        self._names = names
        self._cap = cap

    async def overlong(self, limit: int) -> list[PostingsRef]:
        """The lists that may have grown too long, of either kind `limit` at most. One round trip.

        A corpus of one writer need not ask: `Indexing.apply` tells.
        """
        collections = self._names.lexicon, self._names.facets
        found = await asyncio.gather(*(self._overlong(name, limit) for name in collections))
        return [name for names in found for name in names]

    async def shorten(
        self, lists: Sequence[PostingsRef], keep: Mapping[str, TruncationPolicy]
    ) -> None:
        """Cut lists that may have grown too long; what somebody changes meanwhile stays as it is.

        Args:
            lists: Which.
            keep: For each collection what its lists keep.
        """
        for start in range(0, len(lists), SHORTENED):
            names = [*lists[start : start + SHORTENED], self._names.totals]
            found = await self._database.get_all([self._database.document(*name) for name in names])
            stored = {(each.reference.parent.id, each.id): each for each in found}
            totals = stored.pop(self._names.totals, None)
            average = to_totals(totals.to_dict() if totals else None).average
            writes = [self._cut(each, keep, average) for each in stored.values()]
            await self._database.commit_skipping_conflicts(writes)

    async def _overlong(self, collection: str, limit: int) -> list[PostingsRef]:
        query = overlong_query(self._database.collection(collection), self.most, limit)
        return [(collection, each.id) for each in await self._database.find(query)]

    def _cut(
        self, snapshot: DocumentSnapshot[Any], keep: Mapping[str, TruncationPolicy], average: float
    ) -> Write:
        collection, data = snapshot.reference.parent.id, snapshot.to_dict() or {}
        entries = data.get("postings", {})
        kept = keep[collection](entries, average, self._cap)
        change: dict[str, Any] = {"postings": dict(kept), "held": len(kept)}
        dropped = [entry for name, entry in entries.items() if name not in kept]
        if dropped and collection == self._names.facets:
            # Of several of one date some may have been kept: only later ones are all there.
            since = max(dropped) + 1
            change["since"] = max(data.get("since", since), since)
        option = LastUpdateOption(snapshot.update_time)
        return lambda batch: batch.update(snapshot.reference, change, option)


def overlong_query(lists: AsyncCollectionReference, length: int, limit: int) -> AsyncQuery:
    """The lists of a collection that may hold as many entries, without these."""
    return lists.where(filter=FieldFilter("held", ">=", length)).select([]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index.

    The knowledge base's lists are not looked for: their one writer learns which have grown.
    """
    yield overlong_query(client.collection(TRACES.lexicon), 1, 1)
    yield overlong_query(client.collection(TRACES.facets), 1, 1)
