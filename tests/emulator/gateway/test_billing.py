"""A call with a price is charged to the account that the gateway keeps of its user.

The gateway reserves the price before it runs a call, and settles the cost afterwards. It cancels
the reservation if the call has done nothing, and leaves it open if the outcome is unknown. How a
record and an account change is tested in `tests/unit/accounts`.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.gateway.calls.billing import LedgerBilling
from shared.accounts.call_record import (
    PAID_LIFETIME,
    Bill,
    CallEntry,
    PaymentState,
    measure_arguments,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.core.errors import Unauthorized
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
async def billing(connection: Connection, clock: SettableClock) -> LedgerBilling:
    """Billing with the gateway's own accounts, where Anna has a balance of 100."""
    await AccessStore(connection).accounts.credit(ANNA, 100, NOON)
    return LedgerBilling(connection, clock)


async def read_books(connection: Connection) -> tuple[int, int, PaymentState | None]:
    """Return Anna's balance, what she has available of it, and the state of the call's payment."""
    account = await AccessStore(connection).accounts.get(ANNA)
    record = await AccessStore(connection).calls.get("c1")
    return account.balance, account.compute_available(NOON), record.state if record else None


async def test_a_call_costs_by_its_outcome(billing: LedgerBilling, connection: Connection) -> None:
    await billing.cancel(await billing.reserve(BILL), UNKNOWN_OUTCOME)
    assert await read_books(connection) == (100, 100, PaymentState.CANCELLED)
    await billing.leave_open(await billing.reserve(BILL), UNKNOWN_OUTCOME)
    assert await read_books(connection) == (100, 70, PaymentState.RESERVED)
    assert await billing.settle(await billing.reserve(BILL), 20, REPLAYED) == 20
    assert await read_books(connection) == (80, 80, PaymentState.SETTLED)


async def test_a_repeated_paid_call_costs_nothing(
    billing: LedgerBilling, connection: Connection
) -> None:
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    repeated = await billing.reserve(BILL)
    assert not repeated.record.is_open
    assert await billing.settle(repeated, 30, REPLAYED) == 0
    await billing.cancel(repeated, UNKNOWN_OUTCOME)
    await billing.leave_open(repeated, UNKNOWN_OUTCOME)
    assert await read_books(connection) == (70, 70, PaymentState.SETTLED)


@pytest.mark.parametrize(("answer", "balance"), [(REPLAYED, 70), (SUCCESS, 40)])
async def test_a_call_repeated_much_later_costs_its_new_work(
    billing: LedgerBilling,
    connection: Connection,
    clock: SettableClock,
    answer: CallEntry,
    balance: int,
) -> None:
    """Records outlive answers. A call whose answer has expired runs again and must be paid."""
    await billing.settle(await billing.reserve(BILL), 30, SUCCESS)
    clock.now += PAID_LIFETIME
    await billing.settle(await billing.reserve(BILL), 30, answer)
    assert (await read_books(connection))[0] == balance


async def test_an_anonymous_call_with_a_price_must_sign_in(
    billing: LedgerBilling, connection: Connection
) -> None:
    with pytest.raises(Unauthorized, match=r"try_out costs \$0\.00003 per call. Sign in first"):
        await billing.reserve(replace(BILL, user_id=None))
    assert await read_books(connection) == (100, 100, None)


async def test_a_free_call_leaves_a_record_if_it_may_have_written(
    billing: LedgerBilling, connection: Connection
) -> None:
    bill_of_read = replace(FREE_BILL, writes=False)
    await billing.cancel(await billing.reserve(FREE_BILL), UNKNOWN_OUTCOME)
    await billing.settle(await billing.reserve(bill_of_read), 0, SUCCESS)
    await billing.leave_open(await billing.reserve(bill_of_read), UNKNOWN_OUTCOME)
    assert await AccessStore(connection).calls.get("c1") is None

    repeated = replace(REPLAYED, documents_written=0)
    await billing.leave_open(await billing.reserve(FREE_BILL), UNKNOWN_OUTCOME)
    for entry, stored in ((None, UNKNOWN_OUTCOME), (SUCCESS, SUCCESS), (repeated, SUCCESS)):
        if entry:
            await billing.settle(await billing.reserve(FREE_BILL), 0, entry)
        record = await AccessStore(connection).calls.get("c1")
        assert record
        assert (record.state, record.bill.entry) == (PaymentState.FREE, stored)
    assert not (await connection.client.document("accounts/ben").get()).exists


async def test_a_bill_that_cannot_be_written_is_only_logged(
    billing: LedgerBilling, connection: Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    """Billing logs any error and continues, for example if an account is corrupt."""
    reservation = await billing.reserve(BILL)
    await connection.client.document(f"accounts/{ANNA}").update({"held": "nonsense"})
    assert await billing.settle(reservation, 30, SUCCESS) == 0
    await billing.cancel(reservation, UNKNOWN_OUTCOME)
    text = capfd.readouterr().err
    entries = [json.loads(line) for line in text.splitlines() if "billing_failed" in line]
    operations = [(entry["operation"], entry["call_id"]) for entry in entries]
    assert operations == [("settle", "c1"), ("cancel", "c1")]
    assert ANNA not in text


def test_arguments_are_recorded_by_name_and_size_only() -> None:
    arguments = {"query": "Grüße", "limit": 10, "my diary": "dear", "": None}
    known_arguments: dict[str, Any] = {"query": {}, "limit": {}}
    # The sizes are those of the values in JSON.
    sizes = {"query": len('"Grüße"'), "limit": 2, "(unknown)": len('"dear"') + len("null")}
    assert measure_arguments(arguments, known_arguments) == sizes
