"""Erases traces permanently, with their votes and earlier revisions.

The first commit deletes the trace and writes `trace_erasures/{trace_id}`, which records that the
votes and revisions must still be deleted. From then on no user can read the trace, vote on it or
restore it. A later run that finds this document continues the erasure.

The votes remain counted in the contributor's record, `contributors/{user_id}`, from which the
weight of the contributor's own votes follows. Otherwise, withdrawing a trace would clear a bad
record. A trace that supersedes an erased trace is called its follower here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Delete, Set, Write, put_if_unchanged
from shared.index.indexed_state import NOT_INDEXED
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import TRACES
from shared.traces.repository import COLLECTION, REVISIONS, VOTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.traces.repository import StoredTrace

ERASURES: Final = "trace_erasures"
"""The collection of the documents that record unfinished erasures."""
PAGE_SIZES: Final = {VOTES: 200, REVISIONS: 20}
"""One commit deletes at most this many documents of a subcollection. Firestore limits the size of a
commit, which includes deleted contents, and a revision has up to 100,000 characters."""
MAX_FOLLOWERS: Final = 100
"""One query reads at most this many followers of a trace."""


class TraceErasure:
    """Finds traces that were withdrawn long ago, and erases them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_withdrawn(self, before: datetime, limit: int) -> list[str]:
        """Load the ids of traces that were withdrawn before a time.

        Costs one Firestore round trip.
        """
        query = withdrawn_query(before).select(["__name__"])
        return [snapshot.id for snapshot in await self._database.find(query.limit(limit))]

    async def count_withdrawn(self, before: datetime) -> int:
        """Count the traces that were withdrawn before a time. Costs one Firestore round trip."""
        return await self._database.count(withdrawn_query(before))

    async def list_unfinished(self, limit: int) -> list[str]:
        """Load the ids of traces whose erasure has begun and is not finished.

        Costs one Firestore round trip.
        """
        query = names_query(ERASURES, limit)
        return [snapshot.id for snapshot in await self._database.find(query)]

    async def load_followers(self, trace_id: str) -> list[Document]:
        """Load the followers of a trace, with only the field `contributor`.

        Costs one Firestore round trip.
        """
        query = (
            Query(COLLECTION)
            .where("supersedes", "==", trace_id)
            .select(["contributor"])
            .limit(MAX_FOLLOWERS)
        )
        return await self._database.find(query)

    async def begin(
        self, stored_trace: StoredTrace, other_writes: Sequence[Write], now: datetime
    ) -> None:
        """Delete a trace and its postings, and record that its erasure is not finished.

        Args:
            other_writes: Additional writes for the same commit.

        Raises:
            WriteConflict: The trace or the document of another write has changed. Nothing was
                written.
        """
        trace = stored_trace.trace
        record = self._get_erasure_reference(trace.trace_id)
        difference = IndexDifference(trace.trace_id, stored_trace.indexed, NOT_INDEXED)
        await self._database.commit(
            [
                Delete(stored_trace.snapshot.reference, stored_trace.snapshot.update_time),
                Set(record, {"begun_at": now}),
                *build_postings_writes(TRACES, [difference]),
                *other_writes,
            ]
        )

    async def finish(self, trace_id: str) -> AsyncIterator[Counter[str]]:
        """Delete a trace's votes and revisions, and then the record of the erasure.

        Yields the number of documents that each commit deleted, by subcollection.
        """
        for name, size in PAGE_SIZES.items():
            query = names_query(f"{COLLECTION}/{trace_id}/{name}", size)
            while page := await self._database.find(query):
                await self._database.commit(Delete(document.reference) for document in page)
                yield Counter({name: len(page)})
        record = self._get_erasure_reference(trace_id)
        await self._database.commit([Delete(record)])

    def _get_erasure_reference(self, trace_id: str) -> Reference:
        return Reference(ERASURES, trace_id)


def build_superseded_by_write(snapshot: Document, trace_id: str) -> Write:
    """Build the write that marks a trace as superseded by another.

    The trace must be outside the index already (withdrawn or superseded), because the write does
    not remove it.
    """
    return put_if_unchanged(snapshot, {"superseded_by": trace_id})


def build_supersedes_write(snapshot: Document, trace_id: str | None) -> Write:
    """Build the write that stores which trace a trace supersedes, or None."""
    return put_if_unchanged(snapshot, {"supersedes": trace_id})


def withdrawn_query(before: datetime) -> Query:
    """Build the query for traces that were withdrawn before a time, the earliest first."""
    return Query(COLLECTION).where("withdrawn_at", "<", before).order_by("withdrawn_at")


def names_query(collection: str, limit: int) -> Query:
    """Build the query for the first documents of a collection, without their fields."""
    return Query(collection).select(["__name__"]).limit(limit)
