"""What a call did and cost, and the ledger of such records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.accounts.account import HOLD_LASTS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from shared.accounts.account import Account

KEPT: Final = timedelta(days=90)
"""How long a record stays after the last news of its call: longer than any answer is replayed."""
PAID_FOR: Final = timedelta(days=1)
"""How long a paid call may be sent again without money: for as long its answer is surely kept."""
DONE: Final = "ok"
"""The outcome of a call that was done; all others are codes of errors."""
OTHERS: Final = "(unknown)"
"""Stands for all arguments that a tool does not have: what a name says may be content too."""


class State(StrEnum):
    """What became of a call's money; free is a call for which none was ever asked."""

    FREE = "free"
    RESERVED = "reserved"
    SETTLED = "settled"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEntry:
    """What an audit learns of a call: names and sizes, never values.

    Attributes:
        started_at: When it came.
        arguments: The size of each argument, as `argument_sizes` has it.
        outcome: DONE or the code of its error; None until it is known.
        milliseconds: What it took.
        documents_read: As Firestore bills them.
        documents_written: As Firestore bills them.
        replayed: Whether it had been done before, and its answer is the one of then.
        task: The task that it works in.
        notes: Facts that its tool noted: sizes, hashes, scores, codes.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a call may cost, and whom.

    Attributes:
        call_id: The same for the same call sent again.
        user_id: Who pays; None for the anonymous.
        tool: What is called.
        entry: What is known of the call.
        price: The most that it costs, in micro-dollars; 0 is free.
        writes: Whether it may change something, so that a record stays even if it is free.
    """

    call_id: str
    user_id: str | None
    tool: str
    entry: CallEntry
    price: int = 0
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What is kept of a call that cost or changed something.

    The same call may run twice at once: a client sends it again before it has heard of the first.
    Both then share one hold: it is charged once, when one of them succeeds, and given back when
    none of them wants it any more. Were it given back by the first that fails, a call could be had
    for nothing by sending a faulty one of the same name beside it.

    Attributes:
        bill: What it may cost, and the latest that is known of it.
        state: What became of its money.
        attempt: How many times money was set aside for it anew.
        holders: The reservations that share the hold, by their random names.
        held_until: When the hold expires.
        paid_until: When sending it again takes money again, lest it be done again for nothing.
        charged: What it has cost, in micro-dollars.
    """

    bill: Bill
    state: State = State.FREE
    attempt: int = 0
    holders: tuple[str, ...] = ()
    held_until: datetime | None = None
    paid_until: datetime | None = None
    charged: int = 0

    @property
    def is_open(self) -> bool:
        """Whether there is money to charge or give back; not where it is free or paid already."""
        return self.state is State.RESERVED

    def is_held(self, now: datetime) -> bool:
        """Whether money is set aside for it."""
        return self.held_until is not None and now < self.held_until

    def is_paid(self, now: datetime) -> bool:
        """Whether it may be sent again without money."""
        return self.paid_until is not None and now < self.paid_until

    def charge(self, cost: int, entry: CallEntry) -> int:
        """What is to be paid for a call that has cost this much: its old answer is paid once."""
        return 0 if self.charged and entry.replayed else min(max(0, cost), self.bill.price)

    def renewed(self, bill: Bill) -> CallRecord:
        """The record with its money asked for anew."""
        attempt = self.attempt + 1
        return CallRecord(bill=bill, state=State.RESERVED, attempt=attempt, charged=self.charged)

    def joined(self, holder: str, until: datetime) -> CallRecord:
        """The record with one more reservation that shares the hold, which lasts longer for it."""
        return replace(self, holders=(*self.holders, holder), held_until=until)

    def left(self, holder: str, entry: CallEntry) -> CallRecord:
        """The record without this reservation; without any, it is cancelled."""
        others = tuple(each for each in self.holders if each != holder)
        if others:
            return replace(self, holders=others)
        return replace(self.heard(entry), state=State.CANCELLED, holders=(), held_until=None)

    def settled(self, charge: int, entry: CallEntry, now: datetime) -> CallRecord:
        """The record of a call that was done, for this much more."""
        return replace(
            self.heard(entry),
            state=State.SETTLED,
            holders=(),
            held_until=None,
            # How long a replayed answer will still be kept is not known.
            paid_until=now if entry.replayed else now + PAID_FOR,
            charged=self.charged + charge,
        )

    def heard(self, entry: CallEntry) -> CallRecord:
        """The record with what is known now."""
        return replace(self, bill=replace(self.bill, entry=entry))


def argument_sizes(arguments: Mapping[str, Any], known: Collection[str]) -> dict[str, int]:
    """The size of each argument that the tool has, in characters of JSON; of all others, the sum.

    Args:
        arguments: As the client sent them.
        known: The names that the tool declares.
    """
    sizes: dict[str, int] = {}
    for name, value in arguments.items():
        told = name if name in known else OTHERS
        sizes[told] = sizes.get(told, 0) + len(json.dumps(value))
    return sizes


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
