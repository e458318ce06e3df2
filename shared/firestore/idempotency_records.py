"""`users/{user_id}/replays/{call_id}`: the answers of calls that wrote something.

An answer is committed together with the call's effect. If the same call is sent again, it is
answered from here.
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
    """The answer of a completed call.

    Attributes:
        run: The id of the attempt that wrote the record, by which it recognizes its own commit.
        arguments: A digest of the call's arguments.
        result: The result as JSON text, since Firestore takes no list in a list.
        price: The price in millionths of a dollar; None for the tool's own price.
        expires_at: When the record may be deleted.
        about: The path, below the user's, of the data that the answer belongs to: erasing the data
            erases the answer. None if there is no such data.
    """

    run: str
    arguments: str
    result: str
    price: int | None
    expires_at: datetime
    about: str | None = None


_CODEC: Final = Codec(IdempotencyRecord)


class IdempotencyRecords:
    """The idempotency records of one user."""

    def __init__(self, database: Database, user_id: str) -> None:
        """Use the collection below the user's path."""
        self._database = database
        self._collection = f"users/{user_id}/replays"

    async def get(self, call_id: str) -> IdempotencyRecord | None:
        """Load the answer of a call; None if it did not complete or its record has expired."""
        snapshot = await self._database.get(self._reference(call_id))
        return _CODEC.load(snapshot.to_dict() or {}) if snapshot.exists else None

    async def about(self, path: str, limit: int) -> list[DocumentSnapshot[Any]]:
        """Find answers that belong to the data at this path, without their results. One query.

        Their `update_time` guards a deletion.
        """
        query = about_query(self._database.client, self._collection, path, limit)
        return await self._database.find(query)

    def write(self, call_id: str, record: IdempotencyRecord) -> Write:
        """Create the record of a call. A second commit that contains this write is refused."""
        reference, fields = self._reference(call_id), _CODEC.write(record)
        return lambda batch: batch.create(reference, fields)

    def _reference(self, call_id: str) -> AsyncDocumentReference:
        return self._database.document(self._collection, call_id)


def about_query(client: AsyncClient, collection: str, path: str, limit: int) -> AsyncQuery:
    """Find answers that belong to the data at this path, without their results."""
    query = client.collection(collection).where(filter=FieldFilter("about", "==", path))
    return query.select(["about"]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, for the check that each has an index."""
    yield about_query(client, "users/a/replays", "rag_tasks/notes", 1)
