"""Accounts in Firestore: `accounts/{user_id}`."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

from shared.accounts.account import Account, Hold
from shared.accounts.grant import MAX_TOKEN_REMAINDER
from shared.core.caller import Role
from shared.core.errors import InvalidInput
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.values import DELETE_FIELD, SERVER_TIMESTAMP
from shared.firestore.writes import Set, Write, put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "accounts"


class Accounts:
    """The repository of accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, user_id: str) -> Account:
        """Load a user's account. If none is stored, return one with an empty balance."""
        return to_account(await self._database.get(self._get_reference(user_id)))

    async def credit(self, user_id: str, amount: int, now: datetime) -> Account:
        """Add micro-dollars to a balance, or withdraw a negative amount. Return the account.

        The commit also writes a document below the account. If the response is lost, this document
        shows that the commit succeeded.

        Raises:
            InvalidInput: The withdrawal exceeds the money that is not on hold.
        """
        credit_ref = Reference(f"{COLLECTION}/{user_id}/credits", uuid.uuid4().hex)

        async def attempt() -> Account:
            snapshot, credit = await asyncio.gather(
                self._database.get(self._get_reference(user_id)), self._database.get(credit_ref)
            )
            account = to_account(snapshot)
            if credit.exists:
                return account
            credited = account.credit(amount, now)
            fields = {"amount": amount, "at": SERVER_TIMESTAMP}
            await self._database.commit(
                [
                    put_if_unchanged(snapshot, build_money_fields(credited)),
                    put_if_unchanged(credit, fields),
                ]
            )
            return credited

        return await self._database.retry_on_conflict(attempt)

    async def set_budget(self, user_id: str, amount: int | None) -> None:
        """Set the monthly budget in micro-dollars, or remove it with None.

        Raises:
            InvalidInput: The amount is negative.
        """
        if amount is not None and amount < 0:
            raise InvalidInput("A budget must be 0 or more. Leave it out for no limit.")
        await self._set(user_id, {"monthly_budget": amount})

    async def set_role(self, user_id: str, role: Role | None) -> None:
        """Set a user's role, or remove it with None, so that the deployment's default applies."""
        await self._set(user_id, {"role": role and role.value})

    async def get_server_time(self) -> datetime:
        """Return the database's time, because a laptop's clock may be hours wrong."""
        # The snapshot of a missing document also says when it was read.
        snapshot = await self._database.get(self._get_reference("nobody"), [])
        return snapshot.read_time

    async def revoke(self, user_id: str, until: datetime) -> None:
        """Invalidate all of a user's credentials that were created up to the given time."""
        await self._set(user_id, {"revoked_before": until})

    async def build_end_grant_write(self, user_id: str, grant_id: str) -> Write:
        """Build the write that invalidates a grant's access tokens, to commit when the grant ends.

        The write also removes earlier grants whose last access tokens have expired by the
        database's time. An instance whose own clock is fast would remove a grant too early, and
        make its tokens valid again. Costs one round trip.
        """
        snapshot = await self._database.get(self._get_reference(user_id))
        now = snapshot.read_time
        expired: dict[str, Any] = {
            ended_id: DELETE_FIELD
            for ended_id, expires_at in to_account(snapshot).ended_grants.items()
            if expires_at <= now
        }
        fields = {"ended_grants": expired | {grant_id: now + MAX_TOKEN_REMAINDER}}
        return Set(self._get_reference(user_id), fields, merge=True)

    async def _set(self, user_id: str, fields: dict[str, Any]) -> None:
        writes: list[Write] = [Set(self._get_reference(user_id), fields, merge=True)]
        await self._database.retry_on_conflict(lambda: self._database.commit(writes))

    def _get_reference(self, user_id: str) -> Reference:
        return Reference(COLLECTION, user_id)


_HOLD: Final = Codec(Hold)


def _read_holds(data: Mapping[str, Any]) -> dict[str, Hold]:
    return {call_id: _HOLD.load(hold) for call_id, hold in data.items()}


_CODEC: Final = Codec(Account, "user_id", readers={"held": _read_holds, "role": Role})


def to_account(snapshot: Document) -> Account:
    """Read an account from its document."""
    return _CODEC.read(snapshot.id, snapshot.fields)


def build_money_fields(account: Account) -> dict[str, Any]:
    """Return the fields of an account that calls and credits change."""
    return _CODEC.write(account, {"balance", "month", "spent", "held"})
