"""Published prices, free allowances, and bills.

`prices.json` has the source of each price, the date of reading it, and whether it is certain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DAYS_PER_MONTH: Final = 365.25 / 12
"""The mean length of a month."""
_PRICES_FILE: Final = Path(__file__).with_name("prices.json")


@dataclass(frozen=True, slots=True)
class MonthlyAmount:
    """A monthly amount and its distribution over the days, which matters for daily allowances.

    Attributes:
        per_day: The amount on ordinary days.
        extra: How much more busy days have.
        extra_days: The number of busy days per month.
    """

    per_day: float
    extra: float = 0.0
    extra_days: float = 0.0

    @classmethod
    def of_month(cls, amount: float) -> MonthlyAmount:
        """Distribute an amount evenly over the month."""
        return cls(amount / DAYS_PER_MONTH)

    @property
    def month(self) -> float:
        """The total of the month."""
        return self.per_day * DAYS_PER_MONTH + self.extra * self.extra_days

    def beyond(self, free_per_day: float) -> float:
        """Return the part of the monthly amount that exceeds a daily allowance."""
        excess = max(0.0, self.per_day - free_per_day)
        excess_on_busy_days = max(0.0, self.per_day + self.extra - free_per_day)
        ordinary_days = DAYS_PER_MONTH - self.extra_days
        return excess * ordinary_days + excess_on_busy_days * self.extra_days


@dataclass(frozen=True, slots=True)
class Price:
    """A published price.

    Attributes:
        title: The name for people.
        amount: Dollars for `per` units.
        per: The number of units that `amount` buys.
        unit: The name of the unit.
        free: The free allowance, in units.
        every: The period of the free allowance: "day" or "month".
        source: The address of the page with the price.
        verified: Whether the page states the price without doubt.
        note: A remark.
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

    def compute_list_price(self, amount: MonthlyAmount) -> float:
        """Return the dollars without the free allowance."""
        return amount.month * self.amount / self.per

    def compute_charge(self, amount: MonthlyAmount) -> float:
        """Return the dollars after the free allowance."""
        if self.every == "month":
            charged = max(0.0, amount.month - self.free)
        else:
            charged = amount.beyond(self.free)
        return charged * self.amount / self.per


@dataclass(frozen=True, slots=True)
class PriceList:
    """All prices.

    Attributes:
        read_on: The date on which the prices were read.
        region: The region for which they are valid.
        prices: The prices by name.
        vector_search_node: The lowest and the highest published estimate for the smallest
            deployment of Vertex AI Vector Search, in dollars per month.
    """

    read_on: str
    region: str
    prices: Mapping[str, Price]
    vector_search_node: tuple[float, float]

    @property
    def uncertain_titles(self) -> list[str]:
        """The titles of uncertain prices."""
        return [price.title for price in self.prices.values() if not price.verified]


@cache
def load_price_list() -> PriceList:
    """Load the prices of `prices.json`."""
    content = json.loads(_PRICES_FILE.read_text("utf-8"))
    node = content["vector_search_node"]
    return PriceList(
        read_on=content["read"],
        region=content["region"],
        prices={name: _to_price(price) for name, price in content["prices"].items()},
        vector_search_node=(node["least"], node["most"]),
    )


def _to_price(fields: Mapping[str, Any]) -> Price:
    free = fields["free"] or {"amount": 0, "every": "month"}
    unchanged = {name: value for name, value in fields.items() if name != "free"}
    return Price(free=free["amount"], every=free["every"], **unchanged)


@dataclass(frozen=True, slots=True)
class Item:
    """A billable item.

    Attributes:
        title: The title of its row.
        price: The name of its price.
        amount: The units used.
        has_free: Whether the free allowance applies.
    """

    title: str
    price: str
    amount: MonthlyAmount
    has_free: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a bill.

    Attributes:
        title: The billed item.
        amount: The units per month.
        unit: The name of the unit.
        cost: The dollars after free allowances.
        list_price: The dollars without free allowances.
    """

    title: str
    amount: float
    unit: str
    cost: float
    list_price: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A monthly bill."""

    rows: Sequence[Row]

    @property
    def cost(self) -> float:
        """The dollars after free allowances."""
        return sum(row.cost for row in self.rows)

    @property
    def list_price(self) -> float:
        """The dollars without free allowances."""
        return sum(row.list_price for row in self.rows)

    def __getitem__(self, title: str) -> Row:
        """Return the row with this title."""
        return next(row for row in self.rows if row.title == title)


def make_bill(items: Iterable[Item]) -> Bill:
    """Price the items. Each free allowance may apply to one item only."""
    prices = load_price_list().prices
    rows = []
    for item in items:
        price = prices[item.price]
        list_price = price.compute_list_price(item.amount)
        cost = price.compute_charge(item.amount) if item.has_free else list_price
        rows.append(Row(item.title, item.amount.month, price.unit, cost, list_price))
    return Bill(rows)
