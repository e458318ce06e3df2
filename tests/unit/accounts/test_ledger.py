"""Repetitions of a call that run at the same time are charged once, in any order.

A ledger is the record of a call and the account that pays for it. Each sending of the call is
a holder: it puts the price of the call on hold, and settles or cancels it when it ends.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.accounts.account import HOLD_LIFETIME, Account
from shared.accounts.call_record import (
    PAID_LIFETIME,
    Bill,
    CallEntry,
    CallRecord,
    Ledger,
    PaymentState,
)

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
ENTRY = CallEntry(started_at=NOON)
REPLAYED_ENTRY = replace(ENTRY, replayed=True)
BILL = Bill(call_id="c1", user_id="anna", tool="try_out", price=30, entry=ENTRY)
NEW_LEDGER = Ledger(CallRecord(bill=BILL), Account(user_id="anna", balance=100))
HOLDER_SEQUENCES = st.lists(st.sampled_from("abc"), max_size=30)
ENDS_BY_HOLDER = st.fixed_dictionaries(
    dict.fromkeys("abc", st.sampled_from(["settle", "cancel", "keep"]))
)


class Balances(NamedTuple):
    """The balance of an account, and the part of it that is not on hold."""

    total: int
    available: int


def read_balances(ledger: Ledger, now: datetime = NOON) -> Balances:
    assert ledger.account
    return Balances(ledger.account.balance, ledger.account.compute_available(now))


def end_call(ledger: Ledger, holder: str, end: str) -> Ledger:
    """Settle or cancel the call, or keep its hold."""
    match end:
        case "settle":
            return ledger.settle(holder, 30, ENTRY, NOON)
        case "cancel":
            return ledger.cancel(holder, ENTRY, NOON)
        case _:
            return ledger.update_entry(ENTRY)


@given(HOLDER_SEQUENCES, ENDS_BY_HOLDER)
def test_successful_call_is_charged_once_in_any_order(
    holders: list[str], ends: dict[str, str]
) -> None:
    """Each holder sends the call once: it reserves at its first step and ends at the next ones."""
    ledger = NEW_LEDGER
    started_holders = set()
    past_ends = set()
    for holder in holders:
        if holder in started_holders:
            ledger = end_call(ledger, holder, ends[holder])
            past_ends.add(ends[holder])
        else:
            previous_ledger = ledger
            ledger = ledger.reserve(BILL, holder, NOON)
            if ledger is previous_ledger:
                continue  # The call is paid already, so this sending has nothing to settle.
            started_holders.add(holder)

    assert ledger.record.charged == (30 if "settle" in past_ends else 0)

    balance = 100 - ledger.record.charged
    on_hold = 30 if ledger.record.reservation_ids else 0
    assert read_balances(ledger) == Balances(total=balance, available=balance - on_hold)


def test_repeated_commit_changes_nothing() -> None:
    """A commit that is sent again, because its answer was lost, finds its own effect."""
    reserved_ledger = NEW_LEDGER.reserve(BILL, "one", NOON)
    assert reserved_ledger is reserved_ledger.reserve(BILL, "one", NOON)
    settled_ledger = reserved_ledger.settle("one", 30, ENTRY, NOON)
    assert settled_ledger is settled_ledger.settle("one", 30, ENTRY, NOON)
    cancelled_ledger = reserved_ledger.cancel("one", ENTRY, NOON)
    assert cancelled_ledger is cancelled_ledger.cancel("one", ENTRY, NOON)


def test_call_that_outlives_its_hold_is_not_charged() -> None:
    ledger = NEW_LEDGER.reserve(BILL, "one", NOON).settle("one", 30, ENTRY, NOON + HOLD_LIFETIME)
    assert ledger.record.state == PaymentState.SETTLED
    assert ledger.record.charged == 0
    assert read_balances(ledger) == Balances(total=100, available=100)


def test_a_repetition_prolongs_the_hold_and_one_after_its_end_makes_another() -> None:
    """The gateway of the first runs was killed, or ends them late."""
    first_repetition = NOON + HOLD_LIFETIME / 2
    end = first_repetition + HOLD_LIFETIME
    ledger = NEW_LEDGER.reserve(BILL, "one", NOON).reserve(BILL, "two", first_repetition)
    shared = ledger.reserve(BILL, "three", end - timedelta(microseconds=1)).record
    assert (shared.hold_count, shared.reservation_ids) == (1, ("one", "two", "three"))

    ledger = ledger.reserve(BILL, "four", end)
    assert (ledger.record.hold_count, ledger.record.reservation_ids) == (2, ("four",))
    assert ledger.settle("one", 30, ENTRY, end) is ledger
    ledger = ledger.settle("four", 30, ENTRY, end)
    assert read_balances(ledger, end) == Balances(total=70, available=70)


@pytest.mark.parametrize(
    ("entry", "wait", "is_charged_again"),
    [
        (ENTRY, PAID_LIFETIME - timedelta(microseconds=1), False),
        (ENTRY, PAID_LIFETIME, True),
        (REPLAYED_ENTRY, timedelta(0), True),
    ],
)
def test_paid_call_costs_again_after_its_answer_expires(
    entry: CallEntry, wait: timedelta, *, is_charged_again: bool
) -> None:
    paid_ledger = NEW_LEDGER.reserve(BILL, "one", NOON).settle("one", 30, entry, NOON)
    repeated_ledger = paid_ledger.reserve(BILL, "two", NOON + wait)
    assert (repeated_ledger is not paid_ledger) == is_charged_again


def test_a_late_end_of_an_earlier_run_does_not_charge_a_later_hold() -> None:
    """Two runs share a hold. The second, a replay, is charged. The first ends during a third."""
    ledger = NEW_LEDGER.reserve(BILL, "one", NOON).reserve(BILL, "two", NOON)
    ledger = ledger.settle("two", 30, REPLAYED_ENTRY, NOON).reserve(BILL, "three", NOON)

    ledger = ledger.settle("one", 30, ENTRY, NOON)
    assert ledger.record.charged == 30

    ledger = ledger.settle("three", 30, REPLAYED_ENTRY, NOON)
    assert ledger.record.charged == 30
    assert read_balances(ledger) == Balances(total=70, available=70)


@pytest.mark.parametrize(("entry", "charged"), [(ENTRY, 50), (REPLAYED_ENTRY, 30)])
def test_earlier_payment_is_kept_when_a_call_is_repeated(entry: CallEntry, charged: int) -> None:
    """The stored answer of a paid call costs nothing."""
    after_expiry = NOON + PAID_LIFETIME
    ledger = NEW_LEDGER.reserve(BILL, "one", NOON).settle("one", 30, ENTRY, NOON)
    ledger = ledger.reserve(BILL, "two", after_expiry).settle("two", 20, entry, after_expiry)
    assert (ledger.record.hold_count, ledger.record.charged) == (2, charged)
    balances = Balances(total=100 - charged, available=100 - charged)
    assert read_balances(ledger, after_expiry) == balances


@pytest.mark.parametrize(
    "account", [NEW_LEDGER.account, None], ids=["account_here", "account_elsewhere"]
)
@pytest.mark.parametrize(("cost", "charge"), [(20, 20), (99, 30), (-5, 0)])
def test_a_calls_charge_lies_between_zero_and_its_price(
    account: Account | None, cost: int, charge: int
) -> None:
    ledger = Ledger(CallRecord(bill=BILL), account).reserve(BILL, "one", NOON)
    settled_ledger = ledger.settle("one", cost, ENTRY, NOON)
    assert settled_ledger.record.charged == charge
    if account:
        assert read_balances(settled_ledger).total == 100 - charge
    else:
        assert settled_ledger.account is None
