"""Credits are spent once, and no balance falls below zero.

A call puts its price on hold before it runs. Amounts are millionths of a dollar.
"""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.accounts.account import HOLD_LIFETIME, MICROS_PER_DOLLAR, Account, Hold, format_dollars
from shared.core.errors import InvalidInput, PaymentRequired

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
MINUTE_LATER = NOON + timedelta(minutes=1)
HOLD_EXPIRY = NOON + HOLD_LIFETIME
FUNDED_ACCOUNT = Account(user_id="anna@example.com", balance=10 * MICROS_PER_DOLLAR)


def test_a_call_is_charged_its_cost_once_and_the_rest_is_released() -> None:
    held = FUNDED_ACCOUNT.reserve("a", 4 * MICROS_PER_DOLLAR, NOON)
    assert held.compute_available(NOON) == 6 * MICROS_PER_DOLLAR
    assert held.balance == 10 * MICROS_PER_DOLLAR
    settled = held.settle("a", MICROS_PER_DOLLAR, MINUTE_LATER)
    assert settled.compute_available(MINUTE_LATER) == 9 * MICROS_PER_DOLLAR
    assert (settled.spent, settled.held) == (MICROS_PER_DOLLAR, {})
    cancelled = held.cancel("a", MINUTE_LATER)
    assert cancelled.compute_available(MINUTE_LATER) == FUNDED_ACCOUNT.balance
    for account in (settled, cancelled):
        assert account.settle("a", MICROS_PER_DOLLAR, MINUTE_LATER) == account


def test_a_lost_hold_expires_after_an_hour() -> None:
    assert FUNDED_ACCOUNT.compute_budget_left(NOON) is None  # so the whole balance can be held
    account = FUNDED_ACCOUNT.reserve("a", 10 * MICROS_PER_DOLLAR, NOON)
    before_expiry = HOLD_EXPIRY - timedelta(microseconds=1)
    assert account.compute_available(before_expiry) == 0
    assert account.compute_available(HOLD_EXPIRY) == 10 * MICROS_PER_DOLLAR
    settled = account.settle("a", MICROS_PER_DOLLAR, HOLD_EXPIRY)
    assert (settled.balance, settled.held) == (FUNDED_ACCOUNT.balance, {})


def test_repeated_call_renews_its_only_hold() -> None:
    account = FUNDED_ACCOUNT.reserve("a", MICROS_PER_DOLLAR, NOON).reserve(
        "a", MICROS_PER_DOLLAR, MINUTE_LATER
    )
    assert account.held == {"a": Hold(MICROS_PER_DOLLAR, MINUTE_LATER + HOLD_LIFETIME)}


def test_a_balance_that_does_not_cover_the_call_says_what_to_do() -> None:
    account = FUNDED_ACCOUNT.reserve("a", 9_990_000, NOON)
    with pytest.raises(PaymentRequired) as caught:
        account.reserve("b", 20_000, NOON)
    expected = (
        "This call may cost $0.02, but only $0.01 of the balance is available. The operator of this"
        " server can add to it: .venv/bin/carrel accounts credit anna@example.com AMOUNT"
    )
    assert caught.value.message == expected
    assert caught.value.details == {"price": 20_000, "available": 10_000}


def test_a_budget_that_does_not_cover_the_call_says_what_to_do() -> None:
    account = Account(user_id="anna", balance=MICROS_PER_DOLLAR, monthly_budget=50_000)
    with pytest.raises(PaymentRequired) as caught:
        account.reserve("a", 40_000, NOON).reserve("b", 20_000, NOON)
    expected = (
        "This call may cost $0.02, but only $0.01 is left of this month's budget of $0.05. Wait for"
        " the next month (UTC), or ask the operator of this server to raise it:"
        " .venv/bin/carrel accounts limit anna AMOUNT"
    )

    assert caught.value.message == expected
    assert caught.value.details == {"price": 20_000, "budget_left": 10_000}


def test_a_budget_is_for_a_calendar_month_of_utc() -> None:
    account = Account(user_id="anna", balance=MICROS_PER_DOLLAR, monthly_budget=10_000)
    account = account.reserve("a", 10_000, NOON).settle("a", 10_000, MINUTE_LATER)
    tokyo = timezone(timedelta(hours=9))
    end_of_may = datetime(2024, 6, 1, 8, 59, tzinfo=tokyo)
    start_of_june = datetime(2024, 6, 1, 9, 0, tzinfo=tokyo)
    assert account.compute_budget_left(end_of_may) == 0
    assert account.compute_budget_left(start_of_june) == 10_000

    account = account.reserve("b", 10_000, start_of_june).settle("b", 10_000, start_of_june)
    assert (account.month, account.spent, account.balance) == ("2024-06", 10_000, 980_000)
    assert account.compute_budget_left(end_of_may) == 0  # the clock of another instance runs late
    overspent = Account(user_id="a", monthly_budget=1, month="2024-05", spent=5)
    assert overspent.compute_budget_left(NOON) == 0

    # A call across two months is charged to the second one.
    account = FUNDED_ACCOUNT.reserve("a", 10_000, end_of_may).settle("a", 10_000, start_of_june)
    assert (account.month, account.spent) == ("2024-06", 10_000)


def test_only_money_that_is_not_on_hold_can_be_withdrawn() -> None:
    assert FUNDED_ACCOUNT.credit(2 * MICROS_PER_DOLLAR, NOON).balance == 12 * MICROS_PER_DOLLAR
    assert FUNDED_ACCOUNT.credit(-10 * MICROS_PER_DOLLAR, NOON).balance == 0
    account = FUNDED_ACCOUNT.reserve("a", 4 * MICROS_PER_DOLLAR, NOON)
    assert account.credit(-6 * MICROS_PER_DOLLAR, NOON).compute_available(NOON) == 0
    with pytest.raises(
        InvalidInput, match=r"\$7\.00 cannot .* \$10\.00, of which \$4\.00 is on hold"
    ):
        account.credit(-7 * MICROS_PER_DOLLAR, NOON)
    account = account.credit(-7 * MICROS_PER_DOLLAR, HOLD_EXPIRY)
    assert account.compute_available(HOLD_EXPIRY) == 3 * MICROS_PER_DOLLAR
    assert account.settle("a", 4 * MICROS_PER_DOLLAR, MINUTE_LATER).balance == 3 * MICROS_PER_DOLLAR


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "$0.00"),
        (10_000, "$0.01"),
        (12_500, "$0.0125"),
        (1_500_000, "$1.50"),
        (1_234_000_000, "$1,234.00"),
        (-1_500_000, "-$1.50"),
    ],
)
def test_dollars_are_formatted_for_people(amount: int, text: str) -> None:
    assert format_dollars(amount) == text


@given(st.integers(0, 10**15))
def test_formatted_dollars_are_exact(amount: int) -> None:
    dollars, _, decimals = format_dollars(amount)[1:].replace(",", "").partition(".")
    assert int(dollars) * MICROS_PER_DOLLAR + int(decimals.ljust(6, "0")) == amount


CALL_IDS = st.sampled_from("abcd")
AMOUNTS = st.integers(0, 100)
MONTHLY_BUDGET = 150
"""The budget is above any single amount and below the sum of two large ones."""


class Bookkeeping(RuleBasedStateMachine):
    """Pay into an account, hold, charge and wait in any order, and check its sums each time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.account = Account(user_id="anna", monthly_budget=MONTHLY_BUDGET)
        self.paid_in = 0
        self.charged = 0

    @rule(amount=AMOUNTS)
    def credit(self, amount: int) -> None:
        self.account = self.account.credit(amount, self.now)
        self.paid_in += amount

    @rule(amount=AMOUNTS)
    def withdraw(self, amount: int) -> None:
        try:
            self.account = self.account.credit(-amount, self.now)
        except InvalidInput:
            return
        self.paid_in -= amount

    @rule(call_id=CALL_IDS, amount=AMOUNTS)
    def reserve(self, call_id: str, amount: int) -> None:
        available_before = self.account.compute_available(self.now)
        renews_hold = call_id in self.account.held
        try:
            self.account = self.account.reserve(call_id, amount, self.now)
        except PaymentRequired:
            return
        assert renews_hold or available_before - amount == self.account.compute_available(self.now)

    @rule(call_id=CALL_IDS, cost=AMOUNTS)
    def settle(self, call_id: str, cost: int) -> None:
        previous_account = self.account
        hold = self.account.held.get(call_id)
        charge = min(cost, hold.amount) if hold else cost
        self.account = previous_account.settle(call_id, charge, self.now)
        charged = previous_account.balance - self.account.balance
        # A hold that has expired is not charged.
        assert charged in ({0, charge} if hold else {0})
        self.charged += charged

    @precondition(lambda self: self.account.held)
    @rule(call_id=CALL_IDS)
    def cancel(self, call_id: str) -> None:
        self.account = self.account.cancel(call_id, self.now)

    @rule(minutes=st.sampled_from([1, 30, 60, 60 * 24 * 31]))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @invariant()
    def money_is_conserved(self) -> None:
        assert self.account.balance + self.charged == self.paid_in

    @invariant()
    def nothing_is_negative(self) -> None:
        assert self.account.compute_available(self.now) >= 0
        assert self.account.balance >= 0

    @invariant()
    def no_month_costs_more_than_its_budget(self) -> None:
        assert self.account.spent <= MONTHLY_BUDGET

    @invariant()
    def every_hold_is_released_in_the_end(self) -> None:
        assert self.account.compute_available(self.now + HOLD_LIFETIME) == self.account.balance


def test_money_is_conserved_in_random_histories() -> None:
    settings = hypothesis_settings(max_examples=60, stateful_step_count=40)
    run_state_machine_as_test(Bookkeeping, settings=settings)
