"""A billing service outside, in place of our accounts.

It takes `POST {url}/reserve`, `/settle` and `/cancel` with

    {"call_id": ..., "user_id": ..., "tool": ..., "amount": ..., "currency": "USD-micros"}

and answers 200 with `{"state": "reserved"}`, `"settled"` or `"cancelled"`, or 402 where the user
cannot pay. `amount` is the most that the call may cost, and for `/settle` what it has cost. The
same `Idempotency-Key` asks for the same thing once more. A call that is sent again after it was
cancelled has another `call_id` there. The service must give back by itself, after an hour or more,
what is neither settled nor cancelled: where that fails it is logged, and not tried again later.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Literal

import httpx2
from pydantic import BaseModel, ValidationError

from functions.gateway.calls.billing import LedgerBilling, not_failing
from shared.accounts.account import dollars
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
    from shared.firestore.database import Connection

    Operation = Literal["reserve", "settle", "cancel"]

TIMEOUT: Final = 5.0
"""Seconds for an answer, a second try included."""
RETRY_AFTER: Final = 5
"""Seconds to suggest where the service suggests none."""
_DONE: Final = {"reserve": "reserved", "settle": "settled", "cancel": "cancelled"}


class ExternalBilling:
    """Asks the service; the records of calls are ours, and tell whether a call was paid before."""

    def __init__(  # noqa: PLR0913 - each is another capability
        self,
        url: str,
        token: SecretStr | None,
        access: Connection,
        clock: Clock,
        *,
        breaker: CircuitBreaker | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Reach the service at `url`, with `token` as the bearer token."""
        headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}
        # Whole exchanges are timed below: a service that drips may keep each single read short.
        self._client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=None)
        self._records = LedgerBilling(access, clock, accounts=False)
        self._breaker = breaker or CircuitBreaker("The billing service")
        self._timeout = timeout

    async def reserve(self, bill: Bill) -> Reservation:
        """Set aside what a call may cost: in a record of ours, then at the service."""
        reservation = await self._records.reserve(bill)
        if reservation.record.is_open:
            try:
                await self._ask("reserve", reservation, bill.price)
            except PaymentRequired:
                await self._records.release(reservation, bill.entry)
                raise
        return reservation

    async def settle(self, reservation: Reservation, cost: int, entry: CallEntry) -> int:
        """Charge a call; where that fails, its record goes on saying `reserved`."""
        record = reservation.record
        charge = record.charge(cost, entry)
        if record.is_open and not await self._tried("settle", reservation, charge):
            await self._records.keep(reservation, entry)
            return 0
        return await self._records.settle(reservation, cost, entry)

    async def cancel(self, reservation: Reservation, entry: CallEntry) -> None:
        """Give back what a call holds, unless the same call is under way elsewhere."""
        if await self._records.release(reservation, entry):
            await self._tried("cancel", reservation, reservation.bill.price)

    async def keep(self, reservation: Reservation, entry: CallEntry) -> None:
        """Note what is known."""
        await self._records.keep(reservation, entry)

    async def aclose(self) -> None:
        """Close the connections to the service."""
        await self._client.aclose()

    async def _tried(self, operation: Operation, reservation: Reservation, amount: int) -> bool:
        with not_failing(operation, reservation.bill):
            await self._ask(operation, reservation, amount)
            return True
        return False

    async def _ask(self, operation: Operation, reservation: Reservation, amount: int) -> None:
        """Have the service do something.

        Raises:
            PaymentRequired: The user cannot pay.
            PlatformFault: It refused what we sent.
            Unavailable: It is down, busy, or answers nonsense.
        """
        with self._breaker.attempt() as attempt:
            try:
                async with asyncio.timeout(self._timeout):
                    response = await self._answer(operation, reservation, amount)
            except (httpx2.HTTPError, OSError, TimeoutError, _InvalidAnswer) as error:
                attempt.well = False
                message = "The billing service cannot be reached. The call was not started."
                raise Unavailable(message, retry_after=RETRY_AFTER) from error
            attempt.well = True
        _refuse(response, reservation.bill)

    async def _answer(
        self, operation: Operation, reservation: Reservation, amount: int
    ) -> httpx2.Response:
        """Its answer that has a meaning, at the second try if need be."""
        bill = reservation.bill
        call_id = f"{bill.call_id}-{reservation.record.attempt}"
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
        response = await self._sent(request)
        if not response.is_client_error:
            _check(response, _DONE[operation])
        return response

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; and once more where the connection broke or the service stumbled."""
        try:
            response = await self._client.send(request)
        except httpx2.TransportError:
            return await self._client.send(request)
        return await self._client.send(request) if response.is_server_error else response


class _Answer(BaseModel):
    state: str


class _InvalidAnswer(Exception):
    """An answer without a meaning."""


def _check(response: httpx2.Response, state: str) -> None:
    try:
        answer = _Answer.model_validate_json(response.content)
    except ValidationError as error:
        raise _InvalidAnswer from error
    if not response.is_success or answer.state != state:
        raise _InvalidAnswer


def _refuse(response: httpx2.Response, bill: Bill) -> None:
    """Say in our words what the service says by its status; nothing else of its answer is told."""
    if response.status_code == httpx2.codes.PAYMENT_REQUIRED:
        raise PaymentRequired(
            f"This call may cost {dollars(bill.price)}, which your balance or your budget at the"
            " billing service does not cover. Top it up there, or use a tool that costs less.",
            details={"price": bill.price},
        )
    if response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        asked = parse_retry_after(response.headers.get("retry-after", ""), utc_now())
        wait = RETRY_AFTER if asked is None else max(1, math.ceil(asked))
        raise Unavailable(f"The billing service is busy. Try again in {wait} s.", retry_after=wait)
    if response.is_client_error:
        log.error("billing_refused", tool=bill.tool, status=response.status_code)
        raise PlatformFault("The billing service refused our request.")
