"""Traces and their votes in Firestore.

`traces/{trace_id}` with its `revisions` and `votes`, and `contributors/{user_id}`.

A trace enters the lists that search reads in the commit that writes it: it can be found at once,
and there is no queue. What somebody withdrew is in no list, and keeps its text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, Increment, LastUpdateOption
from google.cloud.firestore_v1.base_query import BaseQuery
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged
from shared.index.facets import id_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState, read_indexed_state
from shared.index.posting_changes import IndexDifference, postings_writes
from shared.index.postings import TRACES
from shared.index.vector_index import Documents, date_shapes, vector_shapes
from shared.traces.model import Trace, Writing
from shared.traces.trust import Ballot, FeedbackTag, Record, Tally, VoteType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write
    from shared.index.indexed_state import IndexedState

COLLECTION: Final = "traces"

_WRITING: Final = Codec(Writing)
TRACE: Final = Codec(
    Trace, "trace_id", readers={"tally": Codec(Tally).load}, inline={"writing": _WRITING}
)
READ_FIELDS: Final = TRACE.stored_names
"""All of a trace but its vector and what the index knows of it."""
to_trace: Final = TRACE.read
"""Reads a trace from its document."""
RECORD: Final = Codec(Record)
"""What a contributor's record says."""


def to_listed(trace_id: str, data: dict[str, Any]) -> Trace | None:
    """Read a trace from its document, unless it was taken out of the lists meanwhile."""
    trace = to_trace(trace_id, data)
    return trace if trace.is_listed else None


def indexed_fields(trace: Trace, vector: Vector, model: str, mark: IndexedState) -> dict[str, Any]:
    """The fields by which search finds it."""
    return {
        "embedding": FirestoreVector(list(vector)),
        "embedding_model": model,
        "facets": [id_facet(trace.trace_id), *mark.facets],
        "dated_at": trace.dated_at,
        "indexed": mark.document(),
    }


def unindexed_fields() -> dict[str, Any]:
    """Part of an update, after which search does not find it any more."""
    gone = dict.fromkeys(("embedding", "embedding_model", "dated_at"), DELETE_FIELD)
    return gone | {"facets": [], "indexed": NOT_INDEXED.document()}


VOTES: Final = "votes"
REVISIONS: Final = "revisions"
CONTRIBUTORS: Final = "contributors"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """By what search finds a trace.

    Attributes:
        vector: Its vector.
        model: The model that made it.
        mark: Its terms and facets.
    """

    vector: Vector
    model: str
    mark: IndexedState


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace as it was read.

    Attributes:
        trace: What it says.
        mark: What the lists know of it.
        snapshot: Its document, on whose update time writes depend.
    """

    trace: Trace
    mark: IndexedState
    snapshot: DocumentSnapshot[Any]


@dataclass(frozen=True, slots=True)
class Vote:
    """What somebody voted on a trace, as it was read.

    Attributes:
        ballot: The vote; None if there is none.
        text: What they said beside it.
        revision: On the texts of which revision of the trace.
        snapshot: Its document.
    """

    ballot: Ballot | None
    text: str | None
    revision: int
    snapshot: DocumentSnapshot[Any]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a voter said against a trace.

    Attributes:
        tag: Why.
        text: In their words.
        revision: On the texts of which revision.
        given_at: When.
    """

    tag: FeedbackTag
    text: str
    revision: int
    given_at: datetime


class Traces(Documents[Trace]):
    """Reads traces, and gives the writes that change them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        super().__init__(database, COLLECTION, READ_FIELDS, to_listed)

    async def get(self, trace_id: str) -> StoredTrace | None:
        """The trace of this id, withdrawn or not. One round trip."""
        snapshot = await self._database.get(self._at(trace_id))
        if not snapshot.exists:
            return None
        data = snapshot.to_dict() or {}
        return StoredTrace(to_trace(trace_id, data), read_indexed_state(data), snapshot)

    async def revision(self, trace_id: str, number: int) -> Writing | None:
        """What a trace said in an earlier revision. One round trip."""
        snapshot = await self._database.get(self._revision_at(trace_id, number))
        return _WRITING.load(snapshot.to_dict() or {}) if snapshot.exists else None

    async def vote(self, trace_id: str, user_id: str) -> Vote:
        """What a user voted on a trace, of whichever revision. One round trip."""
        path = f"{COLLECTION}/{trace_id}/{VOTES}"
        snapshot = await self._database.get(self._database.document(path, user_id))
        data = snapshot.to_dict() or {}
        ballot = _ballot(data) if data else None
        return Vote(ballot, data.get("text"), data.get("revision", 0), snapshot)

    async def feedback(self, trace_id: str, limit: int) -> list[Feedback]:
        """The latest words against a trace, of any revision. One round trip."""
        found = await self._database.find(feedback_query(self._database.client, trace_id, limit))
        return [_feedback(snapshot) for snapshot in found]

    async def record(self, user_id: str) -> Record:
        """How what a user contributed has fared. One round trip."""
        snapshot = await self._database.get(self._database.document(CONTRIBUTORS, user_id))
        return RECORD.load(snapshot.to_dict() or {})

    def contributed(self, trace: Trace, entry: IndexEntry) -> list[Write]:
        """A new trace."""
        reference = self._at(trace.trace_id)
        data = TRACE.write(trace) | _indexed_fields(trace, entry)
        lists = self._listed(trace, NOT_INDEXED, entry.mark)
        return [lambda batch: batch.create(reference, data), *lists]

    def changed(self, stored: StoredTrace, trace: Trace, entry: IndexEntry | None) -> list[Write]:
        """A trace that says something else, or is withdrawn, replaced or put back.

        Args:
            stored: The trace as it was read.
            trace: As it is to be.
            entry: By what search finds it from now on; None if it is in no list any more.
        """
        found = _indexed_fields(trace, entry) if entry else unindexed_fields()
        mark = entry.mark if entry else NOT_INDEXED
        return [
            put_if_unchanged(stored.snapshot, TRACE.write(trace) | found),
            *self._listed(trace, stored.mark, mark),
        ]

    def kept(self, stored: StoredTrace) -> Write:
        """What a trace says until now, for when that is wanted back."""
        revision = _WRITING.write(stored.trace.writing) | {"written_at": stored.trace.updated_at}
        former = self._revision_at(stored.trace.trace_id, stored.trace.revision)
        return lambda batch: batch.set(former, revision)

    def tallied(self, stored: StoredTrace, tally: Tally) -> Write:
        """A trace with other votes."""
        return put_if_unchanged(stored.snapshot, {"tally": asdict(tally)})

    def cast(self, vote: Vote, ballot: Ballot, text: str | None, now: datetime) -> Write:
        """A vote on the texts of `vote.revision`, in the place of the one that was read."""
        data = asdict(ballot) | {"text": text, "revision": vote.revision, "given_at": now}
        # Only words against a trace are in the index by which feedback is listed.
        if text:
            data["said_at"] = now
        elif vote.snapshot.exists:
            data["said_at"] = DELETE_FIELD
        return put_if_unchanged(vote.snapshot, data)

    def uncast(self, vote: Vote) -> Write:
        """No vote any more."""
        option = LastUpdateOption(vote.snapshot.update_time)
        return lambda batch: batch.delete(vote.snapshot.reference, option)

    def credited(self, user_id: str, before: Ballot | None, after: Ballot | None) -> list[Write]:
        """What a vote that comes, changes or goes does to the record of who contributed."""
        moved = {
            kind.value: (after is not None and after.vote is kind)
            - (before is not None and before.vote is kind)
            for kind in VoteType
        }
        data = {kind: Increment(by) for kind, by in moved.items() if by}
        reference = self._database.document(CONTRIBUTORS, user_id)
        return [lambda batch: batch.set(reference, data, merge=True)] if data else []

    def _listed(self, trace: Trace, before: IndexedState, after: IndexedState) -> list[Write]:
        return postings_writes(
            self._database, TRACES, IndexDifference(trace.trace_id, before, after)
        )

    def _at(self, trace_id: str) -> AsyncDocumentReference:
        return self._database.document(COLLECTION, trace_id)

    def _revision_at(self, trace_id: str, number: int) -> AsyncDocumentReference:
        return self._database.document(f"{COLLECTION}/{trace_id}/{REVISIONS}", str(number))


def feedback_query(client: AsyncClient, trace_id: str, limit: int) -> AsyncQuery:
    """Votes with words on a trace, the latest first."""
    votes = client.collection(f"{COLLECTION}/{trace_id}/{VOTES}")
    return votes.order_by("said_at", direction=BaseQuery.DESCENDING).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from vector_shapes(client.collection(COLLECTION))
    yield from date_shapes(client.collection(COLLECTION))
    yield feedback_query(client, "a", 1)


def _indexed_fields(trace: Trace, entry: IndexEntry) -> dict[str, Any]:
    return indexed_fields(trace, entry.vector, entry.model, entry.mark)


def _ballot(data: Mapping[str, Any]) -> Ballot:
    tag = data.get("tag")
    return Ballot(VoteType(data["vote"]), FeedbackTag(tag) if tag else None, data["weight"])


def _feedback(snapshot: DocumentSnapshot[Any]) -> Feedback:
    data = snapshot.to_dict() or {}
    return Feedback(FeedbackTag(data["tag"]), data["text"], data["revision"], data["said_at"])
