"""Billing of calls: set money aside before a call, then charge it or release it.

The pipeline makes a call's bill with `make_bill`, reserves it, and closes it with `close_bill` when
the answer arrives. Closing settles the bill if the call succeeded, and cancels it if the call
certainly did nothing. Otherwise the bill stays open: the money stays set aside until the same call
is sent again, or for an hour.

`settle`, `cancel` and `leave_open` never fail, because a finished call cannot be undone. If a bill
cannot be written, the error is logged, and the reserved money is released when the hold expires.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from shared.accounts.account import format_dollars
from shared.accounts.call_record import SUCCESS, Bill, CallEntry, CallRecord, measure_arguments
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
    from shared.firestore.connection import Connection
    from shared.runtime.messages import CallAnswer, CallRequest

_UNCERTAIN_CODES: Final = (Unavailable.code, PlatformFault.code)
"""After an error with one of these codes, a call may have run. After any other, it did not."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The money that was set aside for a call.

    Attributes:
        bill: The bill, with the most that the call may cost.
        record: The record of the call, which may have been sent before.
        reservation_id: A random id, which distinguishes this reservation from others of the call.
    """

    bill: Bill
    record: CallRecord
    reservation_id: str = ""


class Billing(Protocol):
    """Reserves the price of calls, and charges them."""

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside the price of a call. A free call costs no round trip.

        Raises:
            PaymentRequired: The caller cannot pay.
            Unauthorized: The call costs something and the caller is anonymous.
            Unavailable: Whether the caller can pay cannot be determined now.
        """
        ...

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call that succeeded, and return its total cost in micro-dollars."""
        ...

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Release the money of a call that did nothing."""
        ...

    async def leave_open(self, reservation: Reservation, entry: CallEntry) -> None:
        """Leave the money of a call set aside, because its outcome is unknown."""
        ...

    async def aclose(self) -> None:
        """Close all connections opened by this object."""
        ...


class LedgerBilling:
    """Billing by accounts in the database `access`, with a record of each paid or writing call."""

    def __init__(self, database: Connection, clock: Clock, *, with_accounts: bool = True) -> None:
        """Store the database. Without accounts, only records of calls are written."""
        self._database = database
        self._clock = clock
        self._with_accounts = with_accounts

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside the price of a call. Costs two round trips."""
        if not bill.price:
            return Reservation(bill, CallRecord(bill=bill))
        if bill.user_id is None:
            raise Unauthorized(
                f"{bill.tool} costs {format_dollars(bill.price)} per call. Sign in first; without"
                " signing in, only free tools are available."
            )
        reservation_id = uuid.uuid4().hex
        record = await self._records.reserve(bill, reservation_id, self._clock())
        return Reservation(bill, record, reservation_id)

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call."""
        bill = replace(reservation.bill, entry=entry)
        with log_errors("settle", bill):
            if reservation.record.is_open:
                return await self._records.settle(
                    bill, reservation.reservation_id, cost, self._clock()
                )
            await self._record_if_free(bill)
        return 0

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Release the money of a call."""
        await self.release(reservation, entry)

    async def release(self, reservation: Reservation, entry: CallEntry) -> bool:
        """Release a reservation, and return whether the call no longer has money on hold."""
        bill = replace(reservation.bill, entry=entry)
        with log_errors("cancel", bill):
            if reservation.record.is_open:
                return await self._records.cancel(bill, reservation.reservation_id, self._clock())
        return False

    async def leave_open(self, reservation: Reservation, entry: CallEntry) -> None:
        """Update the call's audit entry only."""
        bill = replace(reservation.bill, entry=entry)
        with log_errors("keep", bill):
            if reservation.record.is_open:
                await self._records.update_entry(bill, self._clock())
            else:
                await self._record_if_free(bill)

    async def aclose(self) -> None:
        """Do nothing: the database connection belongs to the caller."""

    async def _record_if_free(self, bill: Bill) -> None:
        if bill.writes and not bill.price:
            await self._records.record(bill, self._clock())

    @property
    def _records(self) -> CallRecords:
        return CallRecords(AccessStore(self._database).database, with_accounts=self._with_accounts)


@contextmanager
def log_errors(operation: str, bill: Bill) -> Iterator[None]:
    """Log any error and continue, because the call is already done."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the caller gets the answer in any case
        context = {"operation": operation, "call_id": bill.call_id, "tool": bill.tool}
        log.error("billing_failed", **context, **error_fields(error))


def make_bill(tool: Declaration, request: CallRequest, now: datetime) -> Bill:
    """Make the bill of a call that is about to be sent."""
    properties = tool.input_schema.get("properties", {})
    return Bill(
        call_id=request.call_id,
        user_id=request.caller.user_id,
        tool=tool.name,
        price=tool.price,
        writes=tool.effect is not Effect.READ,
        entry=CallEntry(
            started_at=now,
            arguments=measure_arguments(request.arguments, properties),
            task=request.caller.task,
            client=request.caller.client,
        ),
    )


async def close_bill(
    billing: Billing, reservation: Reservation, tool: Declaration, answer: CallAnswer
) -> int:
    """Charge an answered call or release its money, and return the charged cost."""
    entry = _add_outcome(reservation.bill.entry, answer)
    if answer.error is None:
        cost = tool.price if answer.receipt.price is None else answer.receipt.price
        return await billing.settle(reservation, cost, entry)
    if _is_uncertain(tool, answer):
        await billing.leave_open(reservation, entry)
    else:
        await billing.cancel(reservation, entry)
    return 0


def _is_uncertain(tool: Declaration, answer: CallAnswer) -> bool:
    """Return whether a call that failed may have changed something.

    A read changes nothing, and an idempotent call is completed by repeating it, so neither is
    charged.
    """
    if answer.error is None or tool.effect is Effect.READ or tool.idempotent:
        return False
    if answer.error.code not in _UNCERTAIN_CODES:
        return False
    return answer.error.details.get("outcome") != WriteState.NOTHING_DONE


def _add_outcome(entry: CallEntry, answer: CallAnswer) -> CallEntry:
    return replace(
        entry,
        outcome=answer.error.code if answer.error else SUCCESS,
        milliseconds=answer.receipt.milliseconds,
        documents_read=answer.receipt.documents_read,
        documents_written=answer.receipt.documents_written,
        replayed=bool(answer.receipt.replayed),
        task=answer.receipt.task or entry.task,
        notes=answer.receipt.notes,
    )
