"""Erasing a trace for good, with its votes and its earlier revisions.

The trace goes first, in one commit with `trace_erasures/{trace_id}`, which says that what hung
under it is still to go: from then on nobody votes on it, puts it back or reads it, and whoever
finds that record goes on. What its votes did to its contributor's record stays there, so that
nobody is rid of a bad name by withdrawing what earned it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import Increment, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.firestore.writes import put_if_unchanged
from shared.index.indexed_state import NOT_INDEXED
from shared.index.posting_changes import IndexDifference, postings_writes
from shared.index.postings import TRACES
from shared.traces.repository import COLLECTION, CONTRIBUTORS, REVISIONS, VOTES
from shared.traces.trust import VoteType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.traces.repository import StoredTrace

ERASURES: Final = "trace_erasures"
ERASED: Final = {VoteType.UP: "erased_up", VoteType.DOWN: "erased_down"}
"""The fields of a contributor that count the votes on what of theirs was erased."""
PAGES: Final = {VOTES: 200, REVISIONS: 20}
"""Documents that one commit deletes: Firestore counts what they hold, and a revision holds up to a
hundred thousand characters."""
FOLLOWERS: Final = 100
"""Traces that one commit tells of the end of the one that they replace."""


class TraceErasure:
    """Finds traces that were withdrawn long ago, and erases them."""

    def __init__(self, database: Database) -> None:
        """Look in this database."""
        self._database = database

    async def withdrawn(self, before: datetime, limit: int) -> list[str]:
        """The ids of traces that were withdrawn before a moment. One round trip."""
        query = withdrawn_query(self._database.client, before).select(["__name__"])
        return [each.id for each in await self._database.find(query.limit(limit))]

    async def count_withdrawn(self, before: datetime) -> int:
        """How many there are. One round trip."""
        return await self._database.count(withdrawn_query(self._database.client, before))

    async def begun(self, limit: int) -> list[str]:
        """The ids of traces of which something is left. One round trip."""
        query = rest_query(self._database.client, ERASURES, limit)
        return [each.id for each in await self._database.find(query)]

    async def followers(self, trace_id: str) -> list[DocumentSnapshot[Any]]:
        """Traces that say that they replace this one: who contributed them. One round trip."""
        query = followers_query(self._database.client, trace_id, FOLLOWERS)
        return await self._database.find(query)

    async def begin(self, stored: StoredTrace, others: Sequence[Write], now: datetime) -> None:
        """Delete a trace, on the condition that it is as it was read, and note what is left of it.

        Args:
            stored: The trace.
            others: What else is to change with it.
            now: The time to stamp on the note.

        Raises:
            WriteConflict: Somebody put it back, or one of the others changed. Nothing was written.
        """
        trace = stored.trace
        note, option = self._note(trace.trace_id), LastUpdateOption(stored.snapshot.update_time)
        lists = IndexDifference(trace.trace_id, stored.mark, NOT_INDEXED)
        await self._database.commit(
            [
                lambda batch: batch.delete(stored.snapshot.reference, option),
                lambda batch: batch.set(note, {"begun_at": now}),
                *self._credits(trace.contributor, await self._heads(trace.trace_id)),
                *postings_writes(self._database, TRACES, lists),
                *others,
            ]
        )

    async def pages(self, trace_id: str) -> AsyncIterator[Counter[str]]:
        """Delete what is left of it, and tell after each commit how many of what are gone."""
        for kind, size in PAGES.items():
            query = rest_query(self._database.client, f"{COLLECTION}/{trace_id}/{kind}", size)
            while found := await self._database.find(query):
                await self._database.commit(map(_deletion, found))
                yield Counter({kind: len(found)})
        note = self._note(trace_id)
        await self._database.commit([lambda batch: batch.delete(note)])

    def replaced_by(self, seen: DocumentSnapshot[Any], trace_id: str) -> Write:
        """The write that says which trace took the place of one that nobody finds."""
        return put_if_unchanged(seen, {"superseded_by": trace_id})

    def replaces(self, seen: DocumentSnapshot[Any], trace_id: str | None) -> Write:
        """The write that says which trace one replaces."""
        return put_if_unchanged(seen, {"supersedes": trace_id})

    async def _heads(self, trace_id: str) -> Mapping[VoteType, int]:
        """How many voted for it and against it: who votes now makes the commit refuse."""
        client = self._database.client
        queries = [heads_query(client, trace_id, kind) for kind in VoteType]
        counts = await asyncio.gather(*map(self._database.count, queries))
        return dict(zip(VoteType, counts, strict=True))

    def _credits(self, contributor: str, heads: Mapping[VoteType, int]) -> list[Write]:
        data = {ERASED[kind]: Increment(count) for kind, count in heads.items() if count}
        reference = self._database.document(CONTRIBUTORS, contributor)
        return [lambda batch: batch.set(reference, data, merge=True)] if data else []

    def _note(self, trace_id: str) -> Any:
        return self._database.document(ERASURES, trace_id)


def withdrawn_query(client: AsyncClient, before: datetime) -> AsyncQuery:
    """Traces that were withdrawn before a moment, longest ago first."""
    withdrawn = FieldFilter("withdrawn_at", "<", before)
    return client.collection(COLLECTION).where(filter=withdrawn).order_by("withdrawn_at")


def followers_query(client: AsyncClient, trace_id: str, limit: int) -> AsyncQuery:
    """Traces that say that they replace one."""
    following = FieldFilter("supersedes", "==", trace_id)
    return (
        client.collection(COLLECTION).where(filter=following).select(["contributor"]).limit(limit)
    )


def heads_query(client: AsyncClient, trace_id: str, kind: VoteType) -> AsyncQuery:
    """Votes of a kind on a trace."""
    votes = client.collection(f"{COLLECTION}/{trace_id}/{VOTES}")
    return votes.where(filter=FieldFilter("vote", "==", kind.value))


def rest_query(client: AsyncClient, collection: str, limit: int) -> AsyncQuery:
    """What is left of a collection, by name alone."""
    return client.collection(collection).select(["__name__"]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield withdrawn_query(client, utc_now()).limit(1)
    yield followers_query(client, "a", 1)
    yield heads_query(client, "a", VoteType.UP)
    yield rest_query(client, f"{COLLECTION}/a/{VOTES}", 1)


def _deletion(seen: DocumentSnapshot[Any]) -> Write:
    return lambda batch: batch.delete(seen.reference)
