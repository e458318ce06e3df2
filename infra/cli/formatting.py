"""How commands write what they show: moments, amounts, tables."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import click

from infra.local.local_database import HIGHEST_PORT
from shared.accounts.account import DOLLAR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

PORT: Final = click.IntRange(1, HIGHEST_PORT)
_MOST_DOLLARS: Final = 1_000_000
"""What is more is a slip of the finger."""


def minute(moment: datetime | None) -> str:
    """A moment to the minute, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M") if moment else "never"


def micro_dollars(text: str) -> int:
    """The amount that a person wrote in dollars, such as 5 or 0.50; it may be negative.

    Raises:
        click.BadParameter: It is none, is finer than a micro-dollar, or is out of range.
    """
    try:
        amount = Decimal(text.removeprefix("$")) * DOLLAR
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise click.BadParameter(f"{text!r} is no amount. Write dollars, such as 5 or 0.50.")
    if abs(amount) > _MOST_DOLLARS * DOLLAR:
        raise click.BadParameter(f"{text!r} is more than {_MOST_DOLLARS:,} dollars.")
    return int(amount)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what stands in them."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))


def counted(number: int, thing: str) -> str:
    """So many things, in words."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
