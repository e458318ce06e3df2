"""Adding up votes anew: what a trace says of its votes, and a contributor's record of all of them.

Each vote changes three documents in one commit: itself, its trace and the record of who contributed
that. So a correction is written on the condition that the trace, or the record, is as it was before
the votes were read: it never undoes a vote that comes meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.firestore.writes import put_if_unchanged
from shared.traces.erasure import ERASED
from shared.traces.repository import (
    COLLECTION,
    CONTRIBUTORS,
    READ_FIELDS,
    RECORD,
    VOTES,
    to_trace,
)
from shared.traces.trust import Ballot, FeedbackTag, Record, Tally, VoteType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database
    from shared.traces.model import Trace

PAGE: Final = 50
"""Traces that are read at once."""
VOTES_PAGE: Final = 300
"""Votes that are read at once."""
_PLACE: Final = ("meta", "trust")


@dataclass(frozen=True, slots=True)
class Cast:
    """The votes on a trace.

    Attributes:
        tally: Those that count, added up.
        heads: All of them, by their kind.
    """

    tally: Tally
    heads: Counter[VoteType]


class TrustUpkeep:
    """Reads traces with all their votes, and corrects sums."""

    def __init__(self, database: Database) -> None:
        """Read and write in this database."""
        self._database = database

    async def contributor_after(self, user_id: str) -> str | None:
        """Who contributed traces and comes next, by user id. One round trip."""
        query = contributors_query(self._database.client, user_id).limit(1)
        found = await self._database.find(query)
        return str(found[0].get("contributor")) if found else None

    async def traces_of(self, user_id: str) -> AsyncIterator[DocumentSnapshot[Any]]:
        """What somebody contributed."""
        query = of_contributor_query(self._database.client, user_id)
        async for page in self._pages(query, PAGE):
            for snapshot in page:
                yield snapshot

    async def traces(self, trace_ids: Sequence[str]) -> list[DocumentSnapshot[Any]]:
        """Those of these traces that exist. One round trip."""
        references = [self._database.document(COLLECTION, name) for name in trace_ids]
        return await self._database.get_all(references, READ_FIELDS)

    async def count(self, user_id: str) -> int:
        """How many traces there are of contributors who come after one. One round trip."""
        return await self._database.count(contributors_query(self._database.client, user_id))

    async def voted_on(self, since: datetime) -> AsyncIterator[dict[str, datetime]]:
        """The traces that were voted on since a moment, and when, from vote to vote, by pages."""
        query = since_query(self._database.client, since)
        async for page in self._pages(query, VOTES_PAGE):
            yield {each.reference.path.split("/")[1]: each.get("given_at") for each in page}

    async def cast(self, trace: Trace) -> Cast:
        """All votes on a trace, added up."""
        tally, heads = Tally(), Counter[VoteType]()
        query = votes_query(self._database.client, trace.trace_id)
        async for page in self._pages(query, VOTES_PAGE):
            for data in (each.to_dict() or {} for each in page):
                ballot = _ballot(data)
                heads[ballot.vote] += 1
                if trace.counts(ballot, data["revision"]):
                    tally = tally.plus(ballot)
        return Cast(tally, heads)

    async def correct_tally(self, seen: DocumentSnapshot[Any], tally: Tally) -> bool:
        """Write what the votes add up to, unless the trace changed; whether it did not."""
        correction = put_if_unchanged(seen, {"tally": asdict(tally)})
        return bool(await self._database.commit_skipping_conflicts([correction]))

    async def record(self, user_id: str) -> DocumentSnapshot[Any]:
        """The record of a contributor, as it stands. One round trip."""
        return await self._database.get(self._database.document(CONTRIBUTORS, user_id))

    async def correct_record(self, seen: DocumentSnapshot[Any], record: Record) -> bool:
        """Write what the votes add up to, unless it changed; whether it did not."""
        return bool(
            await self._database.commit_skipping_conflicts([put_if_unchanged(seen, asdict(record))])
        )

    async def seen_until(self) -> datetime | None:
        """Up to which vote the latest ones were looked at. One round trip."""
        place = await self._database.get(self._database.document(*_PLACE))
        return (place.to_dict() or {}).get("seen_until")

    async def remember(self, seen_until: datetime) -> None:
        """Say up to which vote the latest ones were looked at."""
        place, data = self._database.document(*_PLACE), {"seen_until": seen_until}
        await self._database.commit([lambda batch: batch.set(place, data, merge=True)])

    async def _pages(
        self, query: AsyncQuery, size: int
    ) -> AsyncIterator[list[DocumentSnapshot[Any]]]:
        page = await self._database.find(query.limit(size))
        while page:
            yield page
            if len(page) < size:
                return
            page = await self._database.find(query.start_after(page[-1]).limit(size))


def seen_trace(seen: DocumentSnapshot[Any]) -> Trace:
    """The trace that was read."""
    return to_trace(seen.id, seen.to_dict() or {})


def record_of(seen: DocumentSnapshot[Any]) -> Record:
    """What a contributor's record says."""
    return RECORD.load(seen.to_dict() or {})


def wanted_record(seen: DocumentSnapshot[Any], heads: Counter[VoteType]) -> Record:
    """What it is to say, by the votes on what there is and on what was erased."""
    data = seen.to_dict() or {}
    sums = {kind: heads[kind] + data.get(ERASED[kind], 0) for kind in VoteType}
    return Record(up=sums[VoteType.UP], down=sums[VoteType.DOWN])


def contributors_query(client: AsyncClient, after: str) -> AsyncQuery:
    """The traces of all who come after somebody."""
    later = FieldFilter("contributor", ">", after)
    query = client.collection(COLLECTION).where(filter=later).order_by("contributor")
    return query.select(["contributor"])


def of_contributor_query(client: AsyncClient, user_id: str) -> AsyncQuery:
    """What somebody contributed."""
    own = FieldFilter("contributor", "==", user_id)
    return client.collection(COLLECTION).where(filter=own).order_by("__name__").select(READ_FIELDS)


def votes_query(client: AsyncClient, trace_id: str) -> AsyncQuery:
    """All votes on a trace."""
    votes = client.collection(f"{COLLECTION}/{trace_id}/{VOTES}").order_by("__name__")
    return votes.select(["vote", "tag", "weight", "revision"])


def since_query(client: AsyncClient, since: datetime) -> AsyncQuery:
    """The votes on any trace that were given since a moment, in their order."""
    later = FieldFilter("given_at", ">", since)
    query = client.collection_group(VOTES).where(filter=later).order_by("given_at")
    return query.select(["given_at"])


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield contributors_query(client, "a").limit(1)
    yield of_contributor_query(client, "a").limit(1)
    yield votes_query(client, "a").limit(1)
    yield since_query(client, utc_now()).limit(1)


def _ballot(data: Mapping[str, Any]) -> Ballot:
    tag = data.get("tag")
    return Ballot(VoteType(data["vote"]), FeedbackTag(tag) if tag else None, data["weight"])
