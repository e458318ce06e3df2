"""What calls cost: set money aside before a call, then charge it or give it back.

Whoever calls a tool makes its bill with `bill_for` and reserves it, and `close`s it when the answer
is there. That is one of `settle` (it was done), `cancel` (it is known that nothing was done) and
`keep` (nobody knows: the money stays set aside until the same call is sent again, or for an hour).
These three never fail: a call that has happened is not taken back because its bill could not be
written. That is logged, and what was set aside expires.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from shared.accounts.account import dollars
from shared.accounts.call_record import DONE, Bill, CallEntry, CallRecord, argument_sizes
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.calls import CallRecords
from shared.core.errors import PlatformFault, Unauthorized, Unavailable
from shared.core.log import error_fields, log
from shared.runtime.outage_advice import WriteState
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from functions.gateway.catalog import Declaration
    from shared.core.dates import Clock
    from shared.firestore.database import Connection
    from shared.runtime.messages import CallAnswer, CallRequest

_IN_DOUBT: Final = (Unavailable.code, PlatformFault.code)
"""Errors after which a call may have been done; all others say that it was not."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call was let in with.

    Attributes:
        bill: What it may cost.
        record: What is written down of the call, which may have been sent before.
        holder: Names this reservation among those that share the call's hold.
    """

    bill: Bill
    record: CallRecord
    holder: str = ""


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

    async def aclose(self) -> None:
        """Close what it has opened itself."""
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
            return Reservation(bill, CallRecord(bill=bill))
        if bill.user_id is None:
            raise Unauthorized(
                f"{bill.tool} costs {dollars(bill.price)} a call: sign in first. Without signing in"
                " there are only tools that cost nothing."
            )
        holder = uuid.uuid4().hex
        return Reservation(bill, await self._records.reserve(bill, holder, self._clock()), holder)

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("settle", bill):
            if reservation.record.is_open:
                return await self._records.settle(bill, cost, self._clock())
            await self._record_if_free(bill)
        return 0

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Give back what a call holds."""
        await self.release(reservation, entry)

    async def release(self, reservation: Reservation, entry: CallEntry) -> bool:
        """Give back what a call holds; return whether nothing is held for it any more."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("cancel", bill):
            if reservation.record.is_open:
                return await self._records.cancel(bill, reservation.holder, self._clock())
        return False

    async def keep(self, reservation: Reservation, entry: CallEntry) -> None:
        """Note what is known."""
        bill = replace(reservation.bill, entry=entry)
        with not_failing("keep", bill):
            if reservation.record.is_open:
                await self._records.keep(bill, self._clock())
            else:
                await self._record_if_free(bill)

    async def aclose(self) -> None:
        """Close nothing: the database is not its own."""

    async def _record_if_free(self, bill: Bill) -> None:
        if bill.writes and not bill.price:
            await self._records.record(bill, self._clock())

    @property
    def _records(self) -> CallRecords:
        return CallRecords(AccessStore(self._access).database, ours=self._accounts)


@contextmanager
def not_failing(operation: str, bill: Bill) -> Iterator[None]:
    """Log what goes wrong, and go on: the call has happened."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets the answer
        context = {"operation": operation, "call_id": bill.call_id, "tool": bill.tool}
        log.error("billing_failed", **context, **error_fields(error))


def bill_for(tool: Declaration, request: CallRequest, now: datetime) -> Bill:
    """The bill of a call that is about to be sent."""
    properties = tool.input_schema.get("properties", {})
    return Bill(
        call_id=request.call_id,
        user_id=request.caller.user_id,
        tool=tool.name,
        price=tool.price,
        writes=tool.effect is not Effect.READ,
        entry=CallEntry(
            started_at=now,
            arguments=argument_sizes(request.arguments, properties),
            task=request.caller.task,
        ),
    )


async def close(
    billing: Billing, reservation: Reservation, tool: Declaration, answer: CallAnswer
) -> int:
    """Charge a call that was answered, or give the money back; return what it has cost."""
    entry = _with_outcome(reservation.bill.entry, answer)
    if answer.error is None:
        cost = tool.price if answer.receipt.price is None else answer.receipt.price
        return await billing.settle(reservation, cost, entry)
    if _is_in_doubt(tool, answer):
        await billing.keep(reservation, entry)
    else:
        await billing.cancel(reservation, entry)
    return 0


def _is_in_doubt(tool: Declaration, answer: CallAnswer) -> bool:
    """Whether a call that failed may have changed something for good.

    What only reads is not charged for that, nor what goes on where it stopped, sent again.
    """
    if answer.error is None or tool.effect is Effect.READ or tool.idempotent:
        return False
    if answer.error.code not in _IN_DOUBT:
        return False
    return answer.error.details.get("outcome") != WriteState.NOTHING_DONE


def _with_outcome(entry: CallEntry, answer: CallAnswer) -> CallEntry:
    return replace(
        entry,
        outcome=answer.error.code if answer.error else DONE,
        milliseconds=answer.receipt.milliseconds,
        documents_read=answer.receipt.documents_read,
        documents_written=answer.receipt.documents_written,
        replayed=bool(answer.receipt.replayed),
        task=answer.receipt.task or entry.task,
        notes=answer.receipt.notes,
    )
