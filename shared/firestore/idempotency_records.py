"""`users/{user_id}/replays/{call_id}`: answers to calls that wrote something.

Each is kept with what the call wrote, for when the same call is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """What a call answered.

    Attributes:
        run: Names the run that wrote this, so that it knows its own work again.
        arguments: A digest of what it was called with.
        result: Its result, as JSON in a text: Firestore takes no list in a list.
        price: What it cost in micro-dollars; None if what its tool costs.
        expires_at: When it may be forgotten.
        about: The path, below the user's, of what it belongs to: when that is erased, the answer
            goes too. None: of nothing that can be erased.
    """

    run: str
    arguments: str
    result: str
    price: int | None
    expires_at: datetime
    about: str | None = None


_CODEC: Final = Codec(IdempotencyRecord)


class IdempotencyRecords:
    """One user's answers."""

    def __init__(self, database: Database, user_id: str) -> None:
        """Keep them under the path of their user."""
        self._database = database
        self._collection = f"users/{user_id}/replays"

    async def get(self, call_id: str) -> IdempotencyRecord | None:
        """What the call answered, if it was ever finished and is not forgotten."""
        snapshot = await self._database.get(self._at(call_id))
        return _CODEC.load(snapshot.to_dict() or {}) if snapshot.exists else None

    async def about(self, path: str, limit: int) -> list[DocumentSnapshot[Any]]:
        """Answers that belong to what has this path: which they are, not what they say.

        One query; to delete them as they were seen, each has its `update_time`.
        """
        query = about_query(self._database.client, self._collection, path, limit)
        return await self._database.find(query)

    def write(self, call_id: str, replay: IdempotencyRecord) -> Write:
        """The write that keeps an answer. The commit that holds it is refused the second time."""
        reference, fields = self._at(call_id), _CODEC.write(replay)
        return lambda batch: batch.create(reference, fields)

    def _at(self, call_id: str) -> AsyncDocumentReference:
        return self._database.document(self._collection, call_id)


def about_query(client: AsyncClient, collection: str, path: str, limit: int) -> AsyncQuery:
    """Answers that belong to what has this path, without their text."""
    belonging = client.collection(collection).where(filter=FieldFilter("about", "==", path))
    return belonging.select(["about"]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield about_query(client, "users/a/replays", "rag_tasks/notes", 1)
