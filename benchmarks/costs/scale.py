"""The load and costs of three usage scenarios: the tables of `docs/scale.md`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks.costs.prices import DAYS, price_list
from benchmarks.costs.usage import (
    BASE_IMAGE,
    BUILD_MINUTES,
    DAY,
    DEPLOYMENTS,
    GIB,
    HANDSHAKES,
    LOGGED,
    NEW_CHUNKS,
    SECRETS,
    STARTS_A_DAY,
    calls_of,
    index_reads,
    instances,
    monthly,
    plan_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.costs.measurements import CallWork
    from benchmarks.costs.prices import Bill
    from benchmarks.costs.usage import Plan

HOUR: Final = 60 * 60
RAMP: Final = 500
"""A collection may begin with this many operations per second, and grow by half every 5 minutes."""


@dataclass(frozen=True, slots=True)
class UsageScenario:
    """A usage scenario.

    Attributes:
        title: Who does.
        chunks: Passages in the base.
        calls_a_day: Calls of tools.
        peak: Calls a second in the busiest moment.
    """

    title: str
    chunks: int
    calls_a_day: float
    peak: float

    @property
    def plan(self) -> Plan:
        """The plan of the scenario, with functions as declared."""
        return plan_of(self.chunks, self.calls_a_day)


USES: Final = (
    UsageScenario("one person", 10_000, 100, 1),
    UsageScenario("a company of 1,000", 100_000, 20_000, 20_000 / 8 / HOUR * 5),
    UsageScenario("1,000 calls a second", 100_000, 1_000 * DAY, 1_000),
)
"""In the company, each person calls 20 times in 8 hours a day, at peak five times as often."""


def scale_tables() -> dict[str, str]:
    """Return the tables of `docs/scale.md` by name."""
    made = {"load": _load, "month": _month, "flat": _flat, "assumed": _assumed}
    return {name: "\n".join(make()) + "\n" for name, make in made.items()}


def _load() -> list[str]:
    """Return the table of peak load on each part."""
    return [
        _head("at peak"),
        *_rows(
            ("calls a second", lambda use: _short(use.peak)),
            ("instances of the gateway", lambda use: _short(math.ceil(_gateways(use)))),
            ("instances of `search_kb`", lambda use: _short(math.ceil(_searches(use)))),
            ("Firestore reads a second", lambda use: _short(_a_call(use).reads * use.peak)),
            ("Firestore writes a second", lambda use: _short(_a_call(use).written * use.peak)),
            (
                "writes a second in `access`, at most",
                lambda use: _short(use.plan.measured.gateway.writes * use.peak),
            ),
            ("minutes of the 500/50/5 ramp to get there", lambda use: _short(_ramp(use))),
            (
                "tokens to embed a minute, of 5,000,000",
                lambda use: _short(_a_call(use).embedded * use.peak * 60),
            ),
            (
                "texts to embed a minute, of 30,000",
                lambda use: _short(_embeds(use) * use.peak * 60),
            ),
        ),
    ]


def _month() -> list[str]:
    """The table of monthly costs."""
    bills = {use.title: monthly(use.plan) for use in USES}
    without = {use.title: monthly(replace(use.plan, entries=0.0)) for use in USES}
    least, most = price_list().vector_search_node

    def of(*titles: str) -> Callable[[UsageScenario], str]:
        return lambda use: _dollars(sum(bills[use.title][title].cost for title in titles))

    def other(use: UsageScenario) -> str:
        cost = without[use.title].cost
        return f"{_dollars(cost + least)} to {_dollars(cost + most)}"

    return [
        _head("a month, $"),
        *_rows(
            ("calls", lambda use: _short(use.calls_a_day * DAYS)),
            ("Firestore reads", of("Firestore reads", "reads in `access`")),
            ("of which entries of vector indexes", lambda use: _percent(_entries(use))),
            ("Firestore writes", of("Firestore writes", "writes in `access`")),
            ("storage, with point-in-time recovery", of("storage", "point-in-time recovery")),
            ("Cloud Run", of("requests", "processors", "memory")),
            ("embedding", of("embedding")),
            ("logs, and traffic of answers", of("logs", "answers")),
            ("everything else", lambda use: _dollars(_rest(bills[use.title]))),
            ("**total**", lambda use: f"**{_dollars(bills[use.title].cost)}**"),
            ("per 1,000 calls", lambda use: _per_thousand(use, bills[use.title])),
            ("with one small node of Vector Search instead", other),
        ),
    ]


def _flat() -> list[str]:
    """The table of costs of vector scans by size of the base."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    price = price_list().prices["firestore_reads"]
    least, most = price_list().vector_search_node

    def row(size: int) -> str:
        plan = plan_of(size, 1)
        entries = calls_of(plan).index_reads
        dollars = entries * price.amount / price.per
        calls = [node / dollars / DAYS for node in (least, most)]
        cells = (
            f"{size:,}",
            f"{math.ceil(size / 100):,}",
            f"{calls_of(plan).read:.0f}",
            f"{entries:,.0f}",
            f"{plan.measured.stored / GIB:,.1f}",
            f"{_short(calls[0])} to {_short(calls[1])}",
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


def _assumed() -> list[str]:
    """Return the list of assumptions."""
    mix = plan_of(USES[0].chunks).measured.calls
    return [
        f"- Of 100 calls: {'; '.join(f'{call.a_day} {call.name}' for call in mix)}.",
        (
            f"- {NEW_CHUNKS} new passages a day; {HANDSHAKES} more request for each call, to"
            " connect or to list tools."
        ),
        (
            f"- An instance lives for 15 minutes at most, so that a function starts up to"
            f" {STARTS_A_DAY} times a day; every run of a job starts one. A start takes the"
            " processor time of its imports, as measured here."
        ),
        (
            f"- {LOGGED:,} bytes of log a request, {SECRETS} secrets, {DEPLOYMENTS} deployments a"
            f" month of all functions with {BUILD_MINUTES} minutes of building each, and images"
            f" that share {BASE_IMAGE} GB."
        ),
        (
            "- Deletes cost as much as writes (they cost a ninth). Refreshing a sign-in each hour,"
            " and what the database `access` stores, are not counted."
        ),
    ]


def _a_call(use: UsageScenario) -> CallWork:
    """Return the mean usage of a call in the mix."""
    return calls_of(use.plan).times(1 / use.calls_a_day)


def _embeds(use: UsageScenario) -> float:
    """Return the share of calls that embed."""
    mix = use.plan.measured
    return sum(call.a_day for call in mix.calls if call.work.embedded) / mix.mix


def _gateways(use: UsageScenario) -> float:
    measured = use.plan.measured
    waits = sum(call.work.seconds * call.a_day for call in measured.calls) / measured.mix
    own = measured.gateway
    at_once = _function(use, "gateway")
    return instances(use.peak, own.seconds + waits, own.processor, at_once)


def _searches(use: UsageScenario) -> float:
    measured = use.plan.measured
    searches = [call for call in measured.calls if call.tool == "search_kb"]
    share = sum(call.a_day for call in searches) / measured.mix
    seconds = sum(call.work.seconds * call.a_day for call in searches) / (share * measured.mix)
    processor = sum(call.work.processor * call.a_day for call in searches) / (share * measured.mix)
    return instances(use.peak * share, seconds, processor, _function(use, "search_kb"))


def _function(use: UsageScenario, name: str) -> int:
    return next(function.concurrency for function in use.plan.functions if function.name == name)


def _ramp(use: UsageScenario) -> float:
    """The minutes until the busiest collection can serve its load."""
    if use.peak <= RAMP:
        return 0.0
    return 5 * math.ceil(math.log(use.peak / RAMP, 1.5))


def _entries(use: UsageScenario) -> float:
    plan = use.plan
    return index_reads(plan).month / monthly(plan)["Firestore reads"].amount


def _rest(bill: Bill) -> float:
    named = {
        "Firestore reads",
        "reads in `access`",
        "Firestore writes",
        "writes in `access`",
        "storage",
        "point-in-time recovery",
        "requests",
        "processors",
        "memory",
        "embedding",
        "logs",
        "answers",
    }
    return sum(row.cost for row in bill.rows if row.title not in named)


def _per_thousand(use: UsageScenario, bill: Bill) -> str:
    return f"{1000 * bill.cost / (use.calls_a_day * DAYS):.2f}"


def table_row(title: str, cells: Iterable[str]) -> str:
    """Format a row of a Markdown table."""
    return f"| {' | '.join([title, *cells])} |"


def _head(title: str) -> str:
    rule = "|---|" + "---:|" * len(USES)
    return f"| {' | '.join([title, *(use.title for use in USES)])} |\n{rule}"


def _rows(*rows: tuple[str, Callable[[UsageScenario], str]]) -> Iterable[str]:
    return [table_row(title, [cell(use) for use in USES]) for title, cell in rows]


def _short(number: float) -> str:
    """Format a number with two significant digits."""
    if not number:
        return "0"
    digits = 1 - math.floor(math.log10(abs(number)))
    rounded = round(number, digits)
    return f"{rounded:,.{max(0, digits)}f}"


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"


def _percent(share: float) -> str:
    return f"{share:.0%}"
