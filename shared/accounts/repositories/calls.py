"""`calls/{call_id}`: what became of calls that wrote or cost something, and of their money.

A record and its user's account change in one commit, each preconditioned on what was read, so that
a call is charged once however often it is sent. A commit whose answer was lost is recognised by
what it wrote, when its second sending is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from shared.accounts.call_record import DONE, KEPT, Bill, CallEntry, CallRecord, Ledger, State
from shared.accounts.repositories import accounts
from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from google.cloud.firestore import AsyncDocumentReference, DocumentSnapshot

    from shared.firestore.database import Database


class CallRecords:
    """Keeps records; and accounts with them, where these are `ours` and no service's outside."""

    def __init__(self, database: Database, *, ours: bool = True) -> None:
        """Keep them in this database."""
        self._database = database
        self._ours = ours

    async def get(self, call_id: str) -> CallRecord | None:
        """The record of a call, if there is one."""
        seen = await self._database.get(self._at(call_id))
        return _record(seen) if seen.exists else None

    async def record(self, bill: Bill, now: datetime) -> None:
        """Keep a record of a call that costs nothing; of one that is known to be done, the first.

        Two round trips, as all that follows.
        """

        async def attempt() -> None:
            seen = await self._database.get(self._at(bill.call_id))
            if not seen.exists or seen.get("outcome") != DONE:
                await self._database.commit(
                    [put_if_unchanged(seen, _fields(CallRecord(bill=bill), now))]
                )

        await self._database.retry_on_conflict(attempt)

    async def reserve(self, bill: Bill, holder: str, now: datetime) -> CallRecord:
        """Set money aside for a call, under this name; its record may say that it was paid before.

        Raises:
            PaymentRequired: The account does not cover it; nothing was written.
        """
        return await self._change(bill, now, lambda seen: seen.reserved(bill, holder, now))

    async def settle(self, bill: Bill, cost: int, now: datetime) -> int:
        """Charge a call, unless it was charged before; return what it has cost, whenever."""
        record = await self._change(bill, now, lambda seen: seen.settled(cost, bill.entry, now))
        return record.charged

    async def cancel(self, bill: Bill, holder: str, now: datetime) -> bool:
        """Give back what this name holds; return whether nobody holds money for the call now."""
        record = await self._change(bill, now, lambda seen: seen.cancelled(holder, bill.entry, now))
        return record.state is State.CANCELLED

    async def keep(self, bill: Bill, now: datetime) -> None:
        """Note what is known of a call whose money stays set aside."""
        await self._change(bill, now, lambda seen: seen.heard(bill.entry))

    async def _change(
        self, bill: Bill, now: datetime, decide: Callable[[Ledger], Ledger]
    ) -> CallRecord:
        """Read, decide and write what has changed, until nobody came in between."""

        async def attempt() -> CallRecord:
            call, owner = await self._see(bill.call_id, bill.user_id if self._ours else None)
            before = Ledger(
                _record(call) if call.exists else CallRecord(bill=bill),
                accounts.to_account(owner) if owner else None,
            )
            after = decide(before)
            writes = []
            if after.record is not before.record:
                writes.append(put_if_unchanged(call, _fields(after.record, now)))
            if owner and after.account and after.account is not before.account:
                writes.append(put_if_unchanged(owner, accounts.money_of(after.account)))
            await self._database.commit(writes)
            return after.record

        return await self._database.retry_on_conflict(attempt)

    async def _see(
        self, call_id: str, user_id: str | None
    ) -> tuple[DocumentSnapshot[Any], DocumentSnapshot[Any] | None]:
        if user_id is None:
            return await self._database.get(self._at(call_id)), None
        owner = self._database.document(accounts.COLLECTION, user_id)
        call, account = await asyncio.gather(
            self._database.get(self._at(call_id)), self._database.get(owner)
        )
        return call, account

    def _at(self, call_id: str) -> AsyncDocumentReference:
        return self._database.document("calls", call_id)


_BILL: Final = Codec(Bill, inline={"entry": Codec(CallEntry)})
_CODEC: Final = Codec(CallRecord, readers={"state": State}, inline={"bill": _BILL})


def _fields(record: CallRecord, now: datetime) -> dict[str, Any]:
    return _CODEC.write(record) | {"expires_at": now + KEPT}


def _record(seen: DocumentSnapshot[Any]) -> CallRecord:
    return _CODEC.load((seen.to_dict() or {}) | {"call_id": seen.id})
