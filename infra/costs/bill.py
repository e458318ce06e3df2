"""What Carrel costs in the cloud: measured documents per call, times published prices.

What was measured comes from `measured.json` (`benchmarks/costs.py`), prices from `prices.json`,
the number of functions and their schedules from the declarations. Nothing here asks anybody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from infra.build.discovery import ROOT
from infra.build.functions import functions
from infra.costs.measured import measured_at
from infra.costs.prices import price_list
from infra.costs.schedules import runs_of
from infra.costs.usage import GIB, NEW_CHUNKS, Plan, filling, index_reads, month

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infra.build.functions import Function
    from infra.costs.usage import Item

SIZES: Final = (1_000, 10_000, 100_000)
CALLS_A_DAY: Final = 100
_ALERT: Final = re.compile(r"^ {4}\w+ = \{\n {6}title = ", re.MULTILINE)
_CENT: Final = 0.005


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a bill.

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
    """What something costs, row by row."""

    rows: Sequence[Row]

    @property
    def cost(self) -> float:
        """Dollars, with what is free."""
        return sum(row.cost for row in self.rows)

    @property
    def list_price(self) -> float:
        """Dollars, as if nothing were free."""
        return sum(row.list_price for row in self.rows)

    def __getitem__(self, title: str) -> Row:
        """The row of this title."""
        return next(row for row in self.rows if row.title == title)


def plan_of(chunks: int, calls_a_day: float = CALLS_A_DAY, **more: Any) -> Plan:
    """Carrel as it is declared, with a base of so many passages and so many calls a day."""
    return Plan(
        functions=functions(),
        measured=measured_at(chunks),
        chunks=chunks,
        calls_a_day=calls_a_day,
        **more,
    )


def monthly(plan: Plan) -> Bill:
    """What a month costs."""
    return bill_of(month(plan))


def first_filling(plan: Plan) -> Bill:
    """What it costs once to bring all passages in."""
    return bill_of(filling(plan))


def bill_of(items: Iterable[Item]) -> Bill:
    """What these things cost; what is free of something counts once."""
    prices = price_list().prices
    rows = []
    for item in items:
        price = prices[item.price]
        charged = (price.charge if item.has_free else price.list_price)(item.amount)
        whole = price.list_price(item.amount)
        rows.append(Row(item.title, item.amount.month, price.unit, charged, whole))
    return Bill(rows)


def alerts() -> int:
    """How many alerts Terraform makes where somebody is to be told."""
    return len(_ALERT.findall((ROOT / "infra" / "terraform" / "monitoring.tf").read_text("utf-8")))


def costs_table() -> str:
    """The README's tables, and what is to be known of them, in Markdown."""
    plans = [plan_of(size) for size in SIZES]
    return "\n".join(
        [
            *_month_table(plans),
            "",
            *_filling_table(plans),
            "",
            *(f"- {line}" for line in _remarks(plans)),
            "",
        ]
    )


def _month_table(plans: Sequence[Plan]) -> list[str]:
    bills = [monthly(plan) for plan in plans]
    without = [monthly(replace(plan, model=False)) for plan in plans]
    head = f"a month, {CALLS_A_DAY} calls a day"
    amounts = [
        line(title, (_number(bill[title].amount) for bill in bills))
        for title in ("Firestore reads", "Firestore writes", "requests", "processors", "memory")
    ]
    amounts.insert(
        1,
        line(
            "of these, entries of vector indexes",
            (_number(index_reads(plan).month) for plan in plans),
        ),
    )
    stored = (f"{plan.measured.stored / GIB:.2f}" for plan in plans)
    tokens = (_number(bill["embedding"].amount) for bill in bills)
    costly = [
        title
        for title in (row.title for row in bills[0].rows)
        if any(bill[title].cost >= _CENT for bill in bills)
    ]
    return [
        line(head, (f"{plan.chunks:,} chunks" for plan in plans)),
        line("---", ("---:" for _ in plans)),
        *(_titled(line) for line in amounts),
        line("GiB stored", stored),
        line("tokens embedded", tokens),
        *(line(f"{title}, $", (_cents(bill[title].cost) for bill in bills)) for title in costly),
        line("together without a language model, $", (_cents(bill.cost) for bill in without)),
        line("**together, $**", (f"**{_cents(bill.cost)}**" for bill in bills)),
        line("if nothing were free, $", (_cents(bill.list_price) for bill in bills)),
    ]


def _titled(line: str) -> str:
    """A line of amounts with the units of what Cloud Run bills."""
    return line.replace("| processors |", "| vCPU-seconds |").replace(
        "| memory |", "| GiB-seconds |"
    )


def _filling_table(plans: Sequence[Plan]) -> list[str]:
    without = [first_filling(replace(plan, model=False)) for plan in plans]
    with_model = [first_filling(plan) for plan in plans]
    return [
        line("filling it, once", (f"{plan.chunks:,} chunks" for plan in plans)),
        line("---", ("---:" for _ in plans)),
        line("Firestore writes", (_number(bill["Firestore writes"].amount) for bill in without)),
        line("tokens embedded", (_number(bill["embedding"].amount) for bill in without)),
        line("without a language model, $", (_cents(bill.cost) for bill in without)),
        line(
            "with one: cards, names of topics, extractions, $",
            (_cents(bill.cost) for bill in with_model),
        ),
    ]


def _remarks(plans: Sequence[Plan]) -> list[str]:
    """Where the figures come from, and what would bring the sums down."""
    prices, bill, largest = price_list(), monthly(plans[0]), plans[-1]
    lean = [monthly(plan).cost - monthly(replace(plan, recovery=False)).cost for plan in plans]
    frequent = max((each for each in plans[0].functions if each.schedule), key=_runs).name
    hourly = monthly(_rescheduled(plans[0], frequent, "0 * * * *"))
    spared = bill["processors"].amount - hourly["processors"].amount
    monthly_repair = monthly(_rescheduled(largest, "repair", "42 3 1 * *"))
    weekly_health = monthly(_rescheduled(largest, "health", "57 4 * * 0"))
    lazy = monthly(replace(plans[0], model=False))
    return [
        (
            f"Measured on {plans[0].measured.on} on the emulator (`benchmarks/costs.py`), prices"
            f" of {prices.region} as read on {prices.read} (`infra/costs/prices.json`). Not"
            f" certain: {', '.join(prices.doubtful).lower()}."
        ),
        (
            f"{bill['schedules'].amount:.0f} schedules cost ${bill['schedules'].cost:.2f}, however"
            " often they run; three are free for all projects of a billing account. Each that is"
            " dropped saves $0.10: `extract` without a language model, `trust` where nobody votes."
        ),
        (
            f"The sums hold {NEW_CHUNKS} new passages a day, for which a language model takes"
            f" ${bill.cost - lazy.cost:.2f}, and nothing with `GENERATION_PROVIDER=extractive`."
        ),
        (
            "Firestore's free tier is for the database that is made first. Were that `access`, the"
            f" sums would be {_listed([_without_free(plan) for plan in plans])} more."
        ),
        (
            "Point-in-time recovery doubles what storage costs, and none of it is free:"
            f" {_listed(lean)} of the sums above."
        ),
        (
            f"With {largest.chunks:,} passages, `repair` once a month instead of once a week saves"
            f" ${monthly(largest).cost - monthly_repair.cost:.2f}, and `health` once a week instead"
            f" of each night ${monthly(largest).cost - weekly_health.cost:.2f}."
        ),
        (
            f"`{frequent}` runs most often; once an hour instead, it would take {_number(spared)}"
            f" of {_number(bill['processors'].amount)} vCPU-seconds less. They are free either way,"
            " unless other projects of the billing account use them up."
        ),
        (
            f"Alerts (only with `alert_email`) may add ${prices.prices['alerting'].amount:.2f}"
            f" each, {alerts()} of them. An instance of the gateway that always runs, and ends the"
            " wait of a first call, is not in the sums either."
        ),
    ]


def _without_free(plan: Plan) -> float:
    """Dollars that Firestore's free tier saves."""
    rows = [monthly(plan)[title] for title in ("Firestore reads", "Firestore writes", "storage")]
    return sum(row.list_price - row.cost for row in rows)


def _runs(job: Function) -> float:
    return runs_of(job.schedule).a_month


def _rescheduled(plan: Plan, name: str, schedule: str) -> Plan:
    """The same, but for the schedule of one job."""
    return replace(
        plan,
        functions=[
            replace(each, schedule=schedule) if each.name == name else each
            for each in plan.functions
        ],
    )


def line(title: str, cells: Iterable[str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join([title, *cells])} |"


def _number(amount: float) -> str:
    """A number with three digits that say something."""
    digits = max(0, len(f"{amount:.0f}") - 3)
    return f"{round(amount, -digits):,.0f}"


def _cents(dollars: float) -> str:
    return f"{dollars:,.2f}"


def _listed(dollars: Sequence[float]) -> str:
    *others, last = (f"${each:.2f}" for each in dollars)
    return f"{', '.join(others)} and {last}"
