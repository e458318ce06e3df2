"""Billing by an external service, in place of the accounts in the database.

The service accepts `POST {url}/reserve`, `/settle` and `/cancel` with

    {"call_id": ..., "user_id": ..., "tool": ..., "amount": ..., "currency": "USD-micros"}

and answers 200 with `{"state": "reserved"}`, `"settled"` or `"cancelled"`, or 402 if the user
cannot pay. `amount` is the most that the call may cost, and for `/settle` what it has cost. A
request with the same `Idempotency-Key` is a retry. A call that is repeated after it was cancelled
has a new `call_id`. A settlement or cancellation that fails is logged, and not retried later. After
an hour or more, the service itself must release what is neither settled nor cancelled.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Literal

import httpx2
from pydantic import BaseModel, ValidationError

from functions.gateway.calls.billing import LedgerBilling, log_errors
from shared.accounts.account import format_dollars
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.dates import utc_now
from shared.core.errors import PaymentRequired, PlatformFault, Unavailable
from shared.core.http import parse_retry_after
from shared.core.log import log

if TYPE_CHECKING:
    from pydantic import SecretStr

    from functions.gateway.calls.billing import Reservation
    from shared.accounts.call_record import Bill, CallEntry
    from shared.core.dates import Clock
    from shared.firestore.connection import Connection

    Operation = Literal["reserve", "settle", "cancel"]

TIMEOUT_SECONDS: Final = 5.0
"""The timeout of a request to the service, including one retry, in seconds."""
RETRY_AFTER_SECONDS: Final = 5
"""How long callers are asked to wait if the service names no time, in seconds."""
_EXPECTED_STATES: Final = {"reserve": "reserved", "settle": "settled", "cancel": "cancelled"}


class ExternalBilling:
    """Billing by the service. The database only records which calls are already paid."""

    def __init__(  # noqa: PLR0913 - each is an independent part
        self,
        url: str,
        token: SecretStr | None,
        database: Connection,
        clock: Clock,
        *,
        breaker: CircuitBreaker | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
        # Requests have a total timeout below, since a slow drip would satisfy a timeout per read.
        self._client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=None)
        self._records = LedgerBilling(database, clock, with_accounts=False)
        self._breaker = breaker or CircuitBreaker("The billing service")
        self._timeout = timeout

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside the price of a call, first in the record and then at the service."""
        reservation = await self._records.reserve(bill)
        if reservation.record.is_open:
            try:
                await self._call_service("reserve", reservation, bill.price)
            except PaymentRequired:
                await self._records.release(reservation, bill.entry)
                raise
        return reservation

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call, first at the service. If that fails, the record stays `reserved`."""
        record = reservation.record
        charge = record.compute_charge(cost, entry)
        if record.is_open and not await self._try("settle", reservation, charge):
            await self._records.leave_open(reservation, entry)
            return 0
        return await self._records.settle(reservation, cost, entry)

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Release the money of a call, unless the same call is running elsewhere."""
        if await self._records.release(reservation, entry):
            await self._try("cancel", reservation, reservation.bill.price)

    async def leave_open(self, reservation: Reservation, entry: CallEntry) -> None:
        """Update the call's audit entry only."""
        await self._records.leave_open(reservation, entry)

    async def aclose(self) -> None:
        """Close the connections to the service."""
        await self._client.aclose()

    async def _try(self, operation: Operation, reservation: Reservation, amount: int) -> bool:
        with log_errors(operation, reservation.bill):
            await self._call_service(operation, reservation, amount)
            return True
        return False

    async def _call_service(
        self, operation: Operation, reservation: Reservation, amount: int
    ) -> None:
        """Send an operation to the service.

        Raises:
            PaymentRequired: The user cannot pay.
            PlatformFault: The service rejected the request.
            Unavailable: The service is down or busy, or its answer is not valid.
        """
        with self._breaker.attempt() as attempt:
            try:
                async with asyncio.timeout(self._timeout):
                    response = await self._send_operation(operation, reservation, amount)
            except (httpx2.HTTPError, OSError, TimeoutError, _InvalidAnswer) as error:
                attempt.healthy = False
                message = "The billing service cannot be reached. The call was not started."
                raise Unavailable(message, retry_after=RETRY_AFTER_SECONDS) from error
            attempt.healthy = True
        _raise_for_status(response, reservation.bill)

    async def _send_operation(
        self, operation: Operation, reservation: Reservation, amount: int
    ) -> httpx2.Response:
        """Send an operation, and return a client error or a valid answer."""
        bill = reservation.bill
        call_id = f"{bill.call_id}-{reservation.record.hold_count}"
        request = self._client.build_request(
            "POST",
            f"/{operation}",
            headers={"idempotency-key": f"{call_id}-{operation}"},
            json={
                "call_id": call_id,
                "user_id": bill.user_id,
                "tool": bill.tool,
                "amount": amount,
                "currency": "USD-micros",
            },
        )
        response = await self._send(request)
        if not response.is_client_error:
            _check_answer(response, _EXPECTED_STATES[operation])
        return response

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, with one retry if the connection broke or the service failed."""
        try:
            response = await self._client.send(request)
        except httpx2.TransportError:
            return await self._client.send(request)
        return await self._client.send(request) if response.is_server_error else response


class _ServiceAnswer(BaseModel):
    state: str


class _InvalidAnswer(Exception):
    """The service's answer is not valid."""


def _check_answer(response: httpx2.Response, state: str) -> None:
    try:
        answer = _ServiceAnswer.model_validate_json(response.content)
    except ValidationError as error:
        raise _InvalidAnswer from error
    if not response.is_success or answer.state != state:
        raise _InvalidAnswer


def _raise_for_status(response: httpx2.Response, bill: Bill) -> None:
    """Raise the error for a status. The rest of the service's answer is hidden from the caller."""
    if response.status_code == httpx2.codes.PAYMENT_REQUIRED:
        raise PaymentRequired(
            f"This call may cost {format_dollars(bill.price)}, which your balance or budget at the"
            " billing service does not cover. Top it up there, or use a cheaper tool.",
            details={"price": bill.price},
        )
    if response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        seconds = parse_retry_after(response.headers.get("retry-after", ""), utc_now())
        wait = RETRY_AFTER_SECONDS if seconds is None else max(1, math.ceil(seconds))
        raise Unavailable(f"The billing service is busy. Try again in {wait} s.", retry_after=wait)
    if response.is_client_error:
        log.error("billing_refused", tool=bill.tool, status=response.status_code)
        raise PlatformFault("The billing service rejected the request.")
