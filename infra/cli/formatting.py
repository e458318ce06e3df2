"""Formats times, counts and tables for the terminal, and parses amounts of money."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import click

from shared.accounts.account import MICROS_PER_DOLLAR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class _IpAddress(click.ParamType[str]):
    """The type of an option with an IP address."""

    name = "address"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address in its usual form."""
        try:
            return str(ip_address(value.strip("[]")))
        except ValueError:
            self.fail(f"{value} is not an IP address, such as 0.0.0.0 for all.", param, ctx)


MAX_PORT: Final = 65_535
IP_ADDRESS: Final = _IpAddress()
PORT: Final = click.IntRange(1, MAX_PORT)
"""The type of an option with the number of a port."""
_MAX_DOLLARS: Final = 1_000_000
"""A larger amount is rejected as a typing error."""


def format_minute(moment: datetime | None) -> str:
    """Format a time in UTC to the minute, or None as `never`."""
    return moment.strftime("%Y-%m-%d %H:%M") if moment else "never"


def parse_micro_dollars(text: str) -> int:
    """Parse an amount in dollars, such as 5, $0.50 or -1, and return it in micro-dollars.

    Raises:
        click.BadParameter: The amount is not a number, is too large, or has a fraction of a
            micro-dollar.
    """
    try:
        amount = Decimal(text.removeprefix("$")) * MICROS_PER_DOLLAR
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise click.BadParameter(f"{text!r} is not an amount. Write dollars, such as 5 or 0.50.")
    if abs(amount) > _MAX_DOLLARS * MICROS_PER_DOLLAR:
        raise click.BadParameter(f"{text!r} is more than {_MAX_DOLLARS:,} dollars.")
    return int(amount)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns below a header."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows))
