"""The load and costs of three usage scenarios: the tables of `docs/scale.md`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks.costs.prices import DAYS_PER_MONTH, load_price_list
from benchmarks.costs.usage import (
    BASE_IMAGE_GB,
    BUILD_MINUTES_PER_FUNCTION,
    DEPLOYMENTS_PER_MONTH,
    GIB,
    HANDSHAKES_PER_CALL,
    LOG_BYTES_PER_REQUEST,
    NEW_CHUNKS_PER_DAY,
    SECONDS_PER_DAY,
    SECRET_COUNT,
    STARTS_PER_DAY,
    compute_daily_call_usage,
    compute_index_reads,
    estimate_instances,
    make_monthly_bill,
    make_plan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.costs.measurements import Usage
    from benchmarks.costs.prices import Bill
    from benchmarks.costs.usage import DeploymentPlan

SECONDS_PER_HOUR: Final = 60 * 60
RAMP_START: Final = 500
"""The operations per second with which traffic to a new collection may start.

Firestore's 500/50/5 rule: start with at most 500, and grow by at most 50 % every 5 minutes.
"""


@dataclass(frozen=True, slots=True)
class UsageScenario:
    """A usage scenario.

    Attributes:
        title: Who uses Carrel.
        chunks: Passages in the knowledge base.
        calls_per_day: Tool calls per day.
        peak: Tool calls per second at the busiest moment.
    """

    title: str
    chunks: int
    calls_per_day: float
    peak: float

    @property
    def plan(self) -> DeploymentPlan:
        """The deployment of the scenario, with the declared functions."""
        return make_plan(self.chunks, self.calls_per_day)


SCENARIOS: Final = (
    UsageScenario("one person", 10_000, 100, 1),
    UsageScenario("a company of 1,000", 100_000, 20_000, 20_000 / 8 / SECONDS_PER_HOUR * 5),
    UsageScenario("1,000 calls a second", 100_000, 1_000 * SECONDS_PER_DAY, 1_000),
)
"""The scenarios. In the company, each person makes 20 calls in 8 hours, and the peak is five times
the mean."""


def render_scale_tables() -> dict[str, str]:
    """Return the tables of `docs/scale.md` by name."""
    builders = {
        "load": _load_table,
        "month": _render_month_table,
        "flat": _render_vector_scan_table,
        "assumed": _list_assumptions,
    }
    return {name: "\n".join(build()) + "\n" for name, build in builders.items()}


def _load_table() -> list[str]:
    """Return the table of peak load on each part."""
    return [
        _render_table_head("at peak"),
        *_render_table_rows(
            ("calls a second", lambda scenario: _format_two_digits(scenario.peak)),
            (
                "instances of the gateway",
                lambda scenario: _format_two_digits(
                    math.ceil(_estimate_gateway_instances(scenario))
                ),
            ),
            (
                "instances of `search_kb`",
                lambda scenario: _format_two_digits(
                    math.ceil(_estimate_search_instances(scenario))
                ),
            ),
            (
                "Firestore reads a second",
                lambda scenario: _format_two_digits(
                    _compute_mean_call(scenario).reads * scenario.peak
                ),
            ),
            (
                "Firestore writes a second",
                lambda scenario: _format_two_digits(
                    _compute_mean_call(scenario).written * scenario.peak
                ),
            ),
            (
                "writes a second in `access`, at most",
                lambda scenario: _format_two_digits(
                    scenario.plan.measured.gateway.writes * scenario.peak
                ),
            ),
            (
                "minutes of the 500/50/5 ramp to get there",
                lambda scenario: _format_two_digits(_compute_ramp_minutes(scenario)),
            ),
            (
                "tokens to embed a minute, of 5,000,000",
                lambda scenario: _format_two_digits(
                    _compute_mean_call(scenario).embedded * scenario.peak * 60
                ),
            ),
            (
                "texts to embed a minute, of 30,000",
                lambda scenario: _format_two_digits(
                    _compute_embedding_share(scenario) * scenario.peak * 60
                ),
            ),
        ),
    ]


def _render_month_table() -> list[str]:
    """Return the table of monthly costs."""
    bills = {scenario.title: make_monthly_bill(scenario.plan) for scenario in SCENARIOS}
    without_index_reads = {
        scenario.title: make_monthly_bill(replace(scenario.plan, index_read_share=0.0))
        for scenario in SCENARIOS
    }
    lowest, highest = load_price_list().vector_search_node

    def sum_costs(*titles: str) -> Callable[[UsageScenario], str]:
        return lambda scenario: _format_dollars(
            sum(bills[scenario.title][title].cost for title in titles)
        )

    def with_vector_search(scenario: UsageScenario) -> str:
        cost = without_index_reads[scenario.title].cost
        return f"{_format_dollars(cost + lowest)} to {_format_dollars(cost + highest)}"

    return [
        _render_table_head("a month, $"),
        *_render_table_rows(
            ("calls", lambda scenario: _format_two_digits(scenario.calls_per_day * DAYS_PER_MONTH)),
            ("Firestore reads", sum_costs("Firestore reads", "reads in `access`")),
            (
                "of which entries of vector indexes",
                lambda scenario: _format_percent(_compute_index_read_share(scenario)),
            ),
            ("Firestore writes", sum_costs("Firestore writes", "writes in `access`")),
            (
                "storage, with point-in-time recovery",
                sum_costs("storage", "point-in-time recovery"),
            ),
            ("Cloud Run", sum_costs("requests", "CPU", "memory")),
            ("embedding", sum_costs("embedding")),
            ("logs, and traffic of answers", sum_costs("logs", "answers")),
            (
                "everything else",
                lambda scenario: _format_dollars(_sum_remaining_cost(bills[scenario.title])),
            ),
            ("**total**", lambda scenario: f"**{_format_dollars(bills[scenario.title].cost)}**"),
            (
                "per 1,000 calls",
                lambda scenario: _format_per_thousand(scenario, bills[scenario.title]),
            ),
            ("with one small node of Vector Search instead", with_vector_search),
        ),
    ]


def _render_vector_scan_table() -> list[str]:
    """Return the table of the costs of vector scans by size of the knowledge base."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    price = load_price_list().prices["firestore_reads"]
    lowest, highest = load_price_list().vector_search_node

    def row(size: int) -> str:
        plan = make_plan(size, 1)
        entries = compute_daily_call_usage(plan).index_reads
        dollars = entries * price.amount / price.per
        calls = [node / dollars / DAYS_PER_MONTH for node in (lowest, highest)]
        cells = (
            f"{size:,}",
            f"{math.ceil(size / 100):,}",
            f"{compute_daily_call_usage(plan).read:.0f}",
            f"{entries:,.0f}",
            f"{plan.measured.stored / GIB:,.1f}",
            f"{_format_two_digits(calls[0])} to {_format_two_digits(calls[1])}",
        )
        return f"| {' | '.join(cells)} |"

    titles = (
        "chunks",
        "reads for the scan of a search without a filter",
        "documents read by an average call",
        "reads for index entries by an average call",
        "GiB stored",
        "calls a day from which a node is cheaper",
    )
    return [f"| {' | '.join(titles)} |", "|" + "---:|" * len(titles), *map(row, sizes)]


def _list_assumptions() -> list[str]:
    """Return the list of assumptions."""
    mix = make_plan(SCENARIOS[0].chunks).measured.calls
    return [
        f"- Of 100 calls: {'; '.join(f'{call.per_day} {call.name}' for call in mix)}.",
        (
            f"- {NEW_CHUNKS_PER_DAY} new passages a day; {HANDSHAKES_PER_CALL} more request for"
            " each call, to connect or to list tools."
        ),
        (
            f"- An instance lives for 15 minutes at most, so that a function starts up to"
            f" {STARTS_PER_DAY} times a day; every run of a job starts one. A start takes the"
            " CPU time of its imports, as measured here."
        ),
        (
            f"- {LOG_BYTES_PER_REQUEST:,} bytes of log a request, {SECRET_COUNT} secrets,"
            f" {DEPLOYMENTS_PER_MONTH} deployments a month of all functions with"
            f" {BUILD_MINUTES_PER_FUNCTION} minutes of building each, and images"
            f" that share {BASE_IMAGE_GB} GB."
        ),
        (
            "- Deletes cost as much as writes (they cost a ninth). Refreshing a sign-in each hour,"
            " and what the database `access` stores, are not counted."
        ),
    ]


def _compute_mean_call(scenario: UsageScenario) -> Usage:
    """Return the mean usage of a call in the mix."""
    return compute_daily_call_usage(scenario.plan).multiply(1 / scenario.calls_per_day)


def _compute_embedding_share(scenario: UsageScenario) -> float:
    """Return the share of calls that embed."""
    mix = scenario.plan.measured
    return sum(call.per_day for call in mix.calls if call.usage.embedded) / mix.calls_in_mix


def _estimate_gateway_instances(scenario: UsageScenario) -> float:
    measured = scenario.plan.measured
    tool_seconds = (
        sum(call.usage.seconds * call.per_day for call in measured.calls) / measured.calls_in_mix
    )
    gateway = measured.gateway
    concurrency = _get_concurrency(scenario, "gateway")
    return estimate_instances(
        scenario.peak, gateway.seconds + tool_seconds, gateway.cpu_seconds, concurrency
    )


def _estimate_search_instances(scenario: UsageScenario) -> float:
    measured = scenario.plan.measured
    searches = [call for call in measured.calls if call.tool == "search_kb"]
    count = sum(call.per_day for call in searches)
    seconds = sum(call.usage.seconds * call.per_day for call in searches) / count
    cpu_seconds = sum(call.usage.cpu_seconds * call.per_day for call in searches) / count
    searches_per_second = scenario.peak * count / measured.calls_in_mix
    concurrency = _get_concurrency(scenario, "search_kb")
    return estimate_instances(searches_per_second, seconds, cpu_seconds, concurrency)


def _get_concurrency(scenario: UsageScenario, name: str) -> int:
    return next(
        function.concurrency for function in scenario.plan.functions if function.name == name
    )


def _compute_ramp_minutes(scenario: UsageScenario) -> float:
    """Return the minutes until traffic to the busiest collection may reach the peak."""
    if scenario.peak <= RAMP_START:
        return 0.0
    return 5 * math.ceil(math.log(scenario.peak / RAMP_START, 1.5))


def _compute_index_read_share(scenario: UsageScenario) -> float:
    plan = scenario.plan
    return compute_index_reads(plan).month / make_monthly_bill(plan)["Firestore reads"].amount


def _sum_remaining_cost(bill: Bill) -> float:
    listed_titles = {
        "Firestore reads",
        "reads in `access`",
        "Firestore writes",
        "writes in `access`",
        "storage",
        "point-in-time recovery",
        "requests",
        "CPU",
        "memory",
        "embedding",
        "logs",
        "answers",
    }
    return sum(row.cost for row in bill.rows if row.title not in listed_titles)


def _format_per_thousand(scenario: UsageScenario, bill: Bill) -> str:
    return f"{1000 * bill.cost / (scenario.calls_per_day * DAYS_PER_MONTH):.2f}"


def format_table_row(title: str, cells: Iterable[str]) -> str:
    """Format a row of a Markdown table."""
    return f"| {' | '.join([title, *cells])} |"


def _render_table_head(title: str) -> str:
    rule = "|---|" + "---:|" * len(SCENARIOS)
    return f"| {' | '.join([title, *(scenario.title for scenario in SCENARIOS)])} |\n{rule}"


def _render_table_rows(*rows: tuple[str, Callable[[UsageScenario], str]]) -> Iterable[str]:
    return [
        format_table_row(title, [cell(scenario) for scenario in SCENARIOS]) for title, cell in rows
    ]


def _format_two_digits(number: float) -> str:
    """Format a number with two significant digits."""
    if not number:
        return "0"
    digits = 1 - math.floor(math.log10(abs(number)))
    rounded = round(number, digits)
    return f"{rounded:,.{max(0, digits)}f}"


def _format_dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"


def _format_percent(share: float) -> str:
    return f"{share:.0%}"
