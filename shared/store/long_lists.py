"""Lists that have grown too long: which these are, and how they are cut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.domain.postings import CAP
from shared.store.index_lists import TRACES, to_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from google.cloud.firestore import (
        AsyncClient,
        AsyncCollectionReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database, Write
    from shared.store.index_lists import IndexNames, ListName

    Keep = Callable[[Mapping[str, int], float, int], Mapping[str, int]]
    """Of a list's entries, the mean length of a document and a number, what to keep."""

SLACK: Final = 250
"""Entries that a list takes beyond its cap before it is cut again."""
SHORTENED: Final = 20
"""Lists that are cut in one commit: a thousand entries of a hundred bytes each."""


class LongLists:
    """Finds and cuts the long lists of a corpus.

    Attributes:
        most: With as many entries a list is too long.
    """

    def __init__(
        self, database: Database, names: IndexNames, cap: int = CAP, slack: int = SLACK
    ) -> None:
        """Keep those of these names, in this database, no longer than `cap + slack` for long."""
        self.most = cap + slack
        self._database = database
        self._names = names
        self._cap = cap

    async def overlong(self, limit: int) -> list[ListName]:
        """The lists that may have grown too long, of either kind `limit` at most. One round trip.

        A corpus of one writer need not ask: `Indexing.apply` tells.
        """
        collections = self._names.lexicon, self._names.facets
        found = await asyncio.gather(*(self._overlong(name, limit) for name in collections))
        return [name for names in found for name in names]

    async def shorten(self, lists: Sequence[ListName], keep: Mapping[str, Keep]) -> None:
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
            await self._database.commit_what_holds(writes)

    async def _overlong(self, collection: str, limit: int) -> list[ListName]:
        query = overlong_query(self._database.collection(collection), self.most, limit)
        return [(collection, each.id) for each in await self._database.find(query)]

    def _cut(
        self, snapshot: DocumentSnapshot[Any], keep: Mapping[str, Keep], average: float
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
