"""`keys/{key_id}`: access keys, hashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import AsyncQuery, FieldFilter

from shared.accounts.access_key import AccessKey
from shared.core.caller import parse_scopes
from shared.core.errors import NotFound
from shared.firestore.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncDocumentReference, DocumentSnapshot

    from shared.firestore.database import Database

MOST_LISTED: Final = 1_000


class AccessKeys:
    """Keeps keys, and finds them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def add(self, key: AccessKey) -> None:
        """Keep a new key."""
        fields = _CODEC.write(key)
        await self._database.commit([lambda batch: batch.create(self._at(key.key_id), fields)])

    async def get(self, key_id: str) -> AccessKey | None:
        """The key of this id, if there is one, whether it holds or not."""
        snapshot = await self._database.get(self._at(key_id))
        return _key(snapshot) if snapshot.exists else None

    async def all(self, user_id: str | None = None) -> list[AccessKey]:
        """All keys, or one user's, the newest first."""
        query = keys_query(self._database.client, user_id)
        found = [_key(snapshot) for snapshot in await self._database.find(query)]
        return sorted(found, key=lambda key: key.created_at, reverse=True)

    async def revoke(self, key_id: str, now: datetime) -> AccessKey:
        """End a key at once; one that was revoked before stays as it is.

        Raises:
            NotFound: There is none of this id.
        """

        async def attempt() -> AccessKey:
            key = await self.get(key_id)
            if key is None:
                raise NotFound(f"There is no key {key_id}. `carrel keys list` shows all.")
            if key.revoked_at is None:
                await self._update(key_id, {"revoked_at": now})
            return key

        return await self._database.retry_on_conflict(attempt)

    async def used(self, key_id: str, now: datetime) -> None:
        """Remember that a key is in use.

        Raises:
            WriteConflict: It is gone, or somebody else changes it at this moment.
        """
        await self._update(key_id, {"used_at": now})

    async def _update(self, key_id: str, fields: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.update(self._at(key_id), fields)])

    def _at(self, key_id: str) -> AsyncDocumentReference:
        return self._database.document("keys", key_id)


def keys_query(client: AsyncClient, user_id: str | None) -> AsyncQuery:
    """All keys, the newest first, or one user's."""
    query = client.collection("keys").limit(MOST_LISTED)
    if user_id is None:
        return query.order_by("created_at", direction=AsyncQuery.DESCENDING)
    # Nobody has so many keys that they would be worth a composite index.
    return query.where(filter=FieldFilter("user_id", "==", user_id))


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield keys_query(client, None)
    yield keys_query(client, "anna")


_CODEC: Final = Codec(AccessKey, readers={"scopes": parse_scopes})


def _key(snapshot: DocumentSnapshot[Any]) -> AccessKey:
    return _CODEC.load(snapshot.to_dict() or {})
