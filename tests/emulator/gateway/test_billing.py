"""A call with a price is charged to the account that the gateway keeps of its user.

The gateway reserves the price before it runs a call, and settles the cost afterwards. It cancels
the reservation if the call has done nothing, and leaves it open if the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from functions.gateway.calls.billing import LedgerBilling, Reservation
from shared.accounts.call_record import (
    PAID_LIFETIME,
    Bill,
    CallEntry,
    PaymentState,
    measure_arguments,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.core.errors import PaymentRequired, Unauthorized
from shared.firestore.connection import Connection
from tests.support.clock import NOON, SettableClock

ANNA = "anna@example.com"
BEFORE_CALL = CallEntry(started_at=NOON, arguments={"query": 12})
SUCCESS = replace(BEFORE_CALL, outcome="ok", documents_written=1)
REPLAYED = replace(SUCCESS, replayed=True)
UNKNOWN_OUTCOME = replace(BEFORE_CALL, outcome="UNAVAILABLE")
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, writes=True, entry=BEFORE_CALL)
FREE_BILL = replace(BILL, user_id="ben", price=0)


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the gateway."""
    return SettableClock(NOON)


@pytest.fixture
async def access(project: str) -> AsyncIterator[Connection]:
    """The database of accounts and calls, where Anna has a balance of 100."""
    connection = Connection(project, "access")
    await AccessStore(connection).accounts.credit(ANNA, 100, NOON)
    yield connection
    await connection.aclose()


@pytest.fixture
def billing(access: Connection, clock: SettableClock) -> LedgerBilling:
    """Billing with the gateway's own accounts."""
    return LedgerBilling(access, clock)


async def read_balance(access: Connection) -> int:
    """Return Anna's balance in millionths of a dollar."""
    return (await AccessStore(access).accounts.get(ANNA)).balance


async def read_state(access: Connection) -> PaymentState | None:
    """Return the stored state of the call's payment."""
    record = await AccessStore(access).calls.get("c1")
    return record.state if record else None


async def test_a_call_is_charged_its_cost(billing: LedgerBilling, access: Connection) -> None:
    reservation = await billing.reserve(BILL)
    assert await billing.settle(reservation, 20, SUCCESS) == 20
    assert await read_balance(access) == 80
    assert await read_state(access) == PaymentState.SETTLED


async def test_a_call_that_did_nothing_is_not_charged(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.cancel(await billing.reserve(BILL), UNKNOWN_OUTCOME)
    assert await read_balance(access) == 100
    assert await read_state(access) == PaymentState.CANCELLED


async def test_an_unknown_outcome_keeps_the_money_on_hold(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.leave_open(await billing.reserve(BILL), UNKNOWN_OUTCOME)
    account = await AccessStore(access).accounts.get(ANNA)
    assert account.balance == 100
    assert account.compute_available(NOON) == 70
    assert await read_state(access) is PaymentState.RESERVED


async def test_a_repeated_paid_call_costs_nothing(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    repeated = await billing.reserve(BILL)
    assert not repeated.record.is_open
    assert await billing.settle(repeated, 30, REPLAYED) == 0
    await billing.cancel(repeated, UNKNOWN_OUTCOME)
    await billing.leave_open(repeated, UNKNOWN_OUTCOME)
    assert await read_balance(access) == 70
    assert await read_state(access) == PaymentState.SETTLED


@pytest.mark.parametrize(("answer", "expected_balance"), [(REPLAYED, 70), (SUCCESS, 40)])
async def test_a_call_repeated_much_later_costs_its_new_work(
    billing: LedgerBilling,
    access: Connection,
    clock: SettableClock,
    answer: CallEntry,
    expected_balance: int,
) -> None:
    """Records outlive answers. A call whose answer has expired runs again and must be paid."""
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    clock.now += PAID_LIFETIME
    await billing.settle(await billing.reserve(BILL), 30, answer)
    assert await read_balance(access) == expected_balance


async def test_an_unknown_outcome_is_charged_when_the_call_is_repeated(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.leave_open(await billing.reserve(BILL), UNKNOWN_OUTCOME)
    assert await billing.settle(await billing.reserve(BILL), 30, REPLAYED) == 30
    assert await read_balance(access) == 70


async def test_concurrent_calls_are_limited_by_the_balance(
    access: Connection, clock: SettableClock
) -> None:
    bills = [replace(BILL, call_id=f"c{number}") for number in range(20)]
    gateways = [LedgerBilling(access, clock) for _ in bills]
    outcomes = await asyncio.gather(
        *(gateway.reserve(bill) for gateway, bill in zip(gateways, bills, strict=True)),
        return_exceptions=True,
    )
    reservations = [outcome for outcome in outcomes if isinstance(outcome, Reservation)]
    denials = [outcome for outcome in outcomes if isinstance(outcome, PaymentRequired)]
    assert len(reservations) == 3  # the balance is 100, and each call costs 30
    assert len(denials) == 17


async def test_an_anonymous_call_with_a_price_must_sign_in(
    billing: LedgerBilling, access: Connection
) -> None:
    with pytest.raises(Unauthorized, match=r"try_out costs \$0\.00003 per call. Sign in first"):
        await billing.reserve(replace(BILL, user_id=None))
    assert await read_state(access) is None


async def test_a_free_call_that_writes_leaves_a_record_and_no_account(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.settle(await billing.reserve(FREE_BILL), 0, SUCCESS)
    assert await read_state(access) is PaymentState.FREE
    assert not (await access.client.document("accounts/ben").get()).exists


async def test_a_repeated_free_call_keeps_its_record(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.settle(await billing.reserve(FREE_BILL), 0, SUCCESS)
    await billing.settle(
        await billing.reserve(FREE_BILL), 0, replace(REPLAYED, documents_written=0)
    )
    record = await AccessStore(access).calls.get("c1")
    assert record
    assert record.bill.entry == SUCCESS


async def test_a_free_call_that_may_have_written_leaves_a_record(
    billing: LedgerBilling, access: Connection
) -> None:
    await billing.leave_open(await billing.reserve(FREE_BILL), UNKNOWN_OUTCOME)
    record = await AccessStore(access).calls.get("c1")
    assert record
    assert record.state == PaymentState.FREE
    assert record.bill.entry == UNKNOWN_OUTCOME


async def test_a_free_call_that_wrote_nothing_leaves_no_record(
    billing: LedgerBilling, access: Connection
) -> None:
    bill_of_read = replace(FREE_BILL, writes=False)
    await billing.cancel(await billing.reserve(FREE_BILL), UNKNOWN_OUTCOME)
    await billing.settle(await billing.reserve(bill_of_read), 0, SUCCESS)
    await billing.leave_open(await billing.reserve(bill_of_read), UNKNOWN_OUTCOME)
    assert await read_state(access) is None


async def test_a_bill_that_cannot_be_written_is_only_logged(
    billing: LedgerBilling, access: Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    """Billing logs any error and continues, for example if an account is corrupt."""
    reservation = await billing.reserve(BILL)
    await access.client.document(f"accounts/{ANNA}").update({"held": "nonsense"})
    assert await billing.settle(reservation, 30, SUCCESS) == 0
    await billing.cancel(reservation, UNKNOWN_OUTCOME)
    lines = [line for line in capfd.readouterr().err.splitlines() if "billing_failed" in line]
    assert [json.loads(line)["operation"] for line in lines] == ["settle", "cancel"]
    for line in lines:
        assert json.loads(line)["call_id"] == "c1"
        assert ANNA not in line


def test_arguments_are_recorded_by_name_and_size_only() -> None:
    arguments = {"query": "Grüße", "limit": 10, "my diary": "dear", "": None}
    known_arguments: dict[str, Any] = {"query": {}, "limit": {}}
    # The sizes are those of the values in JSON.
    sizes = {"query": len('"Grüße"'), "limit": 2, "(unknown)": len('"dear"') + len("null")}
    assert measure_arguments(arguments, known_arguments) == sizes
