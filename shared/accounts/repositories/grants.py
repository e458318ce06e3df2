"""OAuth clients and grants, `oauth_clients/{id}` and `oauth_grants/{id}`. They contain no secrets.

A grant is one sign-in, by which a person allows a program to act on their behalf
(`shared.accounts.grant`). It is active until it is ended, even if it has expired.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from shared.accounts.grant import Grant, OAuthClient, Proof
from shared.accounts.repositories.accounts import Accounts
from shared.core.caller import parse_scopes
from shared.firestore.codec import Codec
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Create, Update, Write, put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shared.firestore.database import Database

CLIENTS: Final = "oauth_clients"
COLLECTION: Final = "oauth_grants"
MAX_ACTIVE_GRANTS: Final = 1_000
"""A query returns at most this many grants, more than a person ever has. Any others expire by
themselves."""
_CLIENT: Final = Codec(OAuthClient)


class OAuthClients:
    """The repository of registered programs, `oauth_clients/{client_id}`.

    A program's secret is not stored, because it is a signature of its id.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, client: OAuthClient) -> None:
        """Store a new registration."""
        fields = _CLIENT.write(client)
        await self._database.commit([Create(Reference(CLIENTS, client.client_id), fields)])

    async def get(self, client_id: str) -> OAuthClient | None:
        """Load a registration, even if it has expired, or return None if it does not exist."""
        snapshot = await self._database.get(Reference(CLIENTS, client_id))
        return _CLIENT.load(snapshot.fields) if snapshot.exists else None

    async def extend(self, client_id: str, expires_at: datetime) -> None:
        """Set the time at which a registration expires. Do nothing if it no longer exists."""
        fields = {"expires_at": expires_at}
        with suppress(WriteConflict):
            await self._database.commit([Update(Reference(CLIENTS, client_id), fields)])


class OAuthGrants:
    """The repository of grants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, grant: Grant) -> None:
        """Store a new grant."""
        fields = _CODEC.write(grant)
        await self._database.commit([Create(self._get_reference(grant.grant_id), fields)])

    async def get(self, grant_id: str) -> Grant | None:
        """Load a grant, even if it is not valid, or return None if it does not exist."""
        snapshot = await self._database.get(self._get_reference(grant_id))
        return _to_grant(snapshot)

    async def find_active(self, field: str, value: str) -> list[Grant]:
        """Load the active grants with this value in a field, such as `user_id`."""
        query = active_query(field, value)
        grants = [_to_grant(snapshot) for snapshot in await self._database.find(query)]
        return [grant for grant in grants if grant]

    async def change(self, grant_id: str, decide: Callable[[Grant], Grant]) -> Grant | None:
        """Replace a grant by the result of `decide`, safely under concurrent changes.

        When a grant ends, the same commit adds it to the user's account. Every call reads the
        account, so the grant's access tokens end too. Costs one read. A change also costs a commit,
        and ending a grant another read.

        Args:
            decide: Returns the changed grant, or an equal one if nothing changes. It may be called
                several times.

        Returns:
            The new grant, or None if the grant does not exist.

        Raises:
            Unavailable: The database does not answer. The change may have been made.
        """
        return await self._database.retry_on_conflict(lambda: self._attempt(grant_id, decide))

    async def _attempt(self, grant_id: str, decide: Callable[[Grant], Grant]) -> Grant | None:
        """Change a grant as `change` describes, unless another writer is faster.

        Raises:
            WriteConflict: The grant or the account has changed since it was read.
        """
        snapshot = await self._database.get(self._get_reference(grant_id))
        before = _to_grant(snapshot)
        if before is None:
            return None
        after = decide(before)
        if after != before:
            writes: list[Write] = [put_if_unchanged(snapshot, _CODEC.write(after))]
            if after.ended_at:
                accounts = Accounts(self._database)
                writes.append(await accounts.build_end_grant_write(after.user_id, after.grant_id))
            await self._database.commit(writes)
        return after

    def _get_reference(self, grant_id: str) -> Reference:
        return Reference(COLLECTION, grant_id)


_CODEC: Final = Codec(
    Grant, "grant_id", readers={"scopes": parse_scopes, "proof": Codec(Proof).load}
)


def active_query(field: str, value: str) -> Query:
    """Build the query for the active grants with a value in a field."""
    return (
        Query(COLLECTION)
        .where(field, "==", value)
        .where("ended_at", "==", None)
        .limit(MAX_ACTIVE_GRANTS)
    )


def _to_grant(snapshot: Document) -> Grant | None:
    return _CODEC.read(snapshot.id, snapshot.fields) if snapshot.exists else None
