"""The records of calls that wrote or cost something, in Firestore: `calls/{call_id}`.

A record and its user's account change in one commit, with preconditions on both, so that a repeated
call is charged only once. If the response of a commit is lost, the retry fails on the precondition,
and then the record shows that the first attempt succeeded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from shared.accounts.call_record import (
    CALL_RECORDS,
    SUCCESS,
    Bill,
    CallEntry,
    CallRecord,
    Ledger,
    PaymentState,
)
from shared.accounts.repositories import accounts
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import PURGE_AT
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from shared.core.dates import DateSpan
    from shared.firestore.database import Database

COLLECTION: Final = "calls"


class CallRecords:
    """The repository of call records, and of accounts unless an external service manages them.

    A method that changes a record costs two round trips.
    """

    def __init__(self, database: Database, *, with_accounts: bool = True) -> None:
        """Use the database `access`.

        Args:
            database: The database `access`.
            with_accounts: Whether calls change the accounts in this database. False if an external
                service manages the accounts.
        """
        self._database = database
        self._with_accounts = with_accounts

    async def get(self, call_id: str) -> CallRecord | None:
        """Load the record of a call, or return None if the call has none."""
        snapshot = await self._database.get(self._get_reference(call_id))
        return _to_record(snapshot) if snapshot.exists else None

    async def record(self, bill: Bill, now: datetime) -> None:
        """Store the record of a free call, unless the record of a success is already stored."""

        async def attempt() -> None:
            snapshot = await self._database.get(self._get_reference(bill.call_id))
            if not snapshot.exists or snapshot.get("outcome") != SUCCESS:
                await self._database.commit(
                    [put_if_unchanged(snapshot, _to_fields(CallRecord(bill=bill), now))]
                )

        await self._database.retry_on_conflict(attempt)

    async def reserve(self, bill: Bill, reservation_id: str, now: datetime) -> CallRecord:
        """Set money aside for a call, unless it is already paid, and return its record.

        Raises:
            PaymentRequired: The account does not cover the price, and nothing was written.
        """
        return await self._change(
            bill, now, lambda ledger: ledger.reserve(bill, reservation_id, now)
        )

    async def settle(self, bill: Bill, reservation_id: str, cost: int, now: datetime) -> int:
        """Charge a call unless it was already charged, and return its total cost."""
        record = await self._change(
            bill, now, lambda ledger: ledger.settle(reservation_id, cost, bill.entry, now)
        )
        return record.charged

    async def cancel(self, bill: Bill, reservation_id: str, now: datetime) -> bool:
        """Release one reservation, and return whether the call no longer has money on hold."""
        record = await self._change(
            bill, now, lambda ledger: ledger.cancel(reservation_id, bill.entry, now)
        )
        return record.state is PaymentState.CANCELLED

    async def update_entry(self, bill: Bill, now: datetime) -> None:
        """Update the audit entry of a call whose money stays on hold."""
        await self._change(bill, now, lambda ledger: ledger.update_entry(bill.entry))

    async def count_by_day(self, user_id: str, days: Sequence[DateSpan]) -> list[int]:
        """Count the recorded calls of a user on each day.

        Costs one round trip, and at least one read for each day: one for every 1,000 calls.
        """
        queries = [
            newest_query(user_id)
            .where("started_at", ">=", day.start)
            .where("started_at", "<=", day.end)
            for day in days
        ]
        return await asyncio.gather(*map(self._database.count, queries))

    async def list_newest(self, user_id: str, limit: int) -> list[CallRecord]:
        """Load the last recorded calls of a user, newest first. Costs one round trip."""
        documents = await self._database.find(newest_query(user_id).limit(limit))
        return list(map(_to_record, documents))

    async def _change(
        self, bill: Bill, now: datetime, decide: Callable[[Ledger], Ledger]
    ) -> CallRecord:
        """Read a ledger, and write what `decide` changes. Retry if another writer was faster.

        Args:
            bill: The call, for which a new record is made if none is stored.
            decide: Returns the changed ledger, or the same one if nothing changes.
        """

        async def attempt() -> CallRecord:
            call, owner = await self._read(
                bill.call_id, bill.user_id if self._with_accounts else None
            )
            before = Ledger(
                _to_record(call) if call.exists else CallRecord(bill=bill),
                accounts.to_account(owner) if owner else None,
            )
            after = decide(before)
            writes = []
            if after.record is not before.record:
                writes.append(put_if_unchanged(call, _to_fields(after.record, now)))
            if owner and after.account and after.account is not before.account:
                writes.append(put_if_unchanged(owner, accounts.build_money_fields(after.account)))
            await self._database.commit(writes)
            return after.record

        return await self._database.retry_on_conflict(attempt)

    async def _read(self, call_id: str, user_id: str | None) -> tuple[Document, Document | None]:
        """Read the documents of a call and, unless `user_id` is None, of the user's account."""
        if user_id is None:
            return await self._database.get(self._get_reference(call_id)), None
        owner = Reference(accounts.COLLECTION, user_id)
        call, account = await asyncio.gather(
            self._database.get(self._get_reference(call_id)), self._database.get(owner)
        )
        return call, account

    def _get_reference(self, call_id: str) -> Reference:
        return Reference(COLLECTION, call_id)


def newest_query(user_id: str) -> Query:
    """Build the query for the recorded calls of a user, newest first."""
    by_user = Query(COLLECTION).where("user_id", "==", user_id)
    return by_user.order_by("started_at", descending=True)


_BILL: Final = Codec(Bill, inline={"entry": Codec(CallEntry)})
_CODEC: Final = Codec(
    CallRecord,
    stored_as={"hold_count": "attempt", "reservation_ids": "holders"},
    readers={"state": PaymentState},
    inline={"bill": _BILL},
)


def _to_fields(record: CallRecord, now: datetime) -> dict[str, Any]:
    return _CODEC.write(record) | {PURGE_AT: CALL_RECORDS.compute_purge_at(now)}


def _to_record(snapshot: Document) -> CallRecord:
    return _CODEC.load(snapshot.fields | {"call_id": snapshot.id})
