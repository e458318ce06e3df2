"""A billing service outside: what it is asked, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from functions.gateway.calls.external_billing import ExternalBilling
from shared.accounts.call_record import PAID_LIFETIME, Bill, CallEntry, PaymentState
from shared.accounts.repositories.access_store import AccessStore
from shared.core.circuit_breaker import OPEN_SECONDS, CircuitBreaker
from shared.core.errors import CarrelError, PaymentRequired, PlatformFault, Unavailable
from shared.firestore.database import Connection
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
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.fakes.billing import Asked
    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

ANNA = "anna@example.com"
BEFORE = CallEntry(started_at=NOON)
SUCCESS = replace(BEFORE, outcome="ok")
REPLAYED = replace(SUCCESS, replayed=True)
FAILED = replace(BEFORE, outcome="VALIDATION_ERROR")
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, entry=BEFORE)


@pytest.fixture
def clock() -> SettableClock:
    """The time."""
    return SettableClock(NOON)


@pytest.fixture
async def access(project: str) -> AsyncIterator[Connection]:
    """The database of our records."""
    connection = Connection(project, "access")
    yield connection
    await connection.aclose()


@pytest.fixture
def service() -> Iterator[FakeBilling]:
    """The billing service."""
    with FakeBilling() as running:
        yield running


@pytest.fixture
async def billing(
    service: FakeBilling, access: Connection, clock: SettableClock
) -> AsyncIterator[ExternalBilling]:
    """Billing by the service."""
    async with billing_at(service.url, access, clock) as opened:
        yield opened


@asynccontextmanager
async def billing_at(
    url: str, access: Connection, clock: SettableClock, *, seconds: float = 60.0
) -> AsyncIterator[ExternalBilling]:
    """Billing by the service at an address."""
    opened = ExternalBilling(url, SecretStr(TOKEN), access, clock, timeout=seconds)
    yield opened
    await opened.aclose()


async def state(access: Connection) -> PaymentState | None:
    record = await AccessStore(access).calls.get("c1")
    return record.state if record else None


def keys(asked: list[Asked]) -> list[str]:
    return [request.key for request in asked]


async def test_a_call_is_reserved_and_settled_at_the_service(
    billing: ExternalBilling, service: FakeBilling, access: Connection
) -> None:
    reservation = await billing.reserve(BILL)
    assert service.holds == {"c1-1": 30}
    assert await billing.settle(reservation, 20, SUCCESS) == 20
    assert service.spent == 20
    assert service.balance == 980
    assert await state(access) is PaymentState.SETTLED


async def test_the_service_is_asked_in_its_own_terms(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    await billing.settle(await billing.reserve(BILL), 20, SUCCESS)
    [first, second] = service.asked
    expected = {
        "call_id": "c1-1",
        "user_id": ANNA,
        "tool": "try_out",
        "amount": 30,
        "currency": "USD-micros",
    }
    assert first.path == "/v1/reserve"
    assert first.key == "c1-1-reserve"
    assert first.body == expected
    assert second.path == "/v1/settle"
    assert second.key == "c1-1-settle"
    assert second.body["amount"] == 20
    assert first.authorization == f"Bearer {TOKEN}"


async def test_a_call_that_has_done_nothing_is_given_back(
    billing: ExternalBilling, service: FakeBilling, access: Connection
) -> None:
    await billing.cancel(await billing.reserve(BILL), FAILED)
    assert service.balance == 1_000
    assert service.holds == {}
    assert await state(access) is PaymentState.CANCELLED


async def test_a_call_sent_again_after_a_cancel_has_another_id_there(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    await billing.cancel(await billing.reserve(BILL), FAILED)
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert service.spent == 30
    assert keys(service.asked) == ["c1-1-reserve", "c1-1-cancel", "c1-2-reserve", "c1-2-settle"]


async def test_an_unknown_outcome_tells_the_service_nothing(
    billing: ExternalBilling, service: FakeBilling, access: Connection
) -> None:
    await billing.leave_open(await billing.reserve(BILL), FAILED)
    assert service.operations == ["reserve"]
    assert await state(access) is PaymentState.RESERVED


async def test_an_unknown_outcome_sent_again_is_charged_once(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    await billing.leave_open(await billing.reserve(BILL), FAILED)
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 30
    assert service.spent == 30
    assert service.balance == 970
    assert service.holds == {}


async def test_a_paid_call_that_is_sent_again_asks_the_service_nothing(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 0
    assert service.operations == ["reserve", "settle"]


async def test_an_old_answer_of_a_call_that_was_paid_costs_nothing(
    billing: ExternalBilling, service: FakeBilling, clock: SettableClock
) -> None:
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    clock.now += PAID_LIFETIME
    await billing.settle(await billing.reserve(BILL), 30, REPLAYED)
    assert service.spent == 30
    assert service.holds == {}


async def test_the_same_call_at_once_from_two_gateways_is_charged_once(
    service: FakeBilling, access: Connection, clock: SettableClock
) -> None:
    async def run() -> None:
        async with billing_at(service.url, access, clock) as gateway:
            await gateway.settle(await gateway.reserve(BILL), 30, SUCCESS)

    await asyncio.gather(run(), run())
    assert service.spent == 30
    assert service.balance == 970


async def test_a_failed_call_keeps_the_hold_of_its_good_twin(
    billing: ExternalBilling, service: FakeBilling
) -> None:
    faulty, good = await billing.reserve(BILL), await billing.reserve(BILL)
    await billing.cancel(faulty, FAILED)
    assert await billing.settle(good, 30, SUCCESS) == 30
    assert service.spent == 30
    assert service.holds == {}


async def test_a_free_call_asks_the_service_nothing(
    billing: ExternalBilling, service: FakeBilling, access: Connection
) -> None:
    free = replace(BILL, price=0, writes=True)
    await billing.settle(await billing.reserve(free), 0, SUCCESS)
    await billing.cancel(await billing.reserve(free), FAILED)
    assert service.operations == []
    assert await state(access) == PaymentState.FREE


async def test_a_user_who_cannot_pay_can_pay_later(
    billing: ExternalBilling, service: FakeBilling, access: Connection
) -> None:
    service.balance = 29
    with pytest.raises(PaymentRequired, match=r"may cost \$0\.00003, which your balance") as caught:
        await billing.reserve(BILL)
    assert caught.value.details == {"price": 30}
    assert await state(access) is PaymentState.CANCELLED
    service.balance = 30
    assert await billing.settle(await billing.reserve(BILL), 30, SUCCESS) == 30


@pytest.mark.parametrize("stumble", [BROKEN, DROPPED, DONE_AND_DROPPED])
async def test_a_stumble_of_the_service_is_no_failure_and_charges_once(
    billing: ExternalBilling, service: FakeBilling, stumble: Reply
) -> None:
    service.script.append(stumble)
    reservation = await billing.reserve(BILL)
    service.script.append(stumble)
    assert await billing.settle(reservation, 30, SUCCESS) == 30
    assert service.spent == 30
    assert service.balance == 970
    assert keys(service.asked) == ["c1-1-reserve"] * 2 + ["c1-1-settle"] * 2


DOWN = [
    (BROKEN, BROKEN),
    (DROPPED, DROPPED),
    (BROKEN, DROPPED),
    (DROPPED, BROKEN),
]
NONSENSE = [(GARBAGE,), (DEEP,), (OTHER_STATE,), (MOVED,), (Reply(body=b""),), (Reply(204, b""),)]


@pytest.mark.parametrize("script", [*DOWN, *NONSENSE])
async def test_an_invalid_answer_of_the_service_is_unavailable(
    billing: ExternalBilling, service: FakeBilling, script: tuple[Reply, ...]
) -> None:
    service.script.extend(script)
    with pytest.raises(Unavailable, match="The billing service cannot be reached") as caught:
        await billing.reserve(BILL)
    assert len(service.asked) == len(script)
    assert says_nothing_of(service, caught.value)


async def test_a_service_that_is_slow_is_unavailable(
    service: FakeBilling, access: Connection, clock: SettableClock, monotonic: Monotonic
) -> None:
    service.script.append(SLOW)
    service.on_hang = partial(monotonic.turn_soon, 60)
    async with billing_at(service.url, access, clock) as billing:
        with pytest.raises(Unavailable, match="The billing service cannot be reached") as caught:
            await billing.reserve(BILL)
    assert len(service.asked) == 1
    assert caught.value.retry_after == 5


async def test_an_unreachable_service_is_unavailable(
    access: Connection, clock: SettableClock
) -> None:
    async with billing_at(f"http://127.0.0.1:{free_port()}", access, clock) as billing:
        with pytest.raises(Unavailable, match="The billing service cannot be reached"):
            await billing.reserve(BILL)


@pytest.mark.parametrize(
    ("header", "wait"),
    [("17", 17), ("0", 1), ("999999", 3_600), ("9" * 30, 5), ("-3", 5), ("soon", 5), ("²", 5)],
)
async def test_a_service_that_is_busy_says_when_to_come_again(
    billing: ExternalBilling, service: FakeBilling, header: str, wait: int
) -> None:
    service.script.append(Reply(429, headers={"Retry-After": header}))
    with pytest.raises(Unavailable, match=f"busy. Try again in {wait} s") as caught:
        await billing.reserve(BILL)
    assert caught.value.retry_after == wait
    assert says_nothing_of(service, caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
async def test_a_service_that_refuses_our_request_is_a_fault_of_ours(
    billing: ExternalBilling,
    service: FakeBilling,
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    service.script.append(Reply(status))
    with pytest.raises(PlatformFault) as caught:
        await billing.reserve(BILL)
    assert says_nothing_of(service, caught.value)
    logged = json.loads(capfd.readouterr().err)
    assert logged["message"] == "billing_refused"
    assert logged["status"] == status


async def test_a_rejection_leaks_nothing(billing: ExternalBilling, service: FakeBilling) -> None:
    service.script.append(DENIED)
    with pytest.raises(PaymentRequired) as caught:
        await billing.reserve(BILL)
    assert says_nothing_of(service, caught.value)


async def test_a_reservation_that_was_not_heard_of_is_found_again(
    service: FakeBilling, access: Connection, clock: SettableClock, monotonic: Monotonic
) -> None:
    """The service had set the money aside: the same call, sent again, takes no more of it."""
    service.script.append(replace(SLOW, done=True))
    service.on_hang = partial(monotonic.turn_soon, 60)
    async with billing_at(service.url, access, clock) as billing:
        with pytest.raises(Unavailable):
            await billing.reserve(BILL)
    async with billing_at(service.url, access, clock) as billing:
        await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    assert service.spent == 30
    assert service.balance == 970
    assert service.holds == {}


@pytest.mark.parametrize("script", [(BROKEN, BROKEN), (GARBAGE,), (Reply(404),), (DENIED,)])
async def test_a_call_that_was_done_fails_by_no_failure_to_settle_it(
    billing: ExternalBilling,
    service: FakeBilling,
    access: Connection,
    script: tuple[Reply, ...],
    capfd: pytest.CaptureFixture[str],
) -> None:
    reservation = await billing.reserve(BILL)
    service.script.extend(script)
    assert await billing.settle(reservation, 30, SUCCESS) == 0
    record = await AccessStore(access).calls.get("c1")
    assert record
    assert record.state == PaymentState.RESERVED
    assert record.bill.entry.outcome == "ok"
    logged = capfd.readouterr().err
    assert '"operation": "settle", "call_id": "c1"' in logged
    assert SECRET not in logged
    assert service.url not in logged
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 30


async def test_a_failure_to_cancel_fails_nothing(
    billing: ExternalBilling, service: FakeBilling, capfd: pytest.CaptureFixture[str]
) -> None:
    reservation = await billing.reserve(BILL)
    service.script.extend([BROKEN, BROKEN])
    await billing.cancel(reservation, FAILED)
    assert '"operation": "cancel"' in capfd.readouterr().err


async def test_a_failing_service_opens_the_circuit_breaker(
    service: FakeBilling, access: Connection, clock: SettableClock
) -> None:
    breaker = CircuitBreaker("The billing service", failures=2)
    service.script.extend([BROKEN] * 4)
    billing = ExternalBilling(service.url, SecretStr(TOKEN), access, clock, breaker=breaker)
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await billing.reserve(BILL)
    with pytest.raises(Unavailable, match="The billing service is temporarily unavailable"):
        await billing.reserve(BILL)
    await billing.aclose()
    assert len(service.asked) == 4


@pytest.mark.parametrize("answer", [DENIED, Reply(429), Reply(404)])
async def test_a_service_that_refuses_is_well(
    service: FakeBilling, access: Connection, clock: SettableClock, answer: Reply
) -> None:
    breaker = CircuitBreaker("The billing service", failures=2)
    service.script.extend([BROKEN, BROKEN, answer, BROKEN, BROKEN])
    billing = ExternalBilling(service.url, SecretStr(TOKEN), access, clock, breaker=breaker)
    for _ in range(3):
        with pytest.raises(CarrelError):
            await billing.reserve(BILL)
    await billing.reserve(BILL)
    await billing.aclose()


async def test_a_caller_who_leaves_says_nothing_of_the_service(
    service: FakeBilling, access: Connection, clock: SettableClock, monotonic: Monotonic
) -> None:
    """Nor does the one who leaves as the probe keep all others out."""
    seconds = [0.0]
    breaker = CircuitBreaker("The billing service", clock=lambda: seconds[0], failures=1)
    service.script.extend([GARBAGE, SLOW])
    service.on_hang = partial(monotonic.turn_soon, 60)
    billing = ExternalBilling(
        service.url, SecretStr(TOKEN), access, clock, timeout=3600, breaker=breaker
    )
    with pytest.raises(Unavailable, match="cannot be reached"):
        await billing.reserve(BILL)
    seconds[0] += OPEN_SECONDS
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await billing.reserve(BILL)
    await billing.reserve(BILL)
    await billing.aclose()


def says_nothing_of(service: FakeBilling, error: CarrelError) -> bool:
    """Whether an error tells nothing of the service's answer or address."""
    text = json.dumps(error.to_wire())
    return all(secret not in text for secret in (SECRET, service.url, "127.0.0.1", TOKEN, "html"))
