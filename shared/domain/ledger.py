"""How a call's record and its user's account change together. Nothing here reads or writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.domain.account import HOLD_LASTS
from shared.domain.call_record import CallRecord, State

if TYPE_CHECKING:
    from datetime import datetime

    from shared.domain.account import Account
    from shared.domain.call_record import Bill, CallEntry


@dataclass(frozen=True, slots=True)
class Ledger:
    """What two documents say of one call. What comes too late, or twice, changes nothing.

    Attributes:
        record: Of the call; of one that is not recorded, a blank one.
        account: Its user's; None where an external service keeps the accounts.
    """

    record: CallRecord
    account: Account | None

    def reserved(self, bill: Bill, holder: str, now: datetime) -> Ledger:
        """Set money aside, or share what the same call has; one that is paid needs none.

        Raises:
            PaymentRequired: The account does not cover it.
        """
        record = self.record
        if record.is_paid(now) or holder in record.holders:
            return self
        if not record.is_held(now):
            record = record.renewed(bill)
        account = self.account and self.account.reserve(bill.call_id, bill.price, now)
        return Ledger(record.joined(holder, now + HOLD_LASTS), account)

    def settled(self, cost: int, entry: CallEntry, now: datetime) -> Ledger:
        """Charge the call: at most what is held for it, and once, whoever asks."""
        record, account = self.record, self.account
        if not record.is_open:
            return self
        charge = record.charge(cost, entry)
        if account is None:
            return Ledger(record.settled(charge, entry, now), None)
        after = account.settle(record.bill.call_id, charge, now)
        return Ledger(record.settled(account.balance - after.balance, entry, now), after)

    def cancelled(self, holder: str, entry: CallEntry, now: datetime) -> Ledger:
        """Give back one reservation; the money, once it was the last."""
        record, account = self.record, self.account
        if holder not in record.holders:
            return self
        left = record.left(holder, entry)
        if left.state is State.CANCELLED and account:
            account = account.cancel(record.bill.call_id, now)
        return Ledger(left, account)

    def heard(self, entry: CallEntry) -> Ledger:
        """Note what is known of a call whose money stays set aside."""
        if not self.record.is_open:
            return self
        return replace(self, record=self.record.heard(entry))
