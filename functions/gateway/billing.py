"""What calls cost: set money aside before a call, then charge it or give it back.

Whoever calls a tool says `reserve` first, and when the answer is there one of `settle` (it was
done), `cancel` (it is known that nothing was done) and `keep` (nobody knows: the money stays set
aside until the same call is sent again, or for an hour). These three never fail: a call that has
happened is not taken back because its bill could not be written. That is logged, and what was set
aside expires.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from shared.domain.account import dollars
from shared.domain.call_record import State
from shared.errors import Unauthorized
from shared.logs import describe, log
from shared.store.access import AccessStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.clock import Clock
    from shared.domain.call_record import Bill, CallEntry
    from shared.store import Connection
    from shared.store.access.calls import CallRecords


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call was let in with.

    Attributes:
        bill: What it may cost.
        holder: Names this reservation among those that share the call's hold.
        attempt: How many times money was set aside for this call anew.
        is_open: Whether there is money to charge or give back: not for a free call, nor for one
            that was paid lately and is sent again.
        was_paid: Whether the call was paid some time ago: then its old answer costs nothing.
    """

    bill: Bill
    holder: str = ""
    attempt: int = 0
    is_open: bool = False
    was_paid: bool = False

    def charge(self, cost: int, entry: CallEntry) -> int:
        """What is to be paid for a call that has cost this much."""
        return 0 if self.was_paid and entry.replayed else min(max(0, cost), self.bill.price)


class Billing(Protocol):
    """Lets calls in that are covered, and charges them."""

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside what a call may cost. A free call costs no work.

        Raises:
            PaymentRequired: The caller cannot pay it.
            Unauthorized: Nobody is there to pay it.
            Unavailable: It cannot be found out now.
        """
        ...

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call that was done; return what it has cost, in micro-dollars, if anything."""
        ...

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Give back the money of a call that has done nothing."""
        ...

    async def keep(self, reservation: Reservation, entry: CallEntry) -> None:
        """Leave the money of a call set aside whose outcome is unknown."""
        ...


class LedgerBilling:
    """Keeps the accounts in the database `access`, and a record of each call that cost or wrote."""

    def __init__(self, access: Connection, clock: Clock, *, accounts: bool = True) -> None:
        """Keep records there; and the accounts, unless a service outside does."""
        self._access = access
        self._clock = clock
        self._accounts = accounts

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside what a call may cost: two round trips."""
        if not bill.price:
            return Reservation(bill)
        if bill.user_id is None:
            raise Unauthorized(
                f"{bill.tool} costs {dollars(bill.price)} a call: sign in first. Without signing in"
                " there are only tools that cost nothing."
            )
        holder = uuid.uuid4().hex
        record = await self._records.reserve(bill, holder, self._clock(), ours=self._accounts)
        is_open, was_paid = record.state is State.RESERVED, record.charged > 0
        return Reservation(bill, holder, record.attempt, is_open, was_paid)

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("settle", bill):
            if reservation.is_open:
                charge, now = reservation.charge(cost, entry), self._clock()
                return await self._records.settle(bill, charge, now, ours=self._accounts)
            await self._record_if_free(bill)
        return 0

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Give back what a call holds."""
        await self.release(reservation, entry)

    async def release(self, reservation: Reservation, entry: CallEntry) -> bool:
        """Give back what a call holds; return whether nothing is held for it any more."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("cancel", bill):
            if reservation.is_open:
                now, holder = self._clock(), reservation.holder
                return await self._records.cancel(bill, holder, now, ours=self._accounts)
        return False

    async def keep(self, reservation: Reservation, entry: CallEntry) -> None:
        """Note what is known."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("keep", bill):
            if reservation.is_open:
                await self._records.keep(bill, self._clock())
            else:
                await self._record_if_free(bill)

    async def _record_if_free(self, bill: Bill) -> None:
        if bill.writes and not bill.price:
            await self._records.record(bill, self._clock())

    @property
    def _records(self) -> CallRecords:
        return AccessStore(self._access).calls


@contextmanager
def not_failing(operation: str, bill: Bill) -> Iterator[None]:
    """Log what goes wrong, and go on: the call has happened."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets the answer
        told = {"operation": operation, "call_id": bill.call_id, "tool": bill.tool}
        log.error("billing_failed", **told, **describe(error))
