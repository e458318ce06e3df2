"""Recounts votes, and corrects the tallies of traces and the records of contributors.

The tally of a trace contains the sums of the votes on it. The record of a contributor,
`contributors/{user_id}`, counts the votes on all traces of this user. A vote changes three
documents in one commit: the vote, its trace and the contributor's record. The recount reads the
trace or the record before its votes, and writes a correction only if that document has not changed
since. So a correction never undoes a vote that was cast in the meantime.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.writes import put_if_unchanged
from shared.traces.erasure import ERASED_FIELDS
from shared.traces.repository import (
    COLLECTION as TRACES,
)
from shared.traces.repository import (
    CONTRIBUTORS,
    READ_FIELDS,
    RECORD,
    VOTE,
    VOTES,
)
from shared.traces.trust import ContributorRecord, VoteTally, VoteType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database
    from shared.traces.model import Trace

TRACES_PAGE_SIZE: Final = 50
"""One query reads at most this many traces."""
VOTES_PAGE_SIZE: Final = 300
"""One query reads at most this many votes."""
_PROGRESS: Final = ("meta", "trust")
"""The document at this path stores the time up to which votes have been read."""


@dataclass(frozen=True, slots=True)
class VoteCount:
    """All votes on a trace.

    Attributes:
        tally: The sums of the votes that count (see `Trace.counts_vote`).
        by_type: The number of votes of each type, including upvotes on earlier revisions, which
            count only for the contributor's record.
    """

    tally: VoteTally
    by_type: Counter[VoteType]


class VoteRecount:
    """Reads traces with all their votes, and corrects stored sums."""

    def __init__(self, database: Database) -> None:
        """Use this database, which contains the traces."""
        self._database = database

    async def find_next_contributor(self, user_id: str) -> str | None:
        """Return the next contributor after `user_id` in the order of user ids, or None at the end.

        An empty `user_id` finds the first contributor. Costs one Firestore round trip.
        """
        query = contributors_query(self._database.client, user_id).limit(1)
        snapshots = await self._database.find(query)
        return str(snapshots[0].get("contributor")) if snapshots else None

    async def iterate_traces(self, user_id: str) -> AsyncIterator[DocumentSnapshot[Any]]:
        """Read the traces of a contributor page by page, and yield each trace."""
        query = contributed_by_query(self._database.client, user_id)
        async for page in self._iterate_pages(query, TRACES_PAGE_SIZE):
            for snapshot in page:
                yield snapshot

    async def load_traces(self, trace_ids: Sequence[str]) -> list[DocumentSnapshot[Any]]:
        """Load those of these traces that exist. Costs one Firestore round trip."""
        references = [self._database.document(TRACES, trace_id) for trace_id in trace_ids]
        return await self._database.get_all(references, READ_FIELDS)

    async def count_remaining(self, user_id: str) -> int:
        """Count the traces of all contributors after `user_id` in the order of user ids.

        Costs one Firestore round trip.
        """
        return await self._database.count(contributors_query(self._database.client, user_id))

    async def iterate_votes_since(self, since: datetime) -> AsyncIterator[dict[str, datetime]]:
        """Read the votes since a time page by page, the earliest first.

        For each page, yields the traces that were voted on: the time of the page's latest vote by
        trace id.
        """
        query = votes_since_query(self._database.client, since)
        async for page in self._iterate_pages(query, VOTES_PAGE_SIZE):
            yield {vote.reference.path.split("/")[1]: vote.get("given_at") for vote in page}

    async def count_votes(self, trace: Trace) -> VoteCount:
        """Read and count all votes on a trace."""
        tally = VoteTally()
        by_type = Counter[VoteType]()
        query = votes_query(self._database.client, trace.trace_id)
        async for page in self._iterate_pages(query, VOTES_PAGE_SIZE):
            for data in (snapshot.to_dict() or {} for snapshot in page):
                vote = VOTE.load(data)
                by_type[vote.type] += 1
                if trace.counts_vote(vote, data["revision"]):
                    tally = tally.plus(vote)
        return VoteCount(tally, by_type)

    async def correct_tally(self, snapshot: DocumentSnapshot[Any], tally: VoteTally) -> bool:
        """Store a tally unless the trace has changed since, and return whether it was stored."""
        correction = put_if_unchanged(snapshot, {"tally": asdict(tally)})
        return bool(await self._database.commit_skipping_conflicts([correction]))

    async def get_record(self, user_id: str) -> DocumentSnapshot[Any]:
        """Read the document of a contributor's record. Costs one Firestore round trip."""
        return await self._database.get(self._database.document(CONTRIBUTORS, user_id))

    async def correct_record(
        self, snapshot: DocumentSnapshot[Any], record: ContributorRecord
    ) -> bool:
        """Store a record unless it has changed since, and return whether it was stored."""
        return bool(
            await self._database.commit_skipping_conflicts(
                [put_if_unchanged(snapshot, asdict(record))]
            )
        )

    async def get_progress(self) -> datetime | None:
        """Load the time up to which votes have been read. Costs one Firestore round trip."""
        snapshot = await self._database.get(self._database.document(*_PROGRESS))
        return (snapshot.to_dict() or {}).get("seen_until")

    async def set_progress(self, until: datetime) -> None:
        """Store the time up to which votes have been read."""
        reference = self._database.document(*_PROGRESS)
        fields = {"seen_until": until}
        await self._database.commit([lambda batch: batch.set(reference, fields, merge=True)])

    async def _iterate_pages(
        self, query: AsyncQuery, size: int
    ) -> AsyncIterator[list[DocumentSnapshot[Any]]]:
        """Yield the pages of a query's results, up to the first page that is not full."""
        page = await self._database.find(query.limit(size))
        while page:
            yield page
            if len(page) < size:
                return
            page = await self._database.find(query.start_after(page[-1]).limit(size))


def compute_record(
    snapshot: DocumentSnapshot[Any], by_type: Counter[VoteType]
) -> ContributorRecord:
    """Compute a contributor's record: the votes on the existing and the erased traces.

    Args:
        snapshot: The document of the record, which counts the votes on erased traces separately.
        by_type: The number of votes of each type on the contributor's existing traces.
    """
    data = snapshot.to_dict() or {}
    sums = {
        vote_type: by_type[vote_type] + data.get(ERASED_FIELDS[vote_type], 0)
        for vote_type in VoteType
    }
    return ContributorRecord(up=sums[VoteType.UP], down=sums[VoteType.DOWN])


def read_record(snapshot: DocumentSnapshot[Any]) -> ContributorRecord:
    """Read a contributor's record from its document. A missing document is an empty record."""
    return RECORD.load(snapshot.to_dict() or {})


def contributors_query(client: AsyncClient, after: str) -> AsyncQuery:
    """Build the query for the traces of the contributors after a user id, in this order."""
    follows = FieldFilter("contributor", ">", after)
    query = client.collection(TRACES).where(filter=follows).order_by("contributor")
    return query.select(["contributor"])


def contributed_by_query(client: AsyncClient, user_id: str) -> AsyncQuery:
    """Build the query for the traces of a contributor."""
    is_own = FieldFilter("contributor", "==", user_id)
    query = client.collection(TRACES).where(filter=is_own)
    return query.order_by("__name__").select(READ_FIELDS)


def votes_query(client: AsyncClient, trace_id: str) -> AsyncQuery:
    """Build the query for all votes on a trace."""
    votes = client.collection(f"{TRACES}/{trace_id}/{VOTES}").order_by("__name__")
    return votes.select(["vote", "tag", "weight", "revision"])


def votes_since_query(client: AsyncClient, since: datetime) -> AsyncQuery:
    """Build the query for the votes on any trace since a time, the earliest first."""
    is_new = FieldFilter("given_at", ">", since)
    query = client.collection_group(VOTES).where(filter=is_new).order_by("given_at")
    return query.select(["given_at"])
