"""`accounts/{user_id}`: what users have, may spend and have spent."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, SERVER_TIMESTAMP

from shared.accounts.account import Account, Hold
from shared.accounts.grant import TOKENS_OUTLIVE
from shared.core.errors import InvalidInput
from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from google.cloud.firestore import AsyncDocumentReference, DocumentSnapshot

    from shared.firestore.database import Database, Write

COLLECTION: Final = "accounts"


class Accounts:
    """Reads accounts, and changes them in ways that hold."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def get(self, user_id: str) -> Account:
        """A user's account: an empty one where nothing was ever written."""
        return to_account(await self._database.get(self._at(user_id)))

    async def credit(self, user_id: str, amount: int, now: datetime) -> Account:
        """Add micro-dollars to a balance, or take some back; return the account.

        Each credit leaves a document of its own beside the account, by which one that has landed is
        known when the answer of its commit was lost.

        Raises:
            InvalidInput: More is taken back than is there and not held.
        """
        credit = self._at(user_id).collection("credits").document(uuid.uuid4().hex)

        async def attempt() -> Account:
            seen, landed = await asyncio.gather(
                self._database.get(self._at(user_id)), self._database.get(credit)
            )
            account = to_account(seen)
            if landed.exists:
                return account
            after = account.credit(amount, now)
            noted = {"amount": amount, "at": SERVER_TIMESTAMP}
            await self._database.commit(
                [put_if_unchanged(seen, money_of(after)), put_if_unchanged(landed, noted)]
            )
            return after

        return await self._database.retry_on_conflict(attempt)

    async def set_budget(self, user_id: str, amount: int | None) -> None:
        """Set what a month may cost, in micro-dollars; None for no limit.

        Raises:
            InvalidInput: It is negative.
        """
        if amount is not None and amount < 0:
            raise InvalidInput("A budget is 0 or more; without one, there is no limit.")
        await self._set(user_id, {"monthly_budget": amount})

    async def now(self) -> datetime:
        """What time it is, as the database has it: a laptop's clock may be hours wrong."""
        seen = await self._database.get(self._at("nobody"), [])
        moment: datetime = seen.read_time
        return moment

    async def revoke(self, user_id: str, until: datetime) -> None:
        """End at once all credentials of a user that were made until then."""
        await self._set(user_id, {"revoked_before": until})

    async def ending(self, user_id: str, grant_id: str) -> Write:
        """What ends a sign-in's access tokens at once, to be committed with the sign-in's own end.

        It is forgotten when the last of them has expired, as the database's own clock has it: whose
        clock is wrong would bring tokens back to life.
        """
        seen = await self._database.get(self._at(user_id))
        ended, now = to_account(seen).ended_grants, seen.read_time
        over: dict[str, Any] = {each: DELETE_FIELD for each, end in ended.items() if end <= now}
        fields = {"ended_grants": over | {grant_id: now + TOKENS_OUTLIVE}}
        return lambda batch: batch.set(self._at(user_id), fields, merge=True)

    async def _set(self, user_id: str, fields: dict[str, Any]) -> None:
        writes: list[Write] = [lambda batch: batch.set(self._at(user_id), fields, merge=True)]
        await self._database.retry_on_conflict(lambda: self._database.commit(writes))

    def _at(self, user_id: str) -> AsyncDocumentReference:
        return self._database.document(COLLECTION, user_id)


_HOLD: Final = Codec(Hold)


def _holds(data: Mapping[str, Any]) -> dict[str, Hold]:
    return {call_id: _HOLD.load(hold) for call_id, hold in data.items()}


_CODEC: Final = Codec(Account, "user_id", readers={"held": _holds})


def to_account(snapshot: DocumentSnapshot[Any]) -> Account:
    """The account that a document holds."""
    return _CODEC.read(snapshot.id, snapshot.to_dict() or {})


def money_of(account: Account) -> dict[str, Any]:
    """The fields of an account that calls and credits change."""
    return _CODEC.write(account, {"balance", "month", "spent", "held"})
