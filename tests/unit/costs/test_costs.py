"""Monthly bills are computed from prices, measured usage and calls a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore_v1.vector import Vector

from benchmarks.costs.measurements import (
    CallFigures,
    GatewayUsage,
    Measurements,
    Usage,
    interpolate,
    load_measurements,
    pick_measured_value,
)
from benchmarks.costs.prices import (
    DAYS_PER_MONTH,
    Item,
    MonthlyAmount,
    Price,
    load_price_list,
    make_bill,
)
from benchmarks.costs.storage import (
    IndexRules,
    count_document_bytes,
    count_index_bytes,
    load_index_rules,
)
from benchmarks.costs.tables import write_tables
from benchmarks.costs.usage import (
    GIB,
    DeploymentPlan,
    compute_daily_call_usage,
    compute_index_reads,
    estimate_instances,
    make_ingestion_bill,
    make_monthly_bill,
    parse_schedule,
)
from infra.build.functions import Function

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE_TASK: Final[dict[str, Any]] = {
    "type": "Personal",
    "done": False,
    "priority": 1,
    "description": "Learn Cloud Firestore",
}
"""The document whose size Firestore's documentation computes as an example."""


def make_price(free: float = 0.0, period: str = "month", per: float = 1.0) -> Price:
    """Return a price of a dollar for a number of units, some of them free."""
    return Price(
        title="Sand",
        amount=1.0,
        per=per,
        unit="grain",
        free=free,
        every=period,
        source="https://example.com",
        verified=True,
        note="",
    )


def make_function(name: str, kind: Any, schedule: str = "") -> Function:
    """Return a function with a GiB of memory."""
    return Function(
        name=name,
        kind=kind,
        main="",
        databases={},
        memory=1024,
        concurrency=10,
        timeout=60,
        max_instances=10,
        schedule=schedule,
    )


@pytest.fixture
def plan() -> DeploymentPlan:
    """A plan with a gateway, a search tool, a write tool and a daily job.

    Of ten calls a day, nine search and one writes. All figures of usage are for one call or run.
    """
    search = CallFigures(
        name="search",
        tool="search",
        per_day=9,
        effect="read",
        usage=Usage(read=10, index_reads=2, seconds=0.15),
    )
    write = CallFigures(
        name="write",
        tool="write",
        per_day=1,
        effect="write",
        usage=Usage(read=1, written=3, seconds=0.05, embedded=7),
    )
    gateway = GatewayUsage(
        reads=2,
        writes=1,
        writes_of_a_write=1,
        seconds=0.01,
        cpu_seconds=0.005,
        answer_bytes=1000,
    )
    sweep = Usage(read=5, written=2, seconds=0.4)
    measurements = Measurements(
        measured_on="2026-01-01",
        calls=[search, write],
        gateway=gateway,
        idle={"sweep": sweep},
        ingestion={
            "sweep": Usage(read=100, written=300, seconds=5, embedded=1000, input_tokens=50)
        },
        stored=2 * GIB,
        start={"gateway": 1.0, "tool": 0.5, "job": 0.6},
        image={"gateway": 100, "tool": 50, "job": 50},
    )
    functions = [
        make_function("gateway", "gateway"),
        make_function("search", "tool"),
        make_function("write", "tool"),
        make_function("sweep", "job", "0 3 * * *"),
    ]
    return DeploymentPlan(
        functions=functions, measured=measurements, chunks=100, calls_per_day=10, new_chunks=0
    )


def test_a_daily_allowance_expires_each_day() -> None:
    price = make_price(free=10, period="day")
    steady_use = MonthlyAmount(per_day=10.0)
    use_on_one_day = MonthlyAmount(per_day=0.0, extra=10 * DAYS_PER_MONTH, extra_days=1)
    assert price.compute_charge(steady_use) == 0.0
    assert price.compute_charge(use_on_one_day) == pytest.approx(10 * DAYS_PER_MONTH - 10)


def test_a_monthly_allowance_may_be_used_on_one_day() -> None:
    price = make_price(free=10)
    ten_units = MonthlyAmount(per_day=0.0, extra=10, extra_days=1)
    twelve_units = MonthlyAmount(per_day=0.0, extra=12, extra_days=1)
    assert price.compute_charge(ten_units) == 0.0
    assert price.compute_charge(twelve_units) == pytest.approx(2.0)


def test_busy_days_are_charged_separately() -> None:
    amount = MonthlyAmount(per_day=8.0, extra=5.0, extra_days=4)
    assert amount.month == pytest.approx(8 * DAYS_PER_MONTH + 4 * 5)
    assert make_price(free=10, period="day").compute_charge(amount) == pytest.approx(4 * 3.0)


def test_prices_apply_to_bundles_of_units() -> None:
    assert make_price(per=100).compute_list_price(MonthlyAmount.of_month(2)) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("schedule", "per_day", "days"),
    [
        ("*/5 * * * *", 288, DAYS_PER_MONTH),
        ("5-59/15 * * * *", 96, DAYS_PER_MONTH),
        ("23 * * * *", 24, DAYS_PER_MONTH),
        ("17 4 * * *", 1, DAYS_PER_MONTH),
        ("42 3 * * 0", 1, DAYS_PER_MONTH / 7),
        ("0 6,18 1 * *", 2, DAYS_PER_MONTH / 31),
        ("", 0, 0.0),
    ],
)
def test_a_schedule_gives_the_number_of_runs(schedule: str, per_day: int, days: float) -> None:
    runs = parse_schedule(schedule)
    assert runs.per_day == per_day
    assert runs.days == pytest.approx(days)


@pytest.mark.parametrize("schedule", ["* * * *", "0 3 1 * 1"])
def test_an_unsupported_schedule_is_rejected(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"schedule|days"):
        parse_schedule(schedule)


def test_twice_the_calls_take_twice_the_reads(plan: DeploymentPlan) -> None:
    usual_bill = make_monthly_bill(plan)
    doubled_bill = make_monthly_bill(replace(plan, calls_per_day=20))
    reads_of_jobs = 5 * DAYS_PER_MONTH
    reads_of_calls = usual_bill["Firestore reads"].amount - reads_of_jobs

    assert doubled_bill["Firestore reads"].amount == pytest.approx(
        reads_of_jobs + 2 * reads_of_calls
    )
    assert doubled_bill["reads in `access`"].amount == pytest.approx(
        2 * usual_bill["reads in `access`"].amount
    )
    assert doubled_bill["schedules"] == usual_bill["schedules"]


def test_a_day_of_calls_is_the_usual_mix(plan: DeploymentPlan) -> None:
    usage = compute_daily_call_usage(plan)
    searches, writes = 9, 1
    assert usage.read == searches * 10 + writes * 1
    assert usage.index_reads == searches * 2
    assert usage.written == writes * 3
    assert usage.embedded == writes * 7


def test_vector_index_entries_count_as_reads_in_firestore(plan: DeploymentPlan) -> None:
    bill = make_monthly_bill(plan)
    bill_without_index_reads = make_monthly_bill(replace(plan, index_read_share=0.0))
    assert compute_index_reads(plan).month == pytest.approx(18 * DAYS_PER_MONTH)
    difference = bill["Firestore reads"].amount - bill_without_index_reads["Firestore reads"].amount
    assert difference == pytest.approx(18 * DAYS_PER_MONTH)


def test_the_second_database_has_no_free_tier(plan: DeploymentPlan) -> None:
    bill = make_monthly_bill(plan)
    assert bill["Firestore reads"].cost == 0.0
    assert bill["Firestore reads"].list_price > 0.0
    assert bill["reads in `access`"].cost == bill["reads in `access`"].list_price
    assert bill["reads in `access`"].amount == pytest.approx(10 * 2 * DAYS_PER_MONTH)
    assert bill["writes in `access`"].amount == pytest.approx(10 * 1.1 * DAYS_PER_MONTH)


def test_rare_calls_pay_for_cold_starts(plan: DeploymentPlan) -> None:
    # A search takes 0.15 + 0.5 s, a write 0.05 + 0.5 s. The gateway waits for both and starts, too.
    searches = 9 * 0.7
    writes = 1 * 0.6
    job = 1.0
    gateway = 10 * 1.7  # 1.0 + 0.01 + (0.9 * 0.65 + 0.1 * 0.55) = 1.65
    assert make_monthly_bill(plan)["CPU"].amount == pytest.approx(
        (searches + writes + gateway + job) * DAYS_PER_MONTH
    )


def test_frequent_calls_share_instances() -> None:
    # An instance is filled to 60 %, of its 40 concurrent calls or of its CPU.
    bound_by_calls = estimate_instances(
        calls_per_second=1000, seconds=0.2, cpu_seconds=0.001, concurrency=40
    )
    bound_by_cpu = estimate_instances(
        calls_per_second=1000, seconds=0.2, cpu_seconds=0.03, concurrency=40
    )
    assert bound_by_calls == pytest.approx(1000 * 0.2 / (0.6 * 40))
    assert bound_by_cpu == pytest.approx(1000 * 0.03 / 0.6)


def test_three_schedules_are_free() -> None:
    costs = [
        make_bill([Item("schedules", "scheduler", MonthlyAmount.of_month(count))]).cost
        for count in (3, 4, 11)
    ]
    assert costs == pytest.approx([0.0, 0.1, 0.8])


def test_point_in_time_recovery_costs_as_much_as_storage(plan: DeploymentPlan) -> None:
    bill = make_monthly_bill(plan)
    assert bill["storage"].cost == pytest.approx(0.15)
    assert bill["point-in-time recovery"].cost == pytest.approx(0.30)
    assert (
        make_monthly_bill(replace(plan, has_recovery=False))["point-in-time recovery"].cost == 0.0
    )


def test_a_plan_without_a_language_model_has_no_model_costs(plan: DeploymentPlan) -> None:
    assert make_ingestion_bill(plan)["language model, input"].cost > 0.0
    assert make_ingestion_bill(replace(plan, has_model=False))["language model, input"].cost == 0.0


def test_new_passages_cost_their_share_of_the_ingestion(plan: DeploymentPlan) -> None:
    more_writes = make_monthly_bill(replace(plan, new_chunks=50))["Firestore writes"].amount
    assert more_writes - make_monthly_bill(plan)["Firestore writes"].amount == pytest.approx(
        150 * DAYS_PER_MONTH
    )


def test_other_sizes_are_interpolated_or_bounded() -> None:
    assert interpolate([10, 20], [20.0, 30.0], 100) == 110.0
    assert interpolate([10, 20], [20.0, 5.0], 100) == 0.0
    picked_values = {
        size: pick_measured_value([10, 20], [20.0, 30.0], size) for size in (5, 10, 20, 100)
    }
    assert picked_values == {5: 20.0, 10: 20.0, 20: 30.0, 100: 30.0}


def test_document_sizes_follow_firestores_rules() -> None:
    assert count_document_bytes("users/jeff/tasks/my_task_id", EXAMPLE_TASK, IndexRules(0)) == 147


def test_index_entry_sizes_follow_firestores_rules() -> None:
    rules = IndexRules(768, exempt=frozenset({"*"}), composite=[["done", "priority"]])
    name = len("tasks") + 1 + len("my_task_id") + 1 + 16
    values = 1 + 8  # a boolean and an integer
    entry_overhead = 32
    expected = name + values + entry_overhead
    assert count_index_bytes("tasks/my_task_id", EXAMPLE_TASK, rules) == expected


def test_a_vector_has_one_index_entry_per_facet() -> None:
    rules = IndexRules(768, exempt=frozenset({"*"}), composite=[["facets", "embedding"]])
    chunk = {"facets": ["a", "bc"], "embedding": Vector([0.5])}
    name = len("chunks") + 1 + len("one") + 1 + 16
    vector = 768 * 8
    facets = (len("a") + 1) + (len("bc") + 1)
    assert count_index_bytes("chunks/one", chunk, rules) == 2 * (name + 32 + vector) + facets


def test_a_map_is_indexed_by_field_in_both_directions() -> None:
    name = len("c") + 1 + len("d") + 1 + 16
    entry = name + 32 + len("pending.embed") + 1 + 8
    assert count_index_bytes("c/d", {"pending": {"embed": 1}}, IndexRules(0)) == 2 * entry


def test_index_rules_come_from_the_index_file() -> None:
    indexes = {
        "fieldOverrides": [
            {"collectionGroup": "chunks", "fieldPath": "content", "indexes": []},
            {"collectionGroup": "other", "fieldPath": "*", "indexes": []},
        ],
        "indexes": [{"collectionGroup": "chunks", "fields": [{"fieldPath": "embedding"}]}],
    }
    expected = IndexRules(768, frozenset({"content"}), [["embedding"]])
    assert load_index_rules(indexes, "chunks", 768) == expected


def test_every_price_has_a_source_and_a_date() -> None:
    prices = load_price_list()
    assert date.fromisoformat(prices.read_on)
    for price in prices.prices.values():
        assert price.source.startswith("https://"), price
        assert price.every in {"day", "month"}, price
        assert price.verified or price.note, price


def test_comparing_extractions_grows_quadratically() -> None:
    reads = [load_measurements(size).ingestion["extract"].index_reads for size in (4_000, 40_000)]
    assert reads[1] == pytest.approx(100 * reads[0])


def test_the_measured_mix_has_a_hundred_calls() -> None:
    assert load_measurements(1_000).calls_in_mix == 100


def test_a_larger_base_costs_more(plan: DeploymentPlan) -> None:
    measurements = [
        replace(load_measurements(size), calls=plan.measured.calls) for size in (1_000, 100_000)
    ]
    small_cost, large_cost = (
        make_monthly_bill(replace(plan, measured=size_measurements)).cost
        for size_measurements in measurements
    )
    assert small_cost < large_cost


def test_an_unmeasured_job_costs_only_its_schedule(plan: DeploymentPlan) -> None:
    functions = [*plan.functions, make_function("new", "job", "0 5 * * *")]
    bill = make_monthly_bill(replace(plan, functions=functions))
    assert round(bill["schedules"].amount) == 2
    assert bill["Firestore reads"] == make_monthly_bill(plan)["Firestore reads"]


def test_tables_are_replaced_between_their_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- computed -->\n<!-- /computed -->\n<!-- a -->\nold\n<!-- /a -->\nend")
    write_tables(page, {"a": "new\n"}, date(2026, 1, 2))
    text = page.read_text()
    assert text.startswith("<!-- computed -->\nComputed on 2026-01-02 ")
    assert text.endswith("<!-- a -->\nnew\n<!-- /a -->\nend")


def test_a_page_without_comments_for_a_table_is_rejected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- computed -->\n<!-- /computed -->\n")
    with pytest.raises(ValueError, match="0 sections for the table 'a'"):
        write_tables(page, {"a": "new\n"}, date(2026, 1, 2))
