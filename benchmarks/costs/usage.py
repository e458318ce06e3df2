"""The billable usage of a month, and of the first ingestion of a knowledge base.

The usage of calls and jobs is measured (`measured.json`). Functions and schedules come from the
declarations. A job that was never measured costs only its schedule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from benchmarks.costs.measurements import Usage, load_measurements
from benchmarks.costs.prices import DAYS_PER_MONTH, Item, MonthlyAmount, make_bill
from infra.build.functions import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.costs.measurements import Measurements
    from benchmarks.costs.prices import Bill
    from infra.build.functions import Function

GIB: Final = 1024**3
SECONDS_PER_DAY: Final = 24 * 60 * 60
BILLING_STEP_SECONDS: Final = 0.1
"""The step to which Cloud Run rounds up instance time."""
STARTS_PER_DAY: Final = 96
"""Cloud Run keeps an idle instance for at most 15 minutes, so a function starts this often."""
SCALE_OUT_UTILIZATION: Final = 0.6
"""Cloud Run starts another instance above this share of an instance's CPU or concurrency."""
NEW_CHUNKS_PER_DAY: Final = 10
HANDSHAKES_PER_CALL: Final = 1
"""The further requests to the gateway for each call: to connect, and to list tools."""
SECRET_COUNT: Final = 3
DEPLOYMENTS_PER_MONTH: Final = 4
BUILD_MINUTES_PER_FUNCTION: Final = 2
BASE_IMAGE_GB: Final = 0.3
"""The size of the layers that all images share; an estimate."""
BUNDLE_BUCKET_GB: Final = 0.1
"""The size of the bundles in the deployment bucket."""
LOG_BYTES_PER_REQUEST: Final = 2_500
"""The size of a request's log entries, including Cloud Run's own."""
_CRON_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The values of the fields of a schedule: minute, hour, day of month, month, day of week."""
CALLS_PER_DAY: Final = 100
JOBS_THAT_NEED_A_MODEL: Final = frozenset({"extract"})
"""These jobs do nothing without a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """A deployment and its usage.

    Attributes:
        functions: All deployed functions.
        measured: The measured usage of calls and jobs for this size.
        chunks: Passages in the knowledge base.
        calls_per_day: Tool calls per day.
        new_chunks: New passages per day.
        has_model: Whether a language model writes cards and finds extractions.
        has_recovery: Whether point-in-time recovery is enabled.
        alerts: The number of alert policies.
        index_read_share: The share of vector index reads that Firestore bills: 0 if another service
            does the vector search.
    """

    functions: Sequence[Function]
    measured: Measurements
    chunks: int
    calls_per_day: float
    new_chunks: float = NEW_CHUNKS_PER_DAY
    has_model: bool = True
    has_recovery: bool = True
    alerts: int = 0
    index_read_share: float = 1.0


def make_plan(chunks: int, calls_per_day: float = CALLS_PER_DAY, **fields: Any) -> DeploymentPlan:
    """Return a plan with the declared functions, and this many passages and daily calls."""
    return DeploymentPlan(
        functions=functions(),
        measured=load_measurements(chunks),
        chunks=chunks,
        calls_per_day=calls_per_day,
        **fields,
    )


def make_monthly_bill(plan: DeploymentPlan) -> Bill:
    """Return the bill of a month."""
    return make_bill(list_monthly_items(plan))


def make_ingestion_bill(plan: DeploymentPlan) -> Bill:
    """Return the bill of ingesting all passages."""
    return make_bill(list_ingestion_items(plan))


def list_monthly_items(plan: DeploymentPlan) -> list[Item]:
    """Return the billable items of a month."""
    gib = plan.measured.stored / GIB
    return [
        *_list_firestore_items(plan),
        Item("storage", "firestore_storage", MonthlyAmount.of_month(gib)),
        Item(
            "point-in-time recovery",
            "firestore_recovery",
            _spread_evenly(gib if plan.has_recovery else 0.0),
        ),
        *_list_cloud_run_items(plan),
        *_list_model_items(
            _compute_daily_usage(plan).multiply(DAYS_PER_MONTH), model=plan.has_model
        ),
        *_list_fixed_items(plan),
    ]


def list_ingestion_items(plan: DeploymentPlan) -> list[Item]:
    """Return the billable items of ingesting all passages on one day."""
    usage = _sum_ingestion_usage(plan)
    memory = sum(
        plan.measured.ingestion[job.name].seconds * job.memory / 1024
        for job in plan.functions
        if job.name in plan.measured.ingestion and _does_run(job.name, plan)
    )
    return [
        Item("Firestore reads", "firestore_reads", MonthlyAmount(0.0, usage.reads, 1)),
        Item("Firestore writes", "firestore_writes", MonthlyAmount(0.0, usage.written, 1)),
        Item("CPU", "run_cpu", _spread_evenly(usage.seconds)),
        Item("memory", "run_memory", _spread_evenly(memory)),
        *_list_model_items(usage, model=plan.has_model),
    ]


def compute_daily_call_usage(plan: DeploymentPlan) -> Usage:
    """Return the usage of the tools' functions for the calls of a day."""
    measured = plan.measured
    return _sum(
        call.usage.multiply(call.per_day * plan.calls_per_day / measured.calls_in_mix)
        for call in measured.calls
    )


def estimate_instances(
    calls_per_second: float, seconds: float, cpu_seconds: float, concurrency: int
) -> float:
    """Return the number of instances that serve this many calls per second."""
    return calls_per_second * max(
        cpu_seconds / SCALE_OUT_UTILIZATION, seconds / (SCALE_OUT_UTILIZATION * concurrency)
    )


def compute_index_reads(plan: DeploymentPlan) -> MonthlyAmount:
    """Return the reads of vector index entries."""
    usage, days = _compute_occasional_usage(plan)
    return MonthlyAmount(_compute_daily_usage(plan).index_reads, usage.index_reads, days)


def _list_firestore_items(plan: DeploymentPlan) -> list[Item]:
    daily = _compute_daily_usage(plan)
    occasional, days = _compute_occasional_usage(plan)
    reads = MonthlyAmount(daily.reads, occasional.reads, days)
    writes = MonthlyAmount(daily.written, occasional.written, days)
    gateway = plan.measured.gateway
    gateway_writes = gateway.writes + _write_share(plan) * gateway.writes_of_a_write
    access_reads = MonthlyAmount(plan.calls_per_day * gateway.reads)
    access_writes = MonthlyAmount(plan.calls_per_day * gateway_writes)
    return [
        Item("Firestore reads", "firestore_reads", reads),
        Item("Firestore writes", "firestore_writes", writes),
        Item("reads in `access`", "firestore_reads", access_reads, has_free=False),
        Item("writes in `access`", "firestore_writes", access_writes, has_free=False),
    ]


def _compute_daily_usage(plan: DeploymentPlan) -> Usage:
    """Return the daily usage of calls, daily jobs and new passages."""
    runs = [
        _get_idle_usage(job, plan).multiply(parse_schedule(job.schedule).per_day)
        for job in _list_jobs(plan, daily=True)
    ]
    usage = (
        compute_daily_call_usage(plan)
        + _sum(runs)
        + _sum_ingestion_usage(plan).multiply(plan.new_chunks / plan.chunks)
    )
    return replace(usage, index_reads=usage.index_reads * plan.index_read_share)


def _compute_occasional_usage(plan: DeploymentPlan) -> tuple[Usage, float]:
    """Return the usage of the jobs that do not run every day.

    Returns:
        The usage on a day with runs, and the number of such days per month. The runs of all these
        jobs are spread over the days of the most frequent one.
    """
    schedules = [(job, parse_schedule(job.schedule)) for job in _list_jobs(plan, daily=False)]
    days = max((runs.days for _, runs in schedules), default=0.0)
    usage = _sum(
        _get_idle_usage(job, plan).multiply(runs.per_month / days) for job, runs in schedules
    )
    return replace(usage, index_reads=usage.index_reads * plan.index_read_share), days


def _list_cloud_run_items(plan: DeploymentPlan) -> list[Item]:
    """Return Cloud Run's requests, CPU seconds and GiB-seconds, and the logs and answers."""
    functions_by_name = {function.name: function for function in plan.functions}
    seconds_by_name = _call_seconds(plan, functions_by_name)
    runs = 0.0
    for job in _list_jobs(plan):
        runs_per_month = parse_schedule(job.schedule).per_month
        runs += runs_per_month
        run_seconds = plan.measured.start["job"] + _get_idle_usage(job, plan).seconds
        seconds_by_name[job.name] = runs_per_month * _round_up(run_seconds)
    new_chunks_per_month = plan.new_chunks * DAYS_PER_MONTH
    ingestion_seconds = _sum_ingestion_usage(plan).seconds * new_chunks_per_month / plan.chunks
    # The memory of the jobs that ingest is counted as 1 GiB.
    gib_seconds = ingestion_seconds + sum(
        seconds * functions_by_name[name].memory / 1024 for name, seconds in seconds_by_name.items()
    )
    calls = plan.calls_per_day * DAYS_PER_MONTH
    # A call is a request to the gateway, and one to the tool's function.
    requests = calls * (2 + HANDSHAKES_PER_CALL) + runs
    return [
        Item("requests", "run_requests", _spread_evenly(requests)),
        Item("CPU", "run_cpu", _spread_evenly(sum(seconds_by_name.values()) + ingestion_seconds)),
        Item("memory", "run_memory", _spread_evenly(gib_seconds)),
        Item("logs", "logs", _spread_evenly(requests * LOG_BYTES_PER_REQUEST / GIB)),
        Item("answers", "egress", _spread_evenly(calls * plan.measured.gateway.answer_bytes / GIB)),
    ]


def _call_seconds(
    plan: DeploymentPlan, functions_by_name: Mapping[str, Function]
) -> dict[str, float]:
    """Return the instance seconds per month that calls cause, by function."""
    start = plan.measured.start
    gateway = plan.measured.gateway
    instance_seconds: dict[str, float] = {}
    tool_seconds = 0.0
    for name, (share, usage) in _compute_usage_by_tool(plan.measured).items():
        per_day = plan.calls_per_day * share
        concurrency = functions_by_name[name].concurrency
        daily_seconds = _compute_instance_seconds(per_day, start["tool"], usage, concurrency)
        instance_seconds[name] = DAYS_PER_MONTH * daily_seconds
        tool_seconds += share * (usage.seconds + start["tool"] * _compute_cold_start_share(per_day))
    # The gateway waits for the tool, so its calls last as long as the tool's.
    gateway_usage = Usage(seconds=gateway.seconds + tool_seconds, cpu_seconds=gateway.cpu_seconds)
    gateway_concurrency = functions_by_name["gateway"].concurrency
    instance_seconds["gateway"] = DAYS_PER_MONTH * _compute_instance_seconds(
        plan.calls_per_day, start["gateway"], gateway_usage, gateway_concurrency
    )
    return instance_seconds


def _compute_usage_by_tool(measured: Measurements) -> dict[str, tuple[float, Usage]]:
    """Return for each tool its share of the calls, and the mean usage of its calls."""
    totals: dict[str, tuple[float, Usage]] = {}
    for call in measured.calls:
        share, usage = totals.get(call.tool, (0.0, Usage()))
        share_of_call = call.per_day / measured.calls_in_mix
        totals[call.tool] = (share + share_of_call, usage + call.usage.multiply(share_of_call))
    return {name: (share, usage.multiply(1 / share)) for name, (share, usage) in totals.items()}


def _compute_instance_seconds(
    per_day: float, start: float, usage: Usage, concurrency: int
) -> float:
    """Return the billed instance seconds per day.

    Frequent calls overlap, and share the instances that Cloud Run keeps for them. Rare calls come
    one at a time: each is billed for itself, and for its share of cold starts.

    Args:
        per_day: Calls per day.
        start: Seconds that an instance takes to start.
        usage: The usage of a call.
        concurrency: Calls that an instance serves at the same time.
    """
    calls_per_second = per_day / SECONDS_PER_DAY
    if calls_per_second * usage.seconds > 1:
        return SECONDS_PER_DAY * estimate_instances(
            calls_per_second, usage.seconds, usage.cpu_seconds, concurrency
        )
    return per_day * _round_up(usage.seconds + start * _compute_cold_start_share(per_day))


def _compute_cold_start_share(per_day: float) -> float:
    """Return the share of calls that cause a cold start."""
    return min(1.0, STARTS_PER_DAY / per_day) if per_day else 0.0


def _round_up(seconds: float) -> float:
    """Round up to Cloud Run's billing step; the inner rounding removes floating-point noise."""
    return math.ceil(round(seconds / BILLING_STEP_SECONDS, 6)) * BILLING_STEP_SECONDS


def _list_model_items(usage: Usage, *, model: bool) -> list[Item]:
    share = 1.0 if model else 0.0
    return [
        Item("embedding", "embedding", _spread_evenly(usage.embedded)),
        Item(
            "language model, input", "generation_input", _spread_evenly(usage.input_tokens * share)
        ),
        Item(
            "language model, output",
            "generation_output",
            _spread_evenly(usage.output_tokens * share),
        ),
    ]


def _list_fixed_items(plan: DeploymentPlan) -> list[Item]:
    """Return the items that depend little on usage."""
    own_layers_mb = sum(plan.measured.image[function.kind] for function in plan.functions)
    images_gb = BASE_IMAGE_GB + own_layers_mb / 1000
    build_minutes = DEPLOYMENTS_PER_MONTH * len(plan.functions) * BUILD_MINUTES_PER_FUNCTION
    starts = plan.calls_per_day * _compute_cold_start_share(plan.calls_per_day) * DAYS_PER_MONTH
    return [
        Item("schedules", "scheduler", _spread_evenly(len(_list_jobs(plan)))),
        Item("alerts", "alerting", _spread_evenly(plan.alerts)),
        Item("images", "images", _spread_evenly(images_gb)),
        Item("builds", "builds", _spread_evenly(build_minutes)),
        Item("secrets", "secret_versions", _spread_evenly(SECRET_COUNT)),
        Item("accesses of secrets", "secret_accesses", _spread_evenly(starts * SECRET_COUNT)),
        Item("bucket of deployments", "bucket", _spread_evenly(BUNDLE_BUCKET_GB)),
    ]


def _sum_ingestion_usage(plan: DeploymentPlan) -> Usage:
    """Return the usage of ingesting all passages, without jobs that need an absent model."""
    return _sum(usage for name, usage in plan.measured.ingestion.items() if _does_run(name, plan))


def _does_run(name: str, plan: DeploymentPlan) -> bool:
    return plan.has_model or name not in JOBS_THAT_NEED_A_MODEL


def _get_idle_usage(job: Function, plan: DeploymentPlan) -> Usage:
    """Return the usage of a run with nothing to do."""
    return plan.measured.idle.get(job.name, Usage())


def _list_jobs(plan: DeploymentPlan, *, daily: bool | None = None) -> list[Function]:
    """Return all scheduled jobs, or only those that run daily, or only the others."""
    jobs = [function for function in plan.functions if function.schedule]
    return [job for job in jobs if daily is None or parse_schedule(job.schedule).is_daily is daily]


def _write_share(plan: DeploymentPlan) -> float:
    """Return the share of calls whose tool writes."""
    measured = plan.measured
    return (
        sum(call.per_day for call in measured.calls if call.effect != "read")
        / measured.calls_in_mix
    )


def _sum(usages: Iterable[Usage]) -> Usage:
    return reduce(add, usages, Usage())


def _spread_evenly(amount: float) -> MonthlyAmount:
    return MonthlyAmount.of_month(amount)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a schedule.

    Attributes:
        per_day: The runs on a day with runs.
        days: The days with runs per month.
    """

    per_day: int
    days: float

    @property
    def per_month(self) -> float:
        """The runs of a month."""
        return self.per_day * self.days

    @property
    def is_daily(self) -> bool:
        """Whether every day has runs."""
        return self.days == DAYS_PER_MONTH


def parse_schedule(schedule: str) -> Runs:
    """Parse a schedule in cron format; an empty schedule has no runs.

    Raises:
        ValueError: The schedule is not valid, or restricts both the day of the month and the day of
            the week.
    """
    if not schedule:
        return Runs(0, 0.0)
    fields = schedule.split()
    if len(fields) != len(_CRON_RANGES):
        raise ValueError(f"a schedule has five fields: {schedule!r}")
    counts = [_count(text, *ends) for text, ends in zip(fields, _CRON_RANGES, strict=True)]
    minutes, hours, days, months, weekdays = counts
    if fields[2] != "*" and fields[4] != "*":
        raise ValueError(f"days of the month and of the week at once: {schedule!r}")
    share = days / 31 * months / 12 * min(weekdays, 7) / 7
    return Runs(minutes * hours, DAYS_PER_MONTH * share)


def _count(text: str, first: int, last: int) -> int:
    """Count the values that a field of a schedule matches."""
    return len(set().union(*(_parse_values(part, first, last) for part in text.split(","))))


def _parse_values(part: str, first: int, last: int) -> set[int]:
    """Return the values of one element of a field: `*`, `*/15`, `5`, `5-9` or `5-9/2`."""
    span, _, step = part.partition("/")
    if span != "*":
        start, _, end = span.partition("-")
        first, last = int(start), int(end or (last if step else start))
    return set(range(first, last + 1, int(step or 1)))
