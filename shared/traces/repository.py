"""Traces and their votes in Firestore.

- `traces/{trace_id}` is a trace: a solved coding problem that users share and vote on.
- `traces/{trace_id}/revisions/{number}` is the content of an earlier revision.
- `traces/{trace_id}/votes/{user_id}` is a user's vote on any revision.
- `contributors/{user_id}` is the user's record, which counts the votes on the user's traces.

The commit that writes a trace also writes its postings (which traces contain a term), so that
search finds the trace immediately. A withdrawn trace keeps its text, but has no postings.

The methods and functions named `build_*` only build writes, which the caller commits together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.claims import FIELD as CLAIM
from shared.firestore.claims import build_claim_writes, change_claim
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import ERASURE_BEGUN, Dependents, Retention
from shared.firestore.values import DELETE_FIELD, Increment
from shared.firestore.writes import Create, Delete, Set, Write, put_if_unchanged
from shared.index.facets import select_vector_index_facets
from shared.index.indexed_state import NOT_INDEXED, IndexedState, read_indexed_state
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import TRACES
from shared.index.stored_vector import NO_VECTOR, build_vector_fields
from shared.index.vector_index import Documents
from shared.traces.model import Trace, TraceContent
from shared.traces.trust import ContributorRecord, FeedbackTag, Vote, VoteTally, VoteType

if TYPE_CHECKING:
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.firestore.claims import Claim
    from shared.firestore.database import Database

COLLECTION: Final = "traces"
VOTES: Final = "votes"
REVISIONS: Final = "revisions"
CONTRIBUTORS: Final = "contributors"
WITHDRAWN_TRACES: Final = Retention(
    title="withdrawn traces, with their votes and revisions",
    collection=COLLECTION,
    since="withdrawn_at",
    duration=timedelta(days=30),
    dependents=(Dependents.below(VOTES, 200), Dependents.below(REVISIONS, 20)),
)
"""The votes remain counted in the contributor's record, from which the weight of the contributor's
own votes follows. Otherwise, withdrawing a trace would clear a bad record."""

_CONTENT: Final = Codec(TraceContent)
TRACE: Final = Codec(
    Trace, "trace_id", readers={"tally": Codec(VoteTally).load}, inline={"content": _CONTENT}
)
"""Reads and writes the fields of a trace, without those that only the index reads."""
READ_FIELDS: Final = TRACE.stored_names
"""Queries read these fields: all fields of a trace except its vector and its indexed state."""
to_trace: Final = TRACE.read
"""Reads a trace from the id and the fields of its document."""
VOTE: Final = Codec(
    Vote, stored_as={"type": "vote"}, readers={"type": VoteType, "tag": FeedbackTag}
)
RECORD: Final = Codec(ContributorRecord)


@dataclass(frozen=True, slots=True)
class TraceIndexEntry:
    """What the index stores of a trace."""

    vector: Vector
    model: str
    indexed: IndexedState

    def to_fields(self, trace: Trace) -> dict[str, Any]:
        """Return the stored fields that search reads."""
        return build_vector_fields(self.vector, self.model) | {
            "facets": select_vector_index_facets(self.indexed.facets),
            "dated_at": trace.dated_at,
            "indexed": self.indexed.to_document(),
        }


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace as it was read.

    Attributes:
        snapshot: The trace's document. A write fails if the document has changed since.
    """

    trace: Trace
    indexed: IndexedState
    snapshot: Document


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A user's vote on a trace as it was read.

    Attributes:
        vote: The vote, or None if the user has not voted.
        text: The voter's feedback in words, or None if the voter gave none.
        revision: The revision of the trace that the user voted on, or 0 if the user has not voted.
        snapshot: The vote's document. A write fails if the document has changed since.
    """

    vote: Vote | None
    text: str | None
    revision: int
    snapshot: Document


@dataclass(frozen=True, slots=True)
class Feedback:
    """A voter's explanation of a vote against a trace."""

    tag: FeedbackTag
    text: str
    revision: int
    given_at: datetime


class Traces(Documents[Trace]):
    """The traces, and the writes that change them."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, COLLECTION, READ_FIELDS, _read_listed_trace)

    async def get(self, trace_id: str) -> StoredTrace | None:
        """Load a trace, even if it is withdrawn, but not if its erasure has begun.

        Costs one Firestore round trip.
        """
        stored = await self.get_even_if_erasing(trace_id)
        return stored if stored and stored.trace.withdrawn_at != ERASURE_BEGUN else None

    async def get_even_if_erasing(self, trace_id: str) -> StoredTrace | None:
        """Load a trace that exists. Costs one Firestore round trip."""
        snapshot = await self._database.get(self._get_reference(trace_id))
        if not snapshot.exists:
            return None
        data = snapshot.fields
        return StoredTrace(to_trace(trace_id, data), read_indexed_state(data), snapshot)

    async def list_by_contributor(self, user_id: str, limit: int, after: str | None) -> list[Trace]:
        """Load a contributor's traces, withdrawn ones included, sorted by id.

        Costs one Firestore round trip.
        """
        query = (
            Query(COLLECTION)
            .where("contributor", "==", user_id)
            .order_by("__name__")
            .select(READ_FIELDS)
            .limit(limit)
        )
        if after:
            query = query.start_after({"__name__": self._get_reference(after)})
        snapshots = await self._database.find(query)
        return [to_trace(snapshot.id, snapshot.fields) for snapshot in snapshots]

    async def get_revision(self, trace_id: str, number: int) -> TraceContent | None:
        """Load the content of an earlier revision of a trace, or None if it is not stored.

        Costs one Firestore round trip.
        """
        snapshot = await self._database.get(self._get_revision_reference(trace_id, number))
        return _CONTENT.load(snapshot.fields) if snapshot.exists else None

    async def get_vote(self, trace_id: str, user_id: str) -> StoredVote:
        """Load a user's vote on any revision of a trace. Costs one Firestore round trip."""
        path = f"{COLLECTION}/{trace_id}/{VOTES}"
        snapshot = await self._database.get(Reference(path, user_id))
        data = snapshot.fields
        vote = VOTE.load(data) if data else None
        return StoredVote(vote, data.get("text"), data.get("revision", 0), snapshot)

    async def list_latest_feedback(self, trace_id: str, limit: int) -> list[Feedback]:
        """Load the latest feedback on any revision of a trace. Costs one Firestore round trip."""
        query = (
            Query(f"{COLLECTION}/{trace_id}/{VOTES}")
            .order_by("said_at", descending=True)
            .limit(limit)
        )
        return [_read_feedback(snapshot) for snapshot in await self._database.find(query)]

    async def get_record(self, user_id: str) -> ContributorRecord:
        """Load the record of the votes on a user's traces. Costs one Firestore round trip."""
        snapshot = await self._database.get(Reference(CONTRIBUTORS, user_id))
        return RECORD.load(snapshot.fields)

    def build_creation_writes(
        self, trace: Trace, entry: TraceIndexEntry, claim: Claim | None = None
    ) -> list[Write]:
        """Build the writes that store and index a new trace, and take the claim to its text."""
        reference = self._get_reference(trace.trace_id)
        data = TRACE.write(trace) | entry.to_fields(trace)
        data[CLAIM] = claim.claim_id if claim else None
        postings = self._build_postings_writes(trace, NOT_INDEXED, entry.indexed)
        return [
            Create(reference, data),
            *build_claim_writes(claim, trace.trace_id),
            *postings,
        ]

    def build_update_writes(
        self,
        stored: StoredTrace,
        trace: Trace,
        entry: TraceIndexEntry | None,
        claim: Claim | None = None,
    ) -> list[Write]:
        """Build the writes that replace a trace and its postings.

        Args:
            entry: The new index entry, or None to remove the trace from the index.
            claim: The claim to the text, or None to release the claim that the trace has.
        """
        claim_id, claim_writes = change_claim(stored.snapshot, claim)
        index_fields = entry.to_fields(trace) if entry else _UNINDEXED_FIELDS
        indexed = entry.indexed if entry else NOT_INDEXED
        return [
            put_if_unchanged(
                stored.snapshot, TRACE.write(trace) | index_fields | {CLAIM: claim_id}
            ),
            *claim_writes,
            *self._build_postings_writes(trace, stored.indexed, indexed),
        ]

    def build_revision_write(self, stored: StoredTrace) -> Write:
        """Build the write that saves the current content of a trace as an earlier revision."""
        data = _CONTENT.write(stored.trace.content) | {"written_at": stored.trace.updated_at}
        reference = self._get_revision_reference(stored.trace.trace_id, stored.trace.revision)
        return Set(reference, data)

    def build_tally_write(self, stored: StoredTrace, tally: VoteTally) -> Write:
        """Build the write that stores the sums of the votes on a trace."""
        return put_if_unchanged(stored.snapshot, {"tally": asdict(tally)})

    def build_vote_write(
        self, stored: StoredVote, vote: Vote, text: str | None, revision: int, now: datetime
    ) -> Write:
        """Build the write that replaces a vote."""
        data = VOTE.write(vote) | {"text": text, "revision": revision, "given_at": now}
        # Feedback is shown as a warning, which praise must not displace. The feedback query sorts
        # by `said_at`, so it finds only the votes that have this field.
        if text and vote.type is VoteType.DOWN:
            data["said_at"] = now
        elif stored.snapshot.exists:
            data["said_at"] = DELETE_FIELD
        return put_if_unchanged(stored.snapshot, data)

    def build_vote_deletion_write(self, stored: StoredVote) -> Write:
        """Build the write that deletes a vote."""
        return Delete(stored.snapshot.reference, stored.snapshot.update_time)

    def build_credit_writes(
        self, user_id: str, before: Vote | None, after: Vote | None
    ) -> list[Write]:
        """Build the write, if any, that updates the contributor's record after a vote changed."""
        changes = {
            vote_type.value: (after is not None and after.type is vote_type)
            - (before is not None and before.type is vote_type)
            for vote_type in VoteType
        }
        data = {name: Increment(change) for name, change in changes.items() if change}
        reference = Reference(CONTRIBUTORS, user_id)
        return [Set(reference, data, merge=True)] if data else []

    def _build_postings_writes(
        self, trace: Trace, before: IndexedState, after: IndexedState
    ) -> list[Write]:
        difference = IndexDifference(trace.trace_id, before, after)
        return build_postings_writes(TRACES, [difference])

    def _get_reference(self, trace_id: str) -> Reference:
        return Reference(COLLECTION, trace_id)

    def _get_revision_reference(self, trace_id: str, number: int) -> Reference:
        return Reference(f"{COLLECTION}/{trace_id}/{REVISIONS}", str(number))


_UNINDEXED_FIELDS: Final = {
    **NO_VECTOR,
    "dated_at": DELETE_FIELD,
    "facets": [],
    "indexed": NOT_INDEXED.to_document(),
}
"""An update with these fields removes a trace from the index."""


def _read_listed_trace(trace_id: str, data: dict[str, Any]) -> Trace | None:
    """Read a trace from its document. Return None if search no longer includes the trace."""
    trace = to_trace(trace_id, data)
    return trace if trace.is_listed else None


def _read_feedback(snapshot: Document) -> Feedback:
    data = snapshot.fields
    return Feedback(FeedbackTag(data["tag"]), data["text"], data["revision"], data["said_at"])
