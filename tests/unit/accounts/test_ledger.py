"""Concurrent repetitions of a call are charged once, in any order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

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
from shared.core.errors import PaymentRequired

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
ENTRY = CallEntry(started_at=NOON)
REPLAYED = replace(ENTRY, replayed=True)
BILL = Bill(call_id="c1", user_id="anna", tool="try_out", price=30, entry=ENTRY)
NEW = Ledger(CallRecord(bill=BILL), Account(user_id="anna", balance=100))
SENDINGS = st.lists(st.sampled_from("abc"), max_size=30)
ENDS = st.fixed_dictionaries(dict.fromkeys("abc", st.sampled_from(["settle", "cancel", "keep"])))


def money(ledger: Ledger, now: datetime = NOON) -> tuple[int, int]:
    assert ledger.account
    return ledger.account.balance, ledger.account.available(now)


def ended(ledger: Ledger, holder: str, end: str) -> Ledger:
    match end:
        case "settle":
            return ledger.settle(30, ENTRY, NOON)
        case "cancel":
            return ledger.cancel(holder, ENTRY, NOON)
        case _:
            return ledger.update_entry(ENTRY)


@given(SENDINGS, ENDS)
def test_successful_call_is_charged_once_in_any_order(
    steps: list[str], ends: dict[str, str]
) -> None:
    """Each sending reserves at its first step and ends, as it does, at every later one."""
    ledger, under_way, ended_so_far = NEW, set(), set()
    for holder in steps:
        if holder in under_way:
            ledger = ended(ledger, holder, ends[holder])
            ended_so_far.add(ends[holder])
        else:
            before = ledger
            ledger = ledger.reserve(BILL, holder, NOON)
            if ledger is before:
                continue  # paid already: this sending has nothing to settle
            under_way.add(holder)
    assert ledger.record.charged == (30 if "settle" in ended_so_far else 0)
    balance, available = money(ledger)
    assert 100 - ledger.record.charged == balance
    assert (balance - 30 if ledger.record.holders else balance) == available


def test_repeated_commit_changes_nothing() -> None:
    """What is sent again because its answer was lost finds itself in the documents."""
    reserved = NEW.reserve(BILL, "one", NOON)
    assert reserved is reserved.reserve(BILL, "one", NOON)
    settled = reserved.settle(30, ENTRY, NOON)
    assert settled is settled.settle(30, ENTRY, NOON)
    cancelled = reserved.cancel("one", ENTRY, NOON)
    assert cancelled is cancelled.cancel("one", ENTRY, NOON)


def test_call_that_outlives_its_hold_is_not_charged() -> None:
    ledger = NEW.reserve(BILL, "one", NOON).settle(30, ENTRY, NOON + HOLD_LIFETIME)
    assert ledger.record.state == PaymentState.SETTLED
    assert ledger.record.charged == 0
    assert money(ledger) == (100, 100)


@pytest.mark.parametrize(
    ("entry", "later", "asks"),
    [
        (ENTRY, PAID_LIFETIME - timedelta(microseconds=1), False),
        (ENTRY, PAID_LIFETIME, True),
        (REPLAYED, timedelta(0), True),
    ],
)
def test_paid_call_costs_again_after_its_answer_expires(
    entry: CallEntry, later: timedelta, *, asks: bool
) -> None:
    paid = NEW.reserve(BILL, "one", NOON).settle(30, entry, NOON)
    assert (paid is not paid.reserve(BILL, "two", NOON + later)) == asks


def test_earlier_payment_is_kept_when_a_call_is_repeated() -> None:
    later = NOON + PAID_LIFETIME
    ledger = NEW.reserve(BILL, "one", NOON).settle(30, ENTRY, NOON)
    ledger = ledger.reserve(BILL, "two", later).settle(20, ENTRY, later)
    assert ledger.record.attempt == 2
    assert ledger.record.charged == 50
    assert money(ledger, later) == (50, 50)


def test_rejected_call_changes_nothing() -> None:
    with pytest.raises(PaymentRequired):
        NEW.reserve(replace(BILL, price=101), "one", NOON)


@pytest.mark.parametrize("account", [NEW.account, None], ids=["ours", "outside"])
@pytest.mark.parametrize(("cost", "charge"), [(20, 20), (99, 30), (-5, 0)])
def test_a_call_costs_from_nothing_to_its_price(
    account: Account | None, cost: int, charge: int
) -> None:
    ledger = Ledger(CallRecord(bill=BILL), account).reserve(BILL, "one", NOON)
    settled = ledger.settle(cost, ENTRY, NOON)
    assert settled.record.charged == charge
    assert (settled.account and settled.account.balance) == (100 - charge if account else None)


def test_stored_answer_of_a_paid_call_costs_nothing() -> None:
    later = NOON + PAID_LIFETIME
    paid = NEW.reserve(BILL, "one", NOON).settle(30, ENTRY, NOON)
    again = paid.reserve(BILL, "two", later).settle(30, REPLAYED, later)
    assert again.record.charged == 30
    assert money(again, later) == (70, 70)
