"""With external billing, a service of the operator reserves and settles the prices of calls.

The gateway reserves the price before it runs a call. Afterwards it settles the cost, or cancels the
reservation. It records calls in a database of its own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.calls.external_billing import ExternalBilling
from shared.accounts.call_record import PAID_LIFETIME, Bill, CallEntry, PaymentState
from shared.accounts.repositories.access_store import AccessStore
from shared.core.circuit_breaker import OPEN_SECONDS, CircuitBreaker
from shared.core.errors import CarrelError, PaymentRequired, PlatformFault, Unavailable
from shared.core.settings import Settings
from shared.firestore.connection import Connection
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.billing import (
    BROKEN,
    DEEP,
    DENIED,
    DONE_AND_DROPPED,
    DROPPED,
    GARBAGE,
    MOVED,
    OTHER_STATE,
    SECRET,
    SLOW,
    TOKEN,
    FakeBilling,
    Reply,
)
from tests.support.monotonic_clock import MonotonicClock

ANNA = "anna@example.com"
BEFORE_CALL = CallEntry(started_at=NOON)
SUCCESS = replace(BEFORE_CALL, outcome="ok")
REPLAYED = replace(SUCCESS, replayed=True)
FAILED = replace(BEFORE_CALL, outcome="VALIDATION_ERROR")
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, entry=BEFORE_CALL)


@pytest.fixture
def service() -> Iterator[FakeBilling]:
    """A fake billing service, where the user has a balance of 1,000."""
    with FakeBilling() as running:
        yield running


@pytest.fixture
async def billing(
    service: FakeBilling, connection: Connection, clock: SettableClock
) -> AsyncIterator[ExternalBilling]:
    """Billing with that service."""
    external = ExternalBilling(service.url, SecretStr(TOKEN), connection, clock, timeout=60)
    yield external
    await external.aclose()


def make_billing(
    service: FakeBilling, connection: Connection, failures: int, **options: Any
) -> ExternalBilling:
    """Make billing with a circuit breaker that opens after some failures."""
    breaker = CircuitBreaker("The billing service", failures=failures, **options)
    clock = SettableClock(NOON)
    return ExternalBilling(
        service.url, SecretStr(TOKEN), connection, clock, timeout=3600, breaker=breaker
    )


async def read_payment(connection: Connection) -> tuple[PaymentState, str | None] | None:
    """Return the stored state of the call's payment, and the outcome of the call."""
    record = await AccessStore(connection).calls.get("c1")
    return (record.state, record.bill.entry.outcome) if record else None


def hides_service(service: FakeBilling, error: CarrelError) -> bool:
    """Return whether an error discloses neither the answer nor the address of the service."""
    text = json.dumps(error.to_wire())
    return all(secret not in text for secret in (SECRET, service.url, "127.0.0.1", TOKEN, "html"))


async def test_a_call_is_reserved_and_settled_at_the_service(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    reservation = await billing.reserve(BILL)
    assert service.holds == {"c1-1": 30}
    assert await billing.settle(reservation, 20, SUCCESS) == 20
    assert (service.spent, service.balance) == (20, 980)
    assert await read_payment(connection) == (PaymentState.SETTLED, "ok")

    reserve, settle = service.requests
    assert (reserve.path, reserve.key) == ("/v1/reserve", "c1-1-reserve")
    assert reserve.authorization == f"Bearer {TOKEN}"
    assert reserve.body == {
        "call_id": "c1-1",
        "user_id": ANNA,
        "tool": "try_out",
        "amount": 30,
        "currency": "USD-micros",
    }
    assert (settle.path, settle.key) == ("/v1/settle", "c1-1-settle")
    assert settle.body["amount"] == 20


async def test_a_cancelled_call_is_refunded_and_has_a_new_id_if_repeated(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    await billing.cancel(await billing.reserve(BILL), FAILED)
    assert (service.balance, service.holds) == (1_000, {})
    assert await read_payment(connection) == (PaymentState.CANCELLED, FAILED.outcome)
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert service.spent == 30
    keys = ["c1-1-reserve", "c1-1-cancel", "c1-2-reserve", "c1-2-settle"]
    assert [request.key for request in service.requests] == keys


async def test_an_unknown_outcome_is_charged_when_repeated_once(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    await billing.leave_open(await billing.reserve(BILL), FAILED)
    assert service.operations == ["reserve"]
    assert await read_payment(connection) == (PaymentState.RESERVED, FAILED.outcome)
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 30
    assert (service.spent, service.balance, service.holds) == (30, 970, {})


async def test_a_stored_answer_of_a_paid_call_costs_nothing(
    billing: ExternalBilling, service: FakeBilling, clock: SettableClock
) -> None:
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 0
    assert service.operations == ["reserve", "settle"]
    clock.now += PAID_LIFETIME
    await billing.settle(await billing.reserve(BILL), 30, REPLAYED)
    assert (service.spent, service.holds) == (30, {})


async def test_concurrent_repeats_at_two_gateways_are_charged_once(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    other = make_billing(service, connection, failures=5)

    async def reserve_and_settle(gateway: ExternalBilling) -> None:
        await gateway.settle(await gateway.reserve(BILL), 30, SUCCESS)

    await asyncio.gather(reserve_and_settle(billing), reserve_and_settle(other))
    await other.aclose()
    assert (service.spent, service.balance) == (30, 970)


async def test_a_failed_repeat_keeps_the_hold_of_a_successful_one(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    failing_hold, successful_hold = await billing.reserve(BILL), await billing.reserve(BILL)
    await billing.cancel(failing_hold, FAILED)
    assert await billing.settle(successful_hold, 30, SUCCESS) == 30
    assert (service.spent, service.holds) == (30, {})


async def test_a_free_call_sends_no_request(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    free_bill = replace(BILL, price=0, writes=True)
    await billing.settle(await billing.reserve(free_bill), 0, SUCCESS)
    await billing.cancel(await billing.reserve(free_bill), FAILED)
    assert service.operations == []
    assert await read_payment(connection) == (PaymentState.FREE, "ok")


async def test_a_user_who_cannot_pay_can_pay_later(
    billing: ExternalBilling, service: FakeBilling, connection: Connection
) -> None:
    service.balance = 29
    with pytest.raises(PaymentRequired, match=r"may cost \$0\.00003, which your balance") as caught:
        await billing.reserve(BILL)
    assert caught.value.details == {"price": 30}
    assert hides_service(service, caught.value)
    assert await read_payment(connection) == (PaymentState.CANCELLED, None)
    service.balance = 30
    assert await billing.settle(await billing.reserve(BILL), 30, SUCCESS) == 30


@pytest.mark.parametrize("failure", [BROKEN, DROPPED, DONE_AND_DROPPED])
async def test_a_single_failure_is_retried_and_charged_once(
    billing: ExternalBilling, service: FakeBilling, failure: Reply
) -> None:
    service.script.append(failure)
    reservation = await billing.reserve(BILL)
    service.script.append(failure)
    assert await billing.settle(reservation, 30, SUCCESS) == 30
    assert (service.spent, service.balance) == (30, 970)
    assert [request.key for request in service.requests] == ["c1-1-reserve"] * 2 + [
        "c1-1-settle"
    ] * 2


@pytest.mark.parametrize(
    "script",
    [
        (BROKEN, DROPPED),
        (DROPPED, BROKEN),
        # These are not retried.
        *((GARBAGE,), (DEEP,), (OTHER_STATE,), (MOVED,), (Reply(204, b""),)),
    ],
)
async def test_a_service_that_fails_is_unavailable(
    billing: ExternalBilling, service: FakeBilling, script: tuple[Reply, ...]
) -> None:
    service.script.extend(script)
    with pytest.raises(Unavailable, match="The billing service cannot be reached") as caught:
        await billing.reserve(BILL)
    assert len(service.requests) == len(script)
    assert hides_service(service, caught.value)


async def test_a_reservation_with_a_late_answer_is_found_again(
    billing: ExternalBilling, service: FakeBilling, monotonic: MonotonicClock
) -> None:
    """The service has reserved the money, so a repeated call reserves no more."""
    service.script.append(replace(SLOW, is_performed=True))
    service.on_hang = partial(monotonic.advance_soon, 60)
    with pytest.raises(Unavailable, match="The billing service cannot be reached") as caught:
        await billing.reserve(BILL)
    assert caught.value.retry_after == 5
    assert len(service.requests) == 1
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert (service.spent, service.balance, service.holds) == (30, 970, {})


@pytest.mark.parametrize(
    ("header", "wait"),
    [("17", 17), ("0", 1), ("999999", 3_600), ("9" * 30, 5), ("-3", 5), ("soon", 5), ("²", 5)],
)
async def test_a_busy_service_says_when_to_retry(
    billing: ExternalBilling, service: FakeBilling, header: str, wait: int
) -> None:
    service.script.append(Reply(429, headers={"Retry-After": header}))
    with pytest.raises(Unavailable, match=f"busy. Try again in {wait} s") as caught:
        await billing.reserve(BILL)
    assert caught.value.retry_after == wait
    assert hides_service(service, caught.value)


@pytest.mark.parametrize("status", [400, 404])
async def test_a_rejected_request_is_a_platform_fault(
    billing: ExternalBilling, service: FakeBilling, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    service.script.append(Reply(status))
    with pytest.raises(PlatformFault) as caught:
        await billing.reserve(BILL)
    assert hides_service(service, caught.value)
    logged = json.loads(capfd.readouterr().err)
    assert (logged["message"], logged["status"]) == ("billing_refused", status)


@pytest.mark.parametrize("script", [(BROKEN, BROKEN), (GARBAGE,), (Reply(404),), (DENIED,)])
async def test_a_failure_to_settle_or_cancel_does_not_fail_the_call(
    billing: ExternalBilling,
    service: FakeBilling,
    connection: Connection,
    script: tuple[Reply, ...],
    capfd: pytest.CaptureFixture[str],
) -> None:
    other = await billing.reserve(replace(BILL, call_id="c2"))
    reservation = await billing.reserve(BILL)
    service.script.extend(script)
    assert await billing.settle(reservation, 30, SUCCESS) == 0
    assert await read_payment(connection) == (PaymentState.RESERVED, "ok")
    service.script.extend(script)
    await billing.cancel(other, FAILED)
    logged = capfd.readouterr().err
    assert '"operation": "settle", "call_id": "c1"' in logged
    assert '"operation": "cancel", "call_id": "c2"' in logged
    assert SECRET not in logged
    assert service.url not in logged
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 30


@pytest.mark.requirement("002-C5")
async def test_threshold_and_pause_of_the_circuit_breaker_are_settings(
    service: FakeBilling, settings: Settings
) -> None:
    changes = {
        "billing_url": service.url,
        "billing_token": SecretStr(TOKEN),
        "circuit_failure_threshold": 2,
        "circuit_recovery_timeout": 2 * OPEN_SECONDS,
    }
    services = Access(settings.model_copy(update=changes))
    service.script.extend([BROKEN] * 4)
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await services.billing.reserve(BILL)
    with pytest.raises(Unavailable, match="The billing service is temporarily unavail") as raised:
        await services.billing.reserve(BILL)
    assert raised.value.retry_after
    assert raised.value.retry_after > OPEN_SECONDS
    await services.aclose()
    assert len(service.requests) == 4


@pytest.mark.parametrize("answer", [DENIED, Reply(429), Reply(404)])
async def test_a_rejection_does_not_open_the_circuit_breaker(
    service: FakeBilling, connection: Connection, answer: Reply
) -> None:
    billing = make_billing(service, connection, failures=2)
    service.script.extend([BROKEN, BROKEN, answer, BROKEN, BROKEN])
    for _ in range(3):
        with pytest.raises(CarrelError):
            await billing.reserve(BILL)
    await billing.reserve(BILL)
    await billing.aclose()
