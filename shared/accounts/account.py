"""A user's account: the balance, the month's spending, and which credentials are revoked.

Some tools have a price. Before such a call runs, its price is put on hold, which means that other
calls cannot spend this money. When the outcome of the call is known, the hold is settled (the cost
is charged) or cancelled. `shared.accounts.call_record` decides which.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput, PaymentRequired
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.caller import Role

MICROS_PER_DOLLAR: Final = 1_000_000
"""A dollar has this many micro-dollars, the unit of all amounts. A call can cost less than a
cent."""
HOLD_LIFETIME: Final = timedelta(hours=1)
"""Money stays on hold for this long if the outcome of a call never arrives. Calls take far less
time."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Money set aside for a call whose outcome is not known yet.

    Attributes:
        amount: The amount in micro-dollars.
        expires_at: When the money is released if the outcome is still unknown.
    """

    amount: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One user's account. Amounts are whole micro-dollars.

    Attributes:
        balance: The unspent money, including the money on hold.
        monthly_budget: The spending limit of a calendar month (UTC), or None for no limit.
        month: The month in which `spent` was spent, as YYYY-MM, or an empty string before the first
            call.
        spent: The cost of the calls in that month so far.
        held: The holds by call id. Expired holds do not count.
        revoked_before: Credentials that were created at or before this time are not valid. None if
            the user's credentials were never revoked all together.
        role: What the user may do to the knowledge base, or None for the deployment's default.
        ended_grants: The OAuth grants that were ended early (`shared.accounts.grant`): by grant
            id, when the last access token from the grant expires.
    """

    user_id: str
    balance: int = 0
    monthly_budget: int | None = None
    month: str = ""
    spent: int = 0
    held: Mapping[str, Hold] = field(default_factory=dict)
    revoked_before: datetime | None = None
    role: Role | None = None
    ended_grants: Mapping[str, datetime] = field(default_factory=dict)

    def accepts(self, created_at: datetime, grant_id: str | None = None) -> bool:
        """Return whether the account still accepts a credential.

        Args:
            grant_id: The id of the OAuth grant from which the credential comes, or None for an
                access key.
        """
        if self.revoked_before and created_at <= self.revoked_before:
            return False
        return grant_id not in self.ended_grants

    def compute_available(self, now: datetime) -> int:
        """Return the balance without the money on hold."""
        return self.balance - _sum_holds(self._roll_forward(now).held)

    def compute_budget_left(self, now: datetime) -> int | None:
        """Return this month's budget less spending and holds, at least 0, or None for no limit."""
        if self.monthly_budget is None:
            return None
        current = self._roll_forward(now)
        return max(0, self.monthly_budget - current.spent - _sum_holds(current.held))

    def reserve(self, call_id: str, amount: int, now: datetime) -> Account:
        """Set money aside for a call, or extend the call's hold.

        Raises:
            PaymentRequired: The balance or the month's budget does not cover the amount.
        """
        current = self._roll_forward(now)
        hold = current.held.get(call_id) or self._create_hold(amount, now)
        extended = replace(hold, expires_at=now + HOLD_LIFETIME)
        return replace(current, held={**current.held, call_id: extended})

    def settle(self, call_id: str, cost: int, now: datetime) -> Account:
        """Charge the cost of a call and release its hold. A call without a hold is not charged."""
        current = self._roll_forward(now)
        charge = cost if call_id in current.held else 0
        return replace(
            current.cancel(call_id, now),
            balance=current.balance - charge,
            spent=current.spent + charge,
        )

    def cancel(self, call_id: str, now: datetime) -> Account:
        """Release the hold of a call."""
        current = self._roll_forward(now)
        holds = {held_id: hold for held_id, hold in current.held.items() if held_id != call_id}
        return replace(current, held=holds)

    def credit(self, amount: int, now: datetime) -> Account:
        """Add an amount to the balance. A negative amount withdraws money that is not on hold.

        Raises:
            InvalidInput: The withdrawal exceeds the money that is not on hold.
        """
        current = self._roll_forward(now)
        balance = current.balance + amount
        on_hold = _sum_holds(current.held)
        if amount < 0 and balance < on_hold:
            raise InvalidInput(
                f"{format_dollars(-amount)} cannot be withdrawn: the balance of {self.user_id} is"
                f" {format_dollars(self.balance)}, of which {format_dollars(on_hold)} is on hold."
            )
        return replace(current, balance=balance)

    def _roll_forward(self, now: datetime) -> Account:
        """Return the account without expired holds, and with the spending of the current month."""
        holds = {call_id: hold for call_id, hold in self.held.items() if now < hold.expires_at}
        # A slightly slow clock must not bring back the previous month.
        month = max(self.month, f"{now.astimezone(UTC):%Y-%m}")
        spent = self.spent if month == self.month else 0
        return replace(self, held=holds, month=month, spent=spent)

    def _create_hold(self, amount: int, now: datetime) -> Hold:
        """Return a hold of the amount. `reserve` sets when it expires.

        Raises:
            PaymentRequired: The balance or the month's budget does not cover the amount.
        """
        available = self.compute_available(now)
        budget_left = self.compute_budget_left(now)
        if amount > available:
            raise PaymentRequired(
                f"This call may cost {format_dollars(amount)}, but only"
                f" {format_dollars(available)} of the balance is available. The operator of this"
                f" server can add to it: {carrel(f'accounts credit {self.user_id} AMOUNT')}",
                details={"price": amount, "available": available},
            )
        if budget_left is not None and amount > budget_left:
            raise PaymentRequired(
                f"This call may cost {format_dollars(amount)}, but only"
                f" {format_dollars(budget_left)} is left of this month's budget of"
                f" {format_dollars(self.monthly_budget or 0)}. Wait for the next month (UTC), or"
                " ask the operator of this server to raise it:"
                f" {carrel(f'accounts limit {self.user_id} AMOUNT')}",
                details={"price": amount, "budget_left": budget_left},
            )
        return Hold(amount, now)


def format_dollars(amount: int) -> str:
    """Format micro-dollars as dollars with at least two decimals, such as $0.000025."""
    whole, micros = divmod(abs(amount), MICROS_PER_DOLLAR)
    cents = f"{micros:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}${whole:,}.{cents}"


def _sum_holds(holds: Mapping[str, Hold]) -> int:
    return sum(hold.amount for hold in holds.values())
