"""The record of a call, which contains its payment and its audit entry.

Before a call with a price runs, it reserves the price: the amount is put on hold in the user's
account. When the call succeeds, it is settled (its cost is charged); when it fails, it is cancelled
(the hold is released). The ledger changes the record and the account together.

A client may repeat a call before the first answer. The runs of the call then share one hold, and
each run has a reservation, which is its share in the hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.accounts.account import HOLD_LIFETIME
from shared.firestore.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shared.accounts.account import Account

CALL_RECORDS: Final = Retention(
    title="records of calls since they last changed",
    collection="calls",
    duration=timedelta(days=90),
)
"""A record outlives the call's stored answer, so that a replay of the answer still finds the
payment."""
PAID_LIFETIME: Final = timedelta(days=1)
"""A paid call may be repeated for free for this long. Its answer is stored at least as long."""
SUCCESS: Final = "ok"
"""The outcome of a call that succeeded. Any other outcome is an error code."""
UNKNOWN_ARGUMENTS: Final = "(unknown)"
"""Undeclared arguments are counted under this name, since their own names may be content."""


class PaymentState(StrEnum):
    """The state of the payment for a call."""

    FREE = "free"
    """Nothing was reserved."""
    RESERVED = "reserved"
    """Money is on hold for the call, whose outcome is not known yet."""
    SETTLED = "settled"
    """The call succeeded, and its cost was charged."""
    CANCELLED = "cancelled"
    """The call failed, and the money was released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEntry:
    """A call's audit entry, which contains names and sizes but never values.

    Attributes:
        arguments: The size of each argument, see `measure_arguments`.
        outcome: SUCCESS or an error code, or None until the outcome is known.
        documents_read: The number of documents read, as Firestore bills them.
        replayed: Whether the call got the stored answer of an earlier, identical call.
        task: The id of the workspace that the call belongs to (the argument `task_id`), or None.
        notes: Audit facts from the tool: sizes, hashes, scores, codes.
        client: The client that called, if it is known.
    """

    started_at: datetime
    arguments: Mapping[str, int] = field(default_factory=dict)
    outcome: str | None = None
    milliseconds: float = 0.0
    documents_read: int = 0
    documents_written: int = 0
    replayed: bool = False
    task: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    client: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A call's price and payer, which are known before it runs, and its latest audit entry.

    Attributes:
        call_id: The call's id. A repeated call has the same id.
        user_id: The payer, or None for an anonymous caller.
        entry: The audit entry, which gets the outcome after the call.
        price: The most that the call may cost, in micro-dollars, or 0 for a free call.
        writes: Whether the call may change data. Such a call is recorded even if it is free.
    """

    call_id: str
    user_id: str | None
    tool: str
    entry: CallEntry
    price: int = 0
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """The stored record of a call that cost or changed something.

    A call is charged once, when one of its runs succeeds, and the money is released when all runs
    have failed. If the first failure released it, a client could get a call for free by sending a
    failing call with the same id at the same time.

    Attributes:
        bill: The bill, with the latest audit entry.
        hold_count: The number of holds that were created for the call so far.
        reservation_ids: The random ids of the reservations that share the hold, one for each run.
        held_until: When the hold expires, or None if there is no hold.
        paid_until: Until when the call may be repeated for free, or None if it was never paid.
        charged: The total cost charged so far, in micro-dollars.
    """

    bill: Bill
    state: PaymentState = PaymentState.FREE
    hold_count: int = 0
    reservation_ids: tuple[str, ...] = ()
    held_until: datetime | None = None
    paid_until: datetime | None = None
    charged: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a payment is reserved, and neither settled nor cancelled."""
        return self.state is PaymentState.RESERVED

    def is_held(self, now: datetime) -> bool:
        """Return whether the call has a hold that has not expired."""
        return self.held_until is not None and now < self.held_until

    def is_paid(self, now: datetime) -> bool:
        """Return whether the call may be repeated for free."""
        return self.paid_until is not None and now < self.paid_until

    def compute_charge(self, cost: int, entry: CallEntry) -> int:
        """Return what to charge for a cost: at most the price.

        The replay of a stored answer is free if the answer was paid for.
        """
        return 0 if self.charged and entry.replayed else min(max(0, cost), self.bill.price)

    def restart(self, bill: Bill) -> CallRecord:
        """Return the record for a new hold. Of the earlier payments, only the total is kept."""
        return CallRecord(
            bill=bill,
            state=PaymentState.RESERVED,
            hold_count=self.hold_count + 1,
            charged=self.charged,
        )

    def add_reservation(self, reservation_id: str, until: datetime) -> CallRecord:
        """Add a reservation to the hold, and extend the hold until the given time."""
        return replace(
            self, reservation_ids=(*self.reservation_ids, reservation_id), held_until=until
        )

    def remove_reservation(self, reservation_id: str, entry: CallEntry) -> CallRecord:
        """Remove a reservation from the hold. If none is left, the record is cancelled."""
        remaining = tuple(other for other in self.reservation_ids if other != reservation_id)
        if remaining:
            return replace(self, reservation_ids=remaining)
        return replace(
            self.with_entry(entry),
            state=PaymentState.CANCELLED,
            reservation_ids=(),
            held_until=None,
        )

    def settle(self, charge: int, entry: CallEntry, now: datetime) -> CallRecord:
        """Record that the call succeeded, and add the charge."""
        return replace(
            self.with_entry(entry),
            state=PaymentState.SETTLED,
            reservation_ids=(),
            held_until=None,
            # A replayed answer may expire at any moment, and the call would then run again. So
            # this payment is over now, and a repetition needs a new hold.
            paid_until=now if entry.replayed else now + PAID_LIFETIME,
            charged=self.charged + charge,
        )

    def with_entry(self, entry: CallEntry) -> CallRecord:
        """Return the record with another audit entry."""
        return replace(self, bill=replace(self.bill, entry=entry))


@dataclass(frozen=True, slots=True)
class Ledger:
    """A call's record and its user's account, which change together.

    Each operation returns the changed ledger. An operation that comes late or is repeated returns
    the same ledger, so that no call is charged twice.

    Attributes:
        record: The call's record. If none is stored, a new one in the state FREE.
        account: The user's account, or None if an external service manages the accounts.
    """

    record: CallRecord
    account: Account | None

    def reserve(self, bill: Bill, reservation_id: str, now: datetime) -> Ledger:
        """Set money aside, or join the hold of the same call. A paid call needs no hold.

        Raises:
            PaymentRequired: The account does not cover the price.
        """
        record = self.record
        # The id is already there if the commit is repeated because its response was lost.
        if record.is_paid(now) or reservation_id in record.reservation_ids:
            return self
        if not record.is_held(now):
            record = record.restart(bill)
        account = self.account and self.account.reserve(bill.call_id, bill.price, now)
        return Ledger(record.add_reservation(reservation_id, now + HOLD_LIFETIME), account)

    def settle(self, reservation_id: str, cost: int, entry: CallEntry, now: datetime) -> Ledger:
        """Charge the call, and at most what is on hold for it.

        A reservation that no longer shares the hold charges nothing. Either another run was charged
        since, or the hold had expired before another run began, which is charged if it succeeds.
        """
        record, account = self.record, self.account
        if reservation_id not in record.reservation_ids:
            return self
        charge = record.compute_charge(cost, entry)
        if account is None:
            return Ledger(record.settle(charge, entry, now), None)
        # The account charges nothing if the hold has expired, so its balance tells the charge.
        settled = account.settle(record.bill.call_id, charge, now)
        return Ledger(record.settle(account.balance - settled.balance, entry, now), settled)

    def cancel(self, reservation_id: str, entry: CallEntry, now: datetime) -> Ledger:
        """Give up a reservation, and release the money if no reservation is left."""
        record, account = self.record, self.account
        if reservation_id not in record.reservation_ids:
            return self
        updated = record.remove_reservation(reservation_id, entry)
        if updated.state is PaymentState.CANCELLED and account:
            account = account.cancel(record.bill.call_id, now)
        return Ledger(updated, account)

    def update_entry(self, entry: CallEntry) -> Ledger:
        """Update the audit entry of a call whose money stays on hold."""
        if not self.record.is_open:
            return self
        return replace(self, record=self.record.with_entry(entry))


def measure_arguments(arguments: Mapping[str, Any], declared: Collection[str]) -> dict[str, int]:
    """Measure each declared argument in characters of JSON, and all others together."""
    sizes: dict[str, int] = {}
    for name, value in arguments.items():
        key = name if name in declared else UNKNOWN_ARGUMENTS
        sizes[key] = sizes.get(key, 0) + len(json.dumps(value, ensure_ascii=False))
    return sizes
