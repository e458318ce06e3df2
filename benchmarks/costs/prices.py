"""Published prices, the costs of amounts beyond free allowances, and bills.

`prices.json` says of each price where it was read, when, and whether that is certain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DAYS: Final = 365.25 / 12
"""A month has this many days."""
_FILE: Final = Path(__file__).with_name("prices.json")


@dataclass(frozen=True, slots=True)
class Amount:
    """A monthly amount, and its distribution over the days.

    Attributes:
        every_day: What each day takes.
        more: What some days take beside that.
        days: How many these are.
    """

    every_day: float
    more: float = 0.0
    days: float = 0.0

    @classmethod
    def of_month(cls, amount: float) -> Amount:
        """Return an amount that is the same each day, or whose distribution does not matter."""
        return cls(amount / DAYS)

    @property
    def month(self) -> float:
        """The total of the month."""
        return self.every_day * DAYS + self.more * self.days

    def beyond(self, free_a_day: float) -> float:
        """Return the total above a daily allowance."""
        ordinary = max(0.0, self.every_day - free_a_day) * (DAYS - self.days)
        return ordinary + max(0.0, self.every_day + self.more - free_a_day) * self.days


@dataclass(frozen=True, slots=True)
class Price:
    """A price.

    Attributes:
        title: What people call it.
        amount: Dollars for so many units as `per` says.
        per: How many units.
        unit: Of what.
        free: Units that cost nothing.
        every: How long these are for: "day" or "month".
        source: The page that says so.
        verified: Whether it does, without doubt.
        note: What else to know.
    """

    title: str
    amount: float
    per: float
    unit: str
    free: float
    every: str
    source: str
    verified: bool
    note: str

    def list_price(self, amount: Amount) -> float:
        """Dollars without free allowances."""
        return amount.month * self.amount / self.per

    def charge(self, amount: Amount) -> float:
        """Dollars beyond the free allowance."""
        monthly = self.every == "month"
        beyond = max(0.0, amount.month - self.free) if monthly else amount.beyond(self.free)
        return beyond * self.amount / self.per


@dataclass(frozen=True, slots=True)
class PriceList:
    """All prices.

    Attributes:
        read: The date on which it was looked up.
        region: Where these prices hold.
        prices: By name.
        vector_search_node: The least and the most that others say of the smallest deployment of
            Vertex AI Vector Search, in dollars a month.
    """

    read: str
    region: str
    prices: Mapping[str, Price]
    vector_search_node: tuple[float, float]

    @property
    def doubtful(self) -> list[str]:
        """The titles of uncertain prices."""
        return [price.title for price in self.prices.values() if not price.verified]


@cache
def price_list() -> PriceList:
    """Load the prices of `prices.json`."""
    content = json.loads(_FILE.read_text("utf-8"))
    node = content["vector_search_node"]
    return PriceList(
        read=content["read"],
        region=content["region"],
        prices={name: _price(price) for name, price in content["prices"].items()},
        vector_search_node=(node["least"], node["most"]),
    )


def _price(fields: Mapping[str, Any]) -> Price:
    free = fields["free"] or {"amount": 0, "every": "month"}
    plain = {name: value for name, value in fields.items() if name != "free"}
    return Price(free=free["amount"], every=free["every"], **plain)


@dataclass(frozen=True, slots=True)
class Item:
    """A billable item.

    Attributes:
        title: What it is.
        price: The name of its price.
        amount: How much of it.
        has_free: Whether the free allowance is for it.
    """

    title: str
    price: str
    amount: Amount
    has_free: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a bill.

    Attributes:
        title: What it is for.
        amount: How much of it a month takes.
        unit: Of what.
        cost: Dollars, with what is free.
        list_price: Dollars, as if nothing were.
    """

    title: str
    amount: float
    unit: str
    cost: float
    list_price: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill with its rows."""

    rows: Sequence[Row]

    @property
    def cost(self) -> float:
        """Dollars after free allowances."""
        return sum(row.cost for row in self.rows)

    @property
    def list_price(self) -> float:
        """Dollars without free allowances."""
        return sum(row.list_price for row in self.rows)

    def __getitem__(self, title: str) -> Row:
        """The row with this title."""
        return next(row for row in self.rows if row.title == title)


def bill_of(items: Iterable[Item]) -> Bill:
    """Return the bill of these items. A free allowance counts once."""
    prices = price_list().prices
    rows = []
    for item in items:
        price = prices[item.price]
        charged = (price.charge if item.has_free else price.list_price)(item.amount)
        whole = price.list_price(item.amount)
        rows.append(Row(item.title, item.amount.month, price.unit, charged, whole))
    return Bill(rows)
