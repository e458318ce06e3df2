"""OAuth clients, which are registered programs, in Firestore: `oauth_clients/{client_id}`.

A client's secret is not stored, because it is a signature of the client's id.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from shared.accounts.grant import OAuthClient
from shared.firestore.codec import Codec
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Reference
from shared.firestore.writes import Create, Update

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "oauth_clients"
_CODEC: Final = Codec(OAuthClient)


class OAuthClients:
    """The repository of registered programs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, client: OAuthClient) -> None:
        """Store a new registration."""
        fields = _CODEC.write(client)
        await self._database.commit([Create(self._get_reference(client.client_id), fields)])

    async def get(self, client_id: str) -> OAuthClient | None:
        """Load a registration, even if it has expired, or return None if it does not exist."""
        snapshot = await self._database.get(self._get_reference(client_id))
        return _CODEC.load(snapshot.fields) if snapshot.exists else None

    async def extend(self, client_id: str, expires_at: datetime) -> None:
        """Set the time at which a registration expires. Do nothing if it no longer exists."""
        fields = {"expires_at": expires_at}
        with suppress(WriteConflict):
            await self._database.commit([Update(self._get_reference(client_id), fields)])

    def _get_reference(self, client_id: str) -> Reference:
        return Reference(COLLECTION, client_id)
