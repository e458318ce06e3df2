"""What a call's bill says before it, and what its answer means for the money."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.accounts.call_record import DONE, Bill, CallEntry, argument_sizes
from shared.core.errors import PlatformFault, Unavailable
from shared.runtime.outage_advice import Outcome
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from datetime import datetime

    from functions.gateway.calls.billing import Billing, Reservation
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer, CallRequest

_IN_DOUBT: Final = (Unavailable.code, PlatformFault.code)
"""Errors after which a call may have been done; all others say that it was not."""


def bill_for(tool: Declaration, request: CallRequest, now: datetime) -> Bill:
    """The bill of a call that is about to be sent."""
    known = tool.input_schema.get("properties", {})
    return Bill(
        call_id=request.call_id,
        user_id=request.caller.user_id,
        tool=tool.name,
        price=tool.price,
        writes=tool.effect is not Effect.READ,
        entry=CallEntry(
            started_at=now,
            arguments=argument_sizes(request.arguments, known),
            task=request.caller.task,
        ),
    )


async def close(
    billing: Billing, reservation: Reservation, tool: Declaration, answer: CallAnswer
) -> int:
    """Charge a call that was answered, or give the money back; return what it has cost."""
    entry = _heard(reservation.bill.entry, answer)
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
    return answer.error.details.get("outcome") != Outcome.NOTHING_DONE


def _heard(entry: CallEntry, answer: CallAnswer) -> CallEntry:
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
