"""Idempotency records in Firestore: `users/{user_id}/replays/{call_id}`.

A record says what a call changed, for the user. That of a call with an idempotency key also
contains the answer: a retry of the call returns it instead of writing again. The record is
committed together with the call's effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.core.dates import from_microseconds, to_microseconds
from shared.firestore.codec import Codec, added_field
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.retention import Retention
from shared.firestore.writes import Create, Write

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database

    ChangesCursor = tuple[int, str]
    """When a call changed something, in microseconds, and its id."""

COLLECTION: Final = "replays"
ANSWERS: Final = Retention(
    title="what calls changed, and answers by which a repeated call is recognized",
    collection=COLLECTION,
    duration=timedelta(days=30),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """What a completed call changed, and its answer.

    Attributes:
        attempt_id: The id of the attempt that wrote the record, so that the attempt recognizes its
            own commit. Stored as `run`.
        arguments_hash: A hash of the call's arguments and of the task that the call belongs to.
            Stored as `arguments`.
        result: The result as JSON text, because Firestore cannot store a list within a list. None
            if the call had no key, since it is never repeated.
        price: The price in millionths of a dollar, or None for the tool's own price.
        purge_at: Until when the record is kept.
        belongs_to: The path, below the user's document, of the records that the answer is about,
            or None. Erasing the records erases the answer. Stored as `about`.
        changed_at: When the call changed something, or None if it did not.
        changes: What it changed, as the JSON text of a list, or None.
        client: The name of the program that called, if it is known.
        call_id: The call, once the record is read.
    """

    attempt_id: str
    arguments_hash: str
    result: str | None
    price: int | None
    purge_at: datetime
    belongs_to: str | None = None
    changed_at: datetime | None = added_field()  # noqa: RUF009 - as the fields below
    changes: str | None = added_field()
    client: str | None = added_field()
    call_id: str = ""

    @property
    def cursor(self) -> ChangesCursor:
        """The cursor at this call."""
        return to_microseconds(self.changed_at) if self.changed_at else 0, self.call_id


_CODEC: Final = Codec(
    IdempotencyRecord,
    "call_id",
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
        return _CODEC.read(call_id, snapshot.fields) if snapshot.exists else None

    async def list_changes(
        self, limit: int, after: ChangesCursor | None = None
    ) -> list[IdempotencyRecord]:
        """Load the records of the last calls that changed something, the newest first.

        Costs one round trip.
        """
        query = self._newest_query.limit(limit)
        return await self._load(query.start_after(self._locate(after)) if after else query)

    async def list_changes_until(self, cursor: ChangesCursor) -> list[IdempotencyRecord]:
        """Load the records of all calls from the last to the cursor's. Costs one round trip."""
        return await self._load(self._newest_query.end_at(self._locate(cursor)))

    @property
    def _newest_query(self) -> Query:
        query = Query(self._collection).order_by("changed_at", descending=True)
        return query.order_by("__name__", descending=True)

    def _locate(self, cursor: ChangesCursor) -> dict[str, object]:
        moment, call_id = cursor
        return {
            "changed_at": from_microseconds(moment),
            "__name__": self._get_reference(call_id),
        }

    async def _load(self, query: Query) -> list[IdempotencyRecord]:
        snapshots = await self._database.find(query)
        return [_CODEC.read(snapshot.id, snapshot.fields) for snapshot in snapshots]

    def write(self, call_id: str, record: IdempotencyRecord) -> Write:
        """Build the write that creates a call's record. The write fails if the record exists."""
        reference, fields = self._get_reference(call_id), _CODEC.write(record)
        return Create(reference, fields)

    def _get_reference(self, call_id: str) -> Reference:
        return Reference(self._collection, call_id)


def about_query(user_path: str, path: str) -> Query:
    """Build the query for the answers about the records at a path below the user's."""
    return Query(f"{user_path}/{COLLECTION}").where("about", "==", path)
