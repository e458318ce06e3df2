"""`oauth_grants/{grant_id}`: what people allowed programs. Nothing in it is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import FieldFilter

from shared.accounts.grant import Grant, Proof
from shared.accounts.repositories.accounts import Accounts
from shared.core.caller import parse_scopes
from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database, Write

COLLECTION: Final = "oauth_grants"
MOST_FOUND: Final = 1_000
"""Sign-ins of one person: what is left behind ends by itself."""


class OAuthGrants:
    """Keeps grants, one document each, and changes them in ways that hold."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def add(self, grant: Grant) -> None:
        """Keep a new grant."""
        await self._database.commit(
            [lambda b: b.create(self._at(grant.grant_id), _CODEC.write(grant))]
        )

    async def get(self, grant_id: str) -> Grant | None:
        """The grant of this id, if there is one, whether it holds or not."""
        snapshot = await self._database.get(self._at(grant_id))
        return _grant(snapshot)

    async def holding(self, field: str, value: str) -> list[Grant]:
        """The grants with this value that were not ended, used or not."""
        query = holding_query(self._database.client, field, value)
        found = [_grant(snapshot) for snapshot in await self._database.find(query)]
        return [grant for grant in found if grant]

    async def change(self, grant_id: str, decide: Callable[[Grant], Grant]) -> Grant | None:
        """Make of a grant what `decide` makes of it, however many do so at once.

        A grant that ends takes its access tokens along: its user's account, which is read with
        every call, learns it in the same commit. One read; a change adds a commit, an end another
        read.

        Returns:
            What became of it; None if there is no such grant.

        Raises:
            Unavailable: The database does not answer, and what became of it is unknown.
        """
        return await self._database.retry_on_conflict(lambda: self._attempt(grant_id, decide))

    async def _attempt(self, grant_id: str, decide: Callable[[Grant], Grant]) -> Grant | None:
        seen = await self._database.get(self._at(grant_id))
        before = _grant(seen)
        if before is None:
            return None
        after = decide(before)
        if after != before:
            ends = [await self._end(after)] if after.ended_at else []
            await self._database.commit([put_if_unchanged(seen, _CODEC.write(after)), *ends])
        return after

    async def _end(self, grant: Grant) -> Write:
        accounts = Accounts(self._database)
        return await accounts.ending(grant.user_id, grant.grant_id)

    def _at(self, grant_id: str) -> AsyncDocumentReference:
        return self._database.document(COLLECTION, grant_id)


_CODEC: Final = Codec(
    Grant, "grant_id", readers={"scopes": parse_scopes, "proof": Codec(Proof).load}
)


def holding_query(client: AsyncClient, field: str, value: str) -> AsyncQuery:
    """The grants with a value that were not ended."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter(field, "==", value))
        .where(filter=FieldFilter("ended_at", "==", None))
        .limit(MOST_FOUND)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for field in ("proof.key_id", "user_id"):
        yield holding_query(client, field, "")


def _grant(snapshot: DocumentSnapshot[Any]) -> Grant | None:
    return _CODEC.read(snapshot.id, snapshot.to_dict() or {}) if snapshot.exists else None
