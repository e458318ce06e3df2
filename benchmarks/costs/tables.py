"""Writes the tables of `docs/costs.md` and `docs/scale.md`: measured usage times published prices.

Usage: python -m benchmarks.costs.tables

Usage comes from `measured.json`, which `python -m benchmarks.costs.measure` writes. Prices come
from `prices.json`, functions and schedules from the declarations. Only this module writes them.
No test compares them with the code, so each page names the day on which they were computed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks.costs.prices import price_list
from benchmarks.costs.scale import scale_tables, table_row
from benchmarks.costs.usage import (
    CALLS_PER_DAY,
    GIB,
    NEW_CHUNKS_PER_DAY,
    DeploymentPlan,
    first_ingestion,
    index_reads,
    make_plan,
    monthly,
    parse_schedule,
)
from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from infra.build.functions import Function

COSTS: Final = ROOT / "docs" / "costs.md"
SCALE: Final = ROOT / "docs" / "scale.md"
SIZES: Final = (1_000, 10_000, 100_000)
_ALERT_POLICY: Final = re.compile(r"^ {4}\w+ = \{\n {6}title = ", re.MULTILINE)
_HALF_CENT: Final = 0.005


def main() -> None:
    """Write the tables into both pages, with today's date."""
    today = datetime.now(UTC).date()
    write(COSTS, costs_tables(), today)
    write(SCALE, scale_tables(), today)


def write(page: Path, tables: Mapping[str, str], computed: date) -> None:
    """Replace the tables of a page and their date. Comments with a table's name enclose it.

    Raises:
        ValueError: The page does not have exactly one section for each table.
    """
    text = page.read_text("utf-8")
    for name, table in {**tables, "computed": _computed(computed)}.items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)"
        text, count = re.subn(pattern, table.replace("\\", r"\\"), text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{page} has {count} sections for the table {name!r} instead of one")
    page.write_text(text, "utf-8")


def _computed(day: date) -> str:
    prices = price_list()
    return (
        f"Computed on {day} by `python -m benchmarks.costs.tables`, from measurements on the"
        f" emulator of\n{make_plan(SIZES[0]).measured.on} and prices of {prices.region} read on"
        f" {prices.read} (`benchmarks/costs`). Uncertain prices:\n"
        f"{', '.join(prices.uncertain).lower()}.\n"
    )


def costs_tables() -> dict[str, str]:
    """Return the tables of `docs/costs.md`, in Markdown, by name."""
    plans = [make_plan(size) for size in SIZES]
    tables = {
        "month": _month_table(plans),
        "ingestion": _ingestion_table(plans),
        "remarks": [f"- {remark}" for remark in _remarks(plans)],
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def _month_table(plans: Sequence[DeploymentPlan]) -> list[str]:
    bills = [monthly(plan) for plan in plans]
    without_model = [monthly(replace(plan, model=False)) for plan in plans]
    head = f"a month, {CALLS_PER_DAY} calls a day"
    amounts = [
        table_row(title, (_number(bill[title].amount) for bill in bills))
        for title in ("Firestore reads", "Firestore writes", "requests", "CPU", "memory")
    ]
    amounts.insert(
        1,
        table_row(
            "of which entries of vector indexes",
            (_number(index_reads(plan).month) for plan in plans),
        ),
    )
    stored = (f"{plan.measured.stored / GIB:.2f}" for plan in plans)
    tokens = (_number(bill["embedding"].amount) for bill in bills)
    charged_titles = [
        title
        for title in (row.title for row in bills[0].rows)
        if any(bill[title].cost >= _HALF_CENT for bill in bills)
    ]
    return [
        table_row(head, (f"{plan.chunks:,} chunks" for plan in plans)),
        table_row("---", ("---:" for _ in plans)),
        *(_with_units(line) for line in amounts),
        table_row("GiB stored", stored),
        table_row("tokens embedded", tokens),
        *(
            table_row(f"{title}, $", (_cents(bill[title].cost) for bill in bills))
            for title in charged_titles
        ),
        table_row(
            "total without a language model, $", (_cents(bill.cost) for bill in without_model)
        ),
        table_row("**total, $**", (f"**{_cents(bill.cost)}**" for bill in bills)),
        table_row("if nothing were free, $", (_cents(bill.list_price) for bill in bills)),
    ]


def _with_units(line: str) -> str:
    """Replace the titles of Cloud Run's rows by their units."""
    return line.replace("| CPU |", "| vCPU-seconds |").replace("| memory |", "| GiB-seconds |")


def _ingestion_table(plans: Sequence[DeploymentPlan]) -> list[str]:
    without_model = [first_ingestion(replace(plan, model=False)) for plan in plans]
    with_model = [first_ingestion(plan) for plan in plans]
    return [
        table_row("filling the base, once", (f"{plan.chunks:,} chunks" for plan in plans)),
        table_row("---", ("---:" for _ in plans)),
        table_row(
            "Firestore writes", (_number(bill["Firestore writes"].amount) for bill in without_model)
        ),
        table_row("tokens embedded", (_number(bill["embedding"].amount) for bill in without_model)),
        table_row("without a language model, $", (_cents(bill.cost) for bill in without_model)),
        table_row(
            "with one: cards, cluster names, extractions, $",
            (_cents(bill.cost) for bill in with_model),
        ),
    ]


def _remarks(plans: Sequence[DeploymentPlan]) -> list[str]:
    """Return remarks on the costs and on how to reduce them."""
    prices, bill, largest = price_list(), monthly(plans[0]), plans[-1]
    recovery_costs = [
        monthly(plan).cost - monthly(replace(plan, recovery=False)).cost for plan in plans
    ]
    most_frequent = max(
        (function for function in plans[0].functions if function.schedule), key=_runs_per_month
    ).name
    hourly = monthly(_rescheduled(plans[0], most_frequent, "0 * * * *"))
    saved = bill["CPU"].amount - hourly["CPU"].amount
    monthly_repair = monthly(_rescheduled(largest, "repair", "42 3 1 * *"))
    weekly_health = monthly(_rescheduled(largest, "health", "57 4 * * 0"))
    without_model = monthly(replace(plans[0], model=False))
    return [
        (
            f"{bill['schedules'].amount:.0f} schedules cost ${bill['schedules'].cost:.2f}, however"
            " often they run; three per billing account are free. Each schedule that you remove"
            " saves $0.10: `extract` without a language model, `trust` without votes."
        ),
        (
            f"The totals include {NEW_CHUNKS_PER_DAY} new passages a day. A language model costs"
            f" ${bill.cost - without_model.cost:.2f} for them, `GENERATION_PROVIDER=extractive`"
            " nothing."
        ),
        (
            "Firestore's free tier applies to the database created first. If that were `access`,"
            f" the totals would be {_join_dollars([_free_tier_value(plan) for plan in plans])}"
            " higher."
        ),
        (
            "Point-in-time recovery doubles the price of storage, and none of it is free:"
            f" {_join_dollars(recovery_costs)} of the totals above."
        ),
        (
            f"With {largest.chunks:,} passages, `repair` once a month instead of once a week saves"
            f" ${monthly(largest).cost - monthly_repair.cost:.2f}, and `health` once a week instead"
            f" of each night ${monthly(largest).cost - weekly_health.cost:.2f}."
        ),
        (
            f"`{most_frequent}` runs most often. Once an hour, it would save {_number(saved)} of"
            f" {_number(bill['CPU'].amount)} vCPU-seconds. They are free either way, unless"
            " other projects of the billing account use them up."
        ),
        (
            f"Alerts (only with `alert_email`) may add ${prices.prices['alerting'].amount:.2f}"
            f" each, {_count_alerts()} of them. A gateway instance that always runs is not included"
            " either."
        ),
    ]


def _count_alerts() -> int:
    """Return the number of alert policies in the Terraform configuration."""
    return len(
        _ALERT_POLICY.findall((ROOT / "infra" / "terraform" / "monitoring.tf").read_text("utf-8"))
    )


def _free_tier_value(plan: DeploymentPlan) -> float:
    """Return the dollars that Firestore's free tier saves."""
    rows = [monthly(plan)[title] for title in ("Firestore reads", "Firestore writes", "storage")]
    return sum(row.list_price - row.cost for row in rows)


def _runs_per_month(job: Function) -> float:
    return parse_schedule(job.schedule).per_month


def _rescheduled(plan: DeploymentPlan, name: str, schedule: str) -> DeploymentPlan:
    """Return a copy of the plan with another schedule for one job."""
    return replace(
        plan,
        functions=[
            replace(function, schedule=schedule) if function.name == name else function
            for function in plan.functions
        ],
    )


def _number(amount: float) -> str:
    """Format a number with three significant digits."""
    digits = max(0, len(f"{amount:.0f}") - 3)
    return f"{round(amount, -digits):,.0f}"


def _cents(dollars: float) -> str:
    return f"{dollars:,.2f}"


def _join_dollars(dollars: Sequence[float]) -> str:
    *others, last = (f"${dollar:.2f}" for dollar in dollars)
    return f"{', '.join(others)} and {last}"


if __name__ == "__main__":
    main()
