"""What a user has, may spend and has spent, and which of their credentials no longer hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput, PaymentRequired

if TYPE_CHECKING:
    from collections.abc import Mapping

DOLLAR: Final = 1_000_000
"""Micro-dollars."""
HOLD_LASTS: Final = timedelta(hours=1)
"""How long money is set aside for a call of which nothing is heard."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Money set aside for a call whose outcome is not known yet.

    Attributes:
        amount: In micro-dollars.
        expires_at: When it is given back if nothing was heard of the call.
    """

    amount: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One user's account. Amounts are whole micro-dollars.

    Attributes:
        user_id: Whose.
        balance: What they paid in and have not spent; what is held is part of it.
        monthly_budget: The most that a calendar month (UTC) may cost; None for no limit.
        month: The month that `spent` speaks of, as YYYY-MM.
        spent: What that month has cost.
        held: The holds, by call id; those that expired count no more.
        revoked_before: Credentials made before this moment no longer hold.
        ended_grants: Sign-ins that were revoked, and until when their access tokens could live.
    """

    user_id: str
    balance: int = 0
    monthly_budget: int | None = None
    month: str = ""
    spent: int = 0
    held: Mapping[str, Hold] = field(default_factory=dict)
    revoked_before: datetime | None = None
    ended_grants: Mapping[str, datetime] = field(default_factory=dict)

    def accepts(self, made_at: datetime, grant_id: str | None = None) -> bool:
        """Whether a credential made at that moment, for that sign-in, still holds."""
        if self.revoked_before and made_at <= self.revoked_before:
            return False
        return grant_id not in self.ended_grants

    def available(self, now: datetime) -> int:
        """What is neither spent nor held."""
        return self.balance - _total(self._at(now).held)

    def budget_left(self, now: datetime) -> int | None:
        """What this month may still cost, beside what is held; None for no limit."""
        if self.monthly_budget is None:
            return None
        current = self._at(now)
        return max(0, self.monthly_budget - current.spent - _total(current.held))

    def reserve(self, call_id: str, amount: int, now: datetime) -> Account:
        """Hold money for a call; one that holds some already keeps that, for longer.

        Raises:
            PaymentRequired: The balance or the month's budget does not cover it.
        """
        current = self._at(now)
        hold = current.held.get(call_id) or self._covered(amount, now)
        extended = replace(hold, expires_at=now + HOLD_LASTS)
        return replace(current, held={**current.held, call_id: extended})

    def settle(self, call_id: str, cost: int, now: datetime) -> Account:
        """Charge a call what it has cost, which its hold covers: nothing where that has expired."""
        current = self._at(now)
        charge = cost if call_id in current.held else 0
        return replace(
            current.cancel(call_id, now),
            balance=current.balance - charge,
            spent=current.spent + charge,
        )

    def cancel(self, call_id: str, now: datetime) -> Account:
        """Give back what a call holds."""
        current = self._at(now)
        return replace(current, held=_without(current.held, call_id))

    def credit(self, amount: int, now: datetime) -> Account:
        """Add to the balance, or take back by a negative amount what is not held.

        Raises:
            InvalidInput: That is more than can be taken back.
        """
        current = self._at(now)
        left, held = current.balance + amount, _total(current.held)
        if amount < 0 and left < held:
            raise InvalidInput(
                f"{dollars(-amount)} cannot be taken back: the balance of {self.user_id} is"
                f" {dollars(self.balance)}, of which {dollars(held)} are held."
            )
        return replace(current, balance=left)

    def _at(self, now: datetime) -> Account:
        """The account as it stands at that moment: expired holds given back, the month begun."""
        held = {call_id: hold for call_id, hold in self.held.items() if now < hold.expires_at}
        # A clock that is late by a moment must not bring back a month that is over.
        month = max(self.month, f"{now.astimezone(UTC):%Y-%m}")
        spent = self.spent if month == self.month else 0
        return replace(self, held=held, month=month, spent=spent)

    def _covered(self, amount: int, now: datetime) -> Hold:
        available, budget_left = self.available(now), self.budget_left(now)
        if amount > available:
            raise PaymentRequired(
                f"This call may cost {dollars(amount)}, and {dollars(available)} of the balance"
                " are free. Whoever runs this server can add to it:"
                f" carrel accounts credit {self.user_id} AMOUNT",
                details={"price": amount, "available": available},
            )
        if budget_left is not None and amount > budget_left:
            raise PaymentRequired(
                f"This call may cost {dollars(amount)}, and {dollars(budget_left)} of this month's"
                f" budget of {dollars(self.monthly_budget or 0)} are free. Wait for the next month"
                " (UTC); or whoever runs this server can raise it:"
                f" carrel accounts limit {self.user_id} AMOUNT",
                details={"price": amount, "budget_left": budget_left},
            )
        return Hold(amount, now)


def dollars(amount: int) -> str:
    """Micro-dollars as people write them: $1.50, and $0.000025 where cents do not say it all."""
    whole, micros = divmod(abs(amount), DOLLAR)
    cents = f"{micros:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}${whole:,}.{cents}"


def _total(held: Mapping[str, Hold]) -> int:
    return sum(hold.amount for hold in held.values())


def _without(held: Mapping[str, Hold], call_id: str) -> dict[str, Hold]:
    return {other: hold for other, hold in held.items() if other != call_id}
