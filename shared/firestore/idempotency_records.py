"""Idempotency records in Firestore: `users/{user_id}/replays/{call_id}`.

A record contains the answer to a call that wrote. It is committed together with the call's effect,
and a retry of the call returns the same answer instead of writing again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.retention import Retention
from shared.firestore.writes import Create, Write

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "replays"
ANSWERS: Final = Retention(
    title="answers to calls that wrote, by which a repeated call is recognized",
    collection=COLLECTION,
    duration=timedelta(days=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The answer to a completed call.

    Attributes:
        attempt_id: The id of the attempt that wrote the record, so that the attempt recognizes its
            own commit. Stored as `run`.
        arguments_hash: A hash of the call's arguments and of the task that the call belongs to.
            Stored as `arguments`.
        result: The result as JSON text, because Firestore cannot store a list within a list.
        price: The price in millionths of a dollar, or None for the tool's own price.
        purge_at: Until when the record is kept.
        belongs_to: The path, below the user's document, of the records that the answer is about,
            or None. Erasing the records erases the answer. Stored as `about`.
    """

    attempt_id: str
    arguments_hash: str
    result: str
    price: int | None
    purge_at: datetime
    belongs_to: str | None = None


_CODEC: Final = Codec(
    IdempotencyRecord,
    stored_as={"attempt_id": "run", "arguments_hash": "arguments", "belongs_to": "about"},
)


class IdempotencyRecords:
    """The idempotency records of one user."""

    def __init__(self, database: Database, user_id: str) -> None:
        """Use only the records of this user. Nothing is read yet."""
        self._database = database
        self._collection = f"users/{user_id}/{COLLECTION}"

    async def get(self, call_id: str) -> IdempotencyRecord | None:
        """Load a call's record, or None if the call has not completed or its record was deleted.

        Costs one round trip.
        """
        snapshot = await self._database.get(self._get_reference(call_id))
        return _CODEC.load(snapshot.fields) if snapshot.exists else None

    def write(self, call_id: str, record: IdempotencyRecord) -> Write:
        """Build the write that creates a call's record. The write fails if the record exists."""
        reference, fields = self._get_reference(call_id), _CODEC.write(record)
        return Create(reference, fields)

    def _get_reference(self, call_id: str) -> Reference:
        return Reference(self._collection, call_id)


def about_query(user_path: str, path: str) -> Query:
    """Build the query for the answers about the records at a path below the user's."""
    return Query(f"{user_path}/{COLLECTION}").where("about", "==", path)
