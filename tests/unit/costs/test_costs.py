"""The arithmetic of cloud costs, with simple figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore_v1.vector import Vector

from benchmarks.costs.measurements import (
    Call,
    CallWork,
    Gateway,
    Measurements,
    at_measured_size,
    interpolate,
    measurements_at,
)
from benchmarks.costs.prices import DAYS, Amount, Item, Price, bill_of, price_list
from benchmarks.costs.storage import Rules, document_bytes, index_bytes, rules_of
from benchmarks.costs.tables import write
from benchmarks.costs.usage import (
    GIB,
    Plan,
    Runs,
    calls_of,
    first_filling,
    index_reads,
    instances,
    monthly,
    runs_of,
)
from infra.build.functions import Function

if TYPE_CHECKING:
    from pathlib import Path

A_TASK: Final[dict[str, Any]] = {
    "type": "Personal",
    "done": False,
    "priority": 1,
    "description": "Learn Cloud Firestore",
}
"""The example of Firestore's documentation of sizes."""


def price(free: float = 0.0, every: str = "month", per: float = 1.0) -> Price:
    """Return a price of a dollar for a number of units, some of them free."""
    return Price("Sand", 1.0, per, "grain", free, every, "https://example.com", True, "")  # noqa: FBT003 - a fixture's


def function(name: str, kind: Any, schedule: str = "") -> Function:
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
def plan() -> Plan:
    """A plan with a gateway, a search tool, a write tool and a daily job; ten calls a day."""
    search = Call("search", "search", 9, "read", CallWork(read=10, index_reads=2, seconds=0.15))
    write = Call(
        "write", "write", 1, "write", CallWork(read=1, written=3, seconds=0.05, embedded=7)
    )
    sweep = CallWork(read=5, written=2, seconds=0.4)
    measured = Measurements(
        on="2026-01-01",
        calls=[search, write],
        gateway=Gateway(2, 1, 1, 0.01, 0.005, 1000),
        idle={"sweep": sweep},
        filling={
            "sweep": CallWork(read=100, written=300, seconds=5, embedded=1000, input_tokens=50)
        },
        stored=2 * GIB,
        start={"gateway": 1.0, "tool": 0.5, "job": 0.6},
        image={"gateway": 100, "tool": 50, "job": 50},
    )
    functions = [
        function("gateway", "gateway"),
        function("search", "tool"),
        function("write", "tool"),
        function("sweep", "job", "0 3 * * *"),
    ]
    return Plan(functions=functions, measured=measured, chunks=100, calls_a_day=10, new_chunks=0)


def test_a_daily_allowance_expires_each_day() -> None:
    evenly, at_once = Amount(10.0), Amount(0.0, 10 * DAYS, 1)
    assert price(free=10, every="day").charge(evenly) == 0.0
    assert price(free=10, every="day").charge(at_once) == pytest.approx(10 * DAYS - 10)


def test_a_monthly_allowance_may_be_used_on_one_day() -> None:
    assert price(free=10).charge(Amount(0.0, 10, 1)) == 0.0
    assert price(free=10).charge(Amount(0.0, 12, 1)) == pytest.approx(2.0)


def test_busy_days_are_charged_separately() -> None:
    amount = Amount(8.0, more=5.0, days=4)
    assert amount.month == pytest.approx(8 * DAYS + 20)
    assert price(free=10, every="day").charge(amount) == pytest.approx(4 * 3.0)


def test_prices_apply_to_bundles_of_units() -> None:
    assert price(per=100).list_price(Amount.of_month(2)) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("schedule", "a_day", "days"),
    [
        ("*/5 * * * *", 288, DAYS),
        ("5-59/15 * * * *", 96, DAYS),
        ("23 * * * *", 24, DAYS),
        ("17 4 * * *", 1, DAYS),
        ("42 3 * * 0", 1, DAYS / 7),
        ("0 6,18 1 * *", 2, DAYS / 31),
        ("", 0, 0.0),
    ],
)
def test_a_schedule_gives_the_number_of_runs(schedule: str, a_day: int, days: float) -> None:
    assert runs_of(schedule) == Runs(a_day, pytest.approx(days))  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", ["* * * *", "0 3 1 * 1"])
def test_an_unsupported_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"schedule|days"):
        runs_of(schedule)


def test_twice_the_calls_take_twice_the_reads(plan: Plan) -> None:
    once, twice = monthly(plan), monthly(replace(plan, calls_a_day=20))
    jobs_read = 5 * DAYS
    read = once["Firestore reads"].amount - jobs_read
    assert twice["Firestore reads"].amount - jobs_read == pytest.approx(2 * read)
    assert twice["reads in `access`"].amount == pytest.approx(2 * once["reads in `access`"].amount)
    assert twice["schedules"] == once["schedules"]


def test_a_day_of_calls_is_the_usual_mix(plan: Plan) -> None:
    work = calls_of(plan)
    assert work.read == 91
    assert work.index_reads == 18
    assert work.written == 3
    assert work.embedded == 7


def test_vector_index_entries_count_as_reads_in_firestore(plan: Plan) -> None:
    ours, other = monthly(plan), monthly(replace(plan, entries=0.0))
    assert index_reads(plan).month == pytest.approx(18 * DAYS)
    difference = ours["Firestore reads"].amount - other["Firestore reads"].amount
    assert pytest.approx(18 * DAYS) == difference


def test_the_second_database_has_no_free_tier(plan: Plan) -> None:
    bill = monthly(plan)
    assert 0.0 == bill["Firestore reads"].cost < bill["Firestore reads"].list_price
    assert bill["reads in `access`"].cost == bill["reads in `access`"].list_price
    assert bill["reads in `access`"].amount == pytest.approx(10 * 2 * DAYS)
    assert bill["writes in `access`"].amount == pytest.approx(10 * 1.1 * DAYS)


def test_rare_calls_pay_for_cold_starts(plan: Plan) -> None:
    # search 0.15 + 0.5, write 0.05 + 0.5; the gateway waits for them and starts too; the job.
    searches, writes, job = 9 * 0.7, 1 * 0.6, 1.0
    gateway = 10 * 1.7  # 1.0 + 0.01 + (0.9 * 0.65 + 0.1 * 0.55) = 1.65
    assert monthly(plan)["processors"].amount == pytest.approx(
        (searches + writes + gateway + job) * DAYS
    )


def test_frequent_calls_share_instances() -> None:
    assert instances(1000, 0.2, 0.001, 40) == pytest.approx(1000 * 0.2 / (0.6 * 40))
    assert instances(1000, 0.2, 0.03, 40) == pytest.approx(1000 * 0.03 / 0.6)


def test_three_schedules_are_free() -> None:
    bills = [
        bill_of([Item("s", "scheduler", Amount.of_month(number))]).cost for number in (3, 4, 11)
    ]
    assert pytest.approx([0.0, 0.1, 0.8]) == bills


def test_point_in_time_recovery_costs_as_much_as_storage(plan: Plan) -> None:
    bill = monthly(plan)
    assert bill["storage"].cost == pytest.approx(0.15)
    assert bill["point-in-time recovery"].cost == pytest.approx(0.30)
    assert monthly(replace(plan, recovery=False))["point-in-time recovery"].cost == 0.0


def test_without_a_language_model_there_are_no_model_costs(plan: Plan) -> None:
    assert first_filling(plan)["language model, input"].cost > 0.0
    assert first_filling(replace(plan, model=False))["language model, input"].cost == 0.0


def test_new_passages_cost_their_share_of_the_filling(plan: Plan) -> None:
    grown = monthly(replace(plan, new_chunks=50))["Firestore writes"].amount
    assert grown - monthly(plan)["Firestore writes"].amount == pytest.approx(150 * DAYS)


def test_other_sizes_are_interpolated_or_bounded() -> None:
    assert interpolate([10, 20], [20.0, 30.0], 100) == 110.0
    assert interpolate([10, 20], [20.0, 5.0], 100) == 0.0
    assert [at_measured_size([10, 20], [20.0, 30.0], size) for size in (5, 10, 20, 100)] == [
        20.0,
        20.0,
        30.0,
        30.0,
    ]


def test_document_sizes_follow_firestores_rules() -> None:
    assert document_bytes("users/jeff/tasks/my_task_id", A_TASK, Rules(0)) == 147


def test_index_entry_sizes_follow_firestores_rules() -> None:
    rules = Rules(768, exempt=frozenset({"*"}), composite=[["done", "priority"]])
    # name 6 + 11 + 16, values 1 + 8, 32 beside
    assert index_bytes("tasks/my_task_id", A_TASK, rules) == 33 + 9 + 32


def test_a_vector_has_one_index_entry_per_facet() -> None:
    rules = Rules(768, exempt=frozenset({"*"}), composite=[["facets", "embedding"]])
    chunk = {"facets": ["a", "bc"], "embedding": Vector([0.5])}
    name = len("chunks") + 1 + len("one") + 1 + 16
    assert index_bytes("chunks/one", chunk, rules) == 2 * (name + 32 + 768 * 8) + 2 + 3


def test_a_map_is_indexed_by_field_in_both_directions() -> None:
    name = len("c") + 1 + len("d") + 1 + 16
    entry = name + 32 + len("pending.embed") + 1 + 8
    assert index_bytes("c/d", {"pending": {"embed": 1}}, Rules(0)) == 2 * entry


def test_index_rules_come_from_the_index_file() -> None:
    indexes = {
        "fieldOverrides": [
            {"collectionGroup": "chunks", "fieldPath": "content", "indexes": []},
            {"collectionGroup": "other", "fieldPath": "*", "indexes": []},
        ],
        "indexes": [{"collectionGroup": "chunks", "fields": [{"fieldPath": "embedding"}]}],
    }
    expected = Rules(768, frozenset({"content"}), [["embedding"]])
    assert rules_of(indexes, "chunks", 768) == expected


def test_every_price_has_a_source_and_a_date() -> None:
    prices = price_list()
    assert date.fromisoformat(prices.read)
    for item in prices.prices.values():
        assert item.source.startswith("https://"), item
        assert item.every in {"day", "month"}, item
        assert item.verified or item.note, item


def test_comparing_extractions_grows_quadratically() -> None:
    reads = [measurements_at(size).filling["extract"].index_reads for size in (4_000, 40_000)]
    assert reads[1] == pytest.approx(100 * reads[0])


def test_emulator_search_times_are_not_used() -> None:
    small, large = (measurements_at(size).idle["health"] for size in (1_000, 100_000))
    assert large.seconds == small.seconds
    assert small.index_reads < large.index_reads


def test_the_measured_mix_has_a_hundred_calls() -> None:
    assert measurements_at(1_000).mix == 100


def test_a_larger_base_costs_more(plan: Plan) -> None:
    bases = [replace(measurements_at(size), calls=plan.measured.calls) for size in (1_000, 100_000)]
    small, large = (monthly(replace(plan, measured=base)).cost for base in bases)
    assert small < large


def test_an_unmeasured_job_costs_only_its_schedule(plan: Plan) -> None:
    added = [*plan.functions, function("new", "job", "0 5 * * *")]
    more = monthly(replace(plan, functions=added))
    assert round(more["schedules"].amount) == 2
    assert more["Firestore reads"] == monthly(plan)["Firestore reads"]


def test_tables_are_replaced_between_their_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- computed -->\n<!-- /computed -->\n<!-- a -->\nold\n<!-- /a -->\nend")
    write(page, {"a": "new\n"}, date(2026, 1, 2))
    text = page.read_text()
    assert text.startswith("<!-- computed -->\nComputed on 2026-01-02 ")
    assert text.endswith("<!-- a -->\nnew\n<!-- /a -->\nend")


def test_a_page_without_comments_for_a_table_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- computed -->\n<!-- /computed -->\n")
    with pytest.raises(ValueError, match="0 places for the table 'a'"):
        write(page, {"a": "new\n"}, date(2026, 1, 2))
