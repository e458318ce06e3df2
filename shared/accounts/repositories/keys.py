"""Hashed access keys in Firestore: `keys/{key_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.accounts.access_key import AccessKey
from shared.core.caller import parse_scopes
from shared.core.errors import NotFound
from shared.core.installation import carrel
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Create, Update

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "keys"
MAX_LISTED_KEYS: Final = 1_000
"""A query returns at most this many keys, more than a deployment is expected to have."""


class AccessKeys:
    """The repository of access keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: AccessKey) -> None:
        """Store a new key."""
        fields = _CODEC.write(key)
        await self._database.commit([Create(self._get_reference(key.key_id), fields)])

    async def get(self, key_id: str) -> AccessKey | None:
        """Load a key, even if it is not valid, or return None if it does not exist."""
        snapshot = await self._database.get(self._get_reference(key_id))
        return _to_key(snapshot) if snapshot.exists else None

    async def list_keys(self, user_id: str | None = None) -> list[AccessKey]:
        """Load all keys or those of one user, newest first."""
        query = keys_query(user_id)
        keys = [_to_key(snapshot) for snapshot in await self._database.find(query)]
        return sorted(keys, key=lambda key: key.created_at, reverse=True)

    async def revoke(self, key_id: str, now: datetime) -> AccessKey:
        """Revoke a key. A key that is already revoked does not change.

        Raises:
            NotFound: The key does not exist.
        """

        async def attempt() -> AccessKey:
            key = await self.get(key_id)
            if key is None:
                raise NotFound(f"There is no key {key_id}. `{carrel('keys list')}` lists all keys.")
            if key.revoked_at is None:
                await self._update(key_id, {"revoked_at": now})
            return key

        return await self._database.retry_on_conflict(attempt)

    async def record_use(self, key_id: str, now: datetime) -> None:
        """Record that a key was used now.

        Raises:
            WriteConflict: The key was deleted, or is being changed at the same time.
        """
        await self._update(key_id, {"used_at": now})

    async def _update(self, key_id: str, fields: dict[str, Any]) -> None:
        await self._database.commit([Update(self._get_reference(key_id), fields)])

    def _get_reference(self, key_id: str) -> Reference:
        return Reference(COLLECTION, key_id)


def keys_query(user_id: str | None) -> Query:
    """Build the query for all keys, newest first, or those of one user in any order."""
    query = Query(COLLECTION).limit(MAX_LISTED_KEYS)
    if user_id is None:
        return query.order_by("created_at", descending=True)
    # `list_keys` sorts a user's keys, which are too few to justify a composite index.
    return query.where("user_id", "==", user_id)


_CODEC: Final = Codec(AccessKey, readers={"scopes": parse_scopes})


def _to_key(snapshot: Document) -> AccessKey:
    return _CODEC.load(snapshot.fields)
