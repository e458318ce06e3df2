"""Writes the tables of `docs/costs.md` and `docs/scale.md`: measured usage times published prices.

Usage: python -m benchmarks.costs.tables

Usage comes from `measured.json`, which `python -m benchmarks.costs.measure` writes. Prices come
from `prices.json`, functions and schedules from the declarations. Nothing else writes the tables,
and no test checks that they are current. Each page therefore says on which day they were computed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks.costs.prices import load_price_list
from benchmarks.costs.scale import format_table_row, render_scale_tables
from benchmarks.costs.usage import (
    CALLS_PER_DAY,
    GIB,
    NEW_CHUNKS_PER_DAY,
    DeploymentPlan,
    compute_index_reads,
    make_ingestion_bill,
    make_monthly_bill,
    make_plan,
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
    write_tables(COSTS, render_costs_tables(), today)
    write_tables(SCALE, render_scale_tables(), today)


def write_tables(page: Path, tables: Mapping[str, str], day: date) -> None:
    """Replace the tables of a page, and their date.

    A table is between the comments `<!-- name -->` and `<!-- /name -->`.

    Args:
        page: The page to change.
        tables: The tables in Markdown, by name.
        day: The day on which they were computed.

    Raises:
        ValueError: The page does not have exactly one section for each table.
    """
    text = page.read_text("utf-8")
    for name, table in {**tables, "computed": _write_origin_note(day)}.items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)"
        text, count = re.subn(pattern, table.replace("\\", r"\\"), text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{page} has {count} sections for the table {name!r} instead of one")
    page.write_text(text, "utf-8")


def _write_origin_note(day: date) -> str:
    """Return the sentences that say when, how and from what the tables were computed."""
    prices = load_price_list()
    measured_on = make_plan(SIZES[0]).measured.measured_on
    return (
        f"Computed on {day} by `python -m benchmarks.costs.tables`, from measurements on the"
        f" emulator of\n{measured_on} and prices of {prices.region} read on"
        f" {prices.read_on} (`benchmarks/costs`). Uncertain prices:\n"
        f"{', '.join(prices.uncertain_titles).lower()}.\n"
    )


def render_costs_tables() -> dict[str, str]:
    """Return the tables of `docs/costs.md`, in Markdown, by name."""
    plans = [make_plan(size) for size in SIZES]
    tables = {
        "month": _render_month_table(plans),
        "ingestion": _render_ingestion_table(plans),
        "remarks": [f"- {remark}" for remark in _write_remarks(plans)],
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def _render_month_table(plans: Sequence[DeploymentPlan]) -> list[str]:
    bills = [make_monthly_bill(plan) for plan in plans]
    bills_without_model = [make_monthly_bill(replace(plan, has_model=False)) for plan in plans]
    head = f"a month, {CALLS_PER_DAY} calls a day"
    amounts = [
        format_table_row(title, (_round(bill[title].amount) for bill in bills))
        for title in ("Firestore reads", "Firestore writes", "requests", "CPU", "memory")
    ]
    amounts.insert(
        1,
        format_table_row(
            "of which vector index entries",
            (_round(compute_index_reads(plan).month) for plan in plans),
        ),
    )
    stored = (f"{plan.measured.stored / GIB:.2f}" for plan in plans)
    tokens = (_round(bill["embedding"].amount) for bill in bills)
    charged_titles = [
        title
        for title in (row.title for row in bills[0].rows)
        if any(bill[title].cost >= _HALF_CENT for bill in bills)
    ]
    return [
        format_table_row(head, (f"{plan.chunks:,} chunks" for plan in plans)),
        format_table_row("---", ("---:" for _ in plans)),
        *(_replace_units(line) for line in amounts),
        format_table_row("GiB stored", stored),
        format_table_row("tokens embedded", tokens),
        *(
            format_table_row(f"{title}, $", (_format_cents(bill[title].cost) for bill in bills))
            for title in charged_titles
        ),
        format_table_row(
            "total without a language model, $",
            (_format_cents(bill.cost) for bill in bills_without_model),
        ),
        format_table_row("**total, $**", (f"**{_format_cents(bill.cost)}**" for bill in bills)),
        format_table_row(
            "total without free tiers, $", (_format_cents(bill.list_price) for bill in bills)
        ),
    ]


def _replace_units(line: str) -> str:
    """Replace the titles `CPU` and `memory`, as bills have them, by their units."""
    return line.replace("| CPU |", "| vCPU-seconds |").replace("| memory |", "| GiB-seconds |")


def _render_ingestion_table(plans: Sequence[DeploymentPlan]) -> list[str]:
    bills = [make_ingestion_bill(plan) for plan in plans]
    bills_without_model = [make_ingestion_bill(replace(plan, has_model=False)) for plan in plans]
    return [
        format_table_row("initial load", (f"{plan.chunks:,} chunks" for plan in plans)),
        format_table_row("---", ("---:" for _ in plans)),
        format_table_row(
            "Firestore writes",
            (_round(bill["Firestore writes"].amount) for bill in bills_without_model),
        ),
        format_table_row(
            "tokens embedded", (_round(bill["embedding"].amount) for bill in bills_without_model)
        ),
        format_table_row(
            "without a language model, $",
            (_format_cents(bill.cost) for bill in bills_without_model),
        ),
        format_table_row(
            "with a language model (cards, cluster names, extractions), $",
            (_format_cents(bill.cost) for bill in bills),
        ),
    ]


def _write_remarks(plans: Sequence[DeploymentPlan]) -> list[str]:
    """Return remarks on the costs and on how to reduce them."""
    prices = load_price_list()
    bill = make_monthly_bill(plans[0])
    largest_plan = plans[-1]
    largest_bill = make_monthly_bill(largest_plan)
    recovery_costs = [
        make_monthly_bill(plan).cost - make_monthly_bill(replace(plan, has_recovery=False)).cost
        for plan in plans
    ]
    most_frequent = max(
        (function for function in plans[0].functions if function.schedule),
        key=_count_runs_per_month,
    ).name
    bill_with_hourly_job = make_monthly_bill(_reschedule(plans[0], most_frequent, "0 * * * *"))
    saved_cpu = bill["CPU"].amount - bill_with_hourly_job["CPU"].amount
    bill_with_monthly_repair = make_monthly_bill(_reschedule(largest_plan, "repair", "42 3 1 * *"))
    bill_without_model = make_monthly_bill(replace(plans[0], has_model=False))
    return [
        (
            f"{bill['schedules'].amount:.0f} schedules cost ${bill['schedules'].cost:.2f}, however"
            " often they run. Three per billing account are free. Each schedule that you remove"
            " saves $0.10. Without a language model you can remove that of `extract`."
        ),
        (
            f"The totals include {NEW_CHUNKS_PER_DAY} new passages a day. For them, a language"
            f" model costs ${bill.cost - bill_without_model.cost:.2f}, and"
            " `GENERATION_PROVIDER=extractive` costs nothing."
        ),
        (
            "Firestore's free tier applies to the database created first. If that were `access`,"
            f" the totals would be {_join_dollars([_sum_free_tier_value(plan) for plan in plans])}"
            " higher."
        ),
        (
            "Point-in-time recovery doubles the price of storage, and none of it is free. It costs"
            f" {_join_dollars(recovery_costs)} of the totals above."
        ),
        (
            f"With {largest_plan.chunks:,} passages, running `repair` monthly instead of weekly"
            f" saves ${largest_bill.cost - bill_with_monthly_repair.cost:.2f}."
        ),
        (
            f"`{most_frequent}` runs most often. Running it hourly would save {_round(saved_cpu)}"
            f" of {_round(bill['CPU'].amount)} vCPU-seconds. They are free either way, unless"
            " other projects on the same billing account use up the free tier."
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


def _sum_free_tier_value(plan: DeploymentPlan) -> float:
    """Return the dollars that Firestore's free tier saves."""
    bill = make_monthly_bill(plan)
    rows = [bill[title] for title in ("Firestore reads", "Firestore writes", "storage")]
    return sum(row.list_price - row.cost for row in rows)


def _count_runs_per_month(job: Function) -> float:
    return parse_schedule(job.schedule).per_month


def _reschedule(plan: DeploymentPlan, name: str, schedule: str) -> DeploymentPlan:
    """Return a copy of the plan with another schedule for one job."""
    return replace(
        plan,
        functions=[
            replace(function, schedule=schedule) if function.name == name else function
            for function in plan.functions
        ],
    )


def _round(amount: float) -> str:
    """Format an amount as a whole number with at most three significant digits."""
    digits = max(0, len(f"{amount:.0f}") - 3)
    return f"{round(amount, -digits):,.0f}"


def _format_cents(dollars: float) -> str:
    return f"{dollars:,.2f}"


def _join_dollars(dollars: Sequence[float]) -> str:
    *first_amounts, last_amount = (f"${amount:.2f}" for amount in dollars)
    return f"{', '.join(first_amounts)} and {last_amount}"


if __name__ == "__main__":
    main()
