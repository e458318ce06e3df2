"""The billable usage of a month and of the first filling.

Usage is what was measured of calls and jobs (`measured.json`), for the functions and schedules that
are declared. A job that was never measured counts for nothing but its schedule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from benchmarks.costs.measurements import CallWork, measurements_at
from benchmarks.costs.prices import DAYS, Amount, Item, bill_of
from infra.build.functions import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.costs.measurements import Measurements
    from benchmarks.costs.prices import Bill
    from infra.build.functions import Function

GIB: Final = 1024**3
DAY: Final = 24 * 60 * 60
STEP: Final = 0.1
"""Cloud Run rounds up to this many seconds."""
STARTS_A_DAY: Final = 96
"""An idle instance is kept for at most 15 minutes."""
FULL: Final = 0.6
"""Cloud Run starts another instance above this share of processor and concurrency."""
NEW_CHUNKS: Final = 10
"""The number of new passages per day."""
HANDSHAKES: Final = 1
"""Requests to the gateway besides each call, to connect and to list tools."""
SECRETS: Final = 3
DEPLOYMENTS: Final = 4
BUILD_MINUTES: Final = 2
"""The images that are stored for each function."""
BASE_IMAGE: Final = 0.3
"""GB of the common layers of all images; an estimate."""
BUNDLES: Final = 0.1
"""GB in the bucket of deployments."""
LOGGED: Final = 2_500
"""Log bytes of a request, with Cloud Run's own entry."""
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The ranges of a schedule's fields: minute, hour, day of month, month, day of week."""
CALLS_A_DAY: Final = 100
NEED_A_MODEL: Final = frozenset({"extract"})
"""These jobs do nothing without a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A deployment and its usage.

    Attributes:
        functions: All that there are.
        measured: What calls and jobs take, for a base of this size.
        chunks: Passages in the base.
        calls_a_day: Calls of tools.
        new_chunks: Passages that come in, a day.
        model: Whether a language model writes cards and finds extractions.
        recovery: Whether the databases keep seven days to go back to.
        conditions: How many alerts there are.
        entries: The share of the reads of vector indexes that Firestore does; 0 where another
            service searches.
    """

    functions: Sequence[Function]
    measured: Measurements
    chunks: int
    calls_a_day: float
    new_chunks: float = NEW_CHUNKS
    model: bool = True
    recovery: bool = True
    conditions: int = 0
    entries: float = 1.0


def plan_of(chunks: int, calls_a_day: float = CALLS_A_DAY, **more: Any) -> Plan:
    """Return a plan with functions as declared, and this many passages and daily calls."""
    return Plan(
        functions=functions(),
        measured=measurements_at(chunks),
        chunks=chunks,
        calls_a_day=calls_a_day,
        **more,
    )


def monthly(plan: Plan) -> Bill:
    """Return the bill of a month."""
    return bill_of(month(plan))


def first_filling(plan: Plan) -> Bill:
    """Return the bill of ingesting all passages."""
    return bill_of(filling(plan))


def month(plan: Plan) -> list[Item]:
    """Return the usage of a month."""
    gib = plan.measured.stored / GIB
    return [
        *_operations(plan),
        Item("storage", "firestore_storage", Amount.of_month(gib)),
        Item("point-in-time recovery", "firestore_recovery", _month(gib if plan.recovery else 0.0)),
        *_running(plan),
        *_models(_day(plan).times(DAYS), model=plan.model),
        *_fixed(plan),
    ]


def filling(plan: Plan) -> list[Item]:
    """Return the usage of ingesting all passages, as if on one day."""
    work = _filling(plan)
    memory = sum(
        plan.measured.filling[job.name].seconds * job.memory / 1024
        for job in plan.functions
        if job.name in plan.measured.filling and _works(job.name, plan)
    )
    return [
        Item("Firestore reads", "firestore_reads", Amount(0.0, work.reads, 1)),
        Item("Firestore writes", "firestore_writes", Amount(0.0, work.written, 1)),
        Item("processors", "run_cpu", _month(work.seconds)),
        Item("memory", "run_memory", _month(memory)),
        *_models(work, model=plan.model),
    ]


def calls_of(plan: Plan) -> CallWork:
    """Return the usage of the tools' functions by the calls of a day."""
    mix = plan.measured
    return _sum(call.work.times(call.a_day * plan.calls_a_day / mix.mix) for call in mix.calls)


def instances(calls_a_second: float, seconds: float, processor: float, concurrency: int) -> float:
    """Return the number of instances for this many concurrent calls."""
    return calls_a_second * max(processor / FULL, seconds / (FULL * concurrency))


def index_reads(plan: Plan) -> Amount:
    """Return the reads of vector index entries."""
    more, days = _weekly(plan)
    return Amount(_day(plan).index_reads, more.index_reads, days)


def _operations(plan: Plan) -> list[Item]:
    day, (more, days) = _day(plan), _weekly(plan)
    gateway, changing = plan.measured.gateway, _share_that_writes(plan)
    written = gateway.writes + changing * gateway.writes_of_a_write
    calls = plan.calls_a_day
    reads, writes = Amount(calls * gateway.reads), Amount(calls * written)
    return [
        Item("Firestore reads", "firestore_reads", Amount(day.reads, more.reads, days)),
        Item("Firestore writes", "firestore_writes", Amount(day.written, more.written, days)),
        Item("reads in `access`", "firestore_reads", reads, has_free=False),
        Item("writes in `access`", "firestore_writes", writes, has_free=False),
    ]


def _day(plan: Plan) -> CallWork:
    """Return the daily usage by calls, daily jobs and new passages."""
    runs = [_idle(job, plan).times(runs_of(job.schedule).a_day) for job in _jobs(plan, daily=True)]
    work = calls_of(plan) + _sum(runs) + _filling(plan).times(plan.new_chunks / plan.chunks)
    return replace(work, index_reads=work.index_reads * plan.entries)


def _weekly(plan: Plan) -> tuple[CallWork, float]:
    """Return the usage of other jobs on a day on which they run, and the number of such days."""
    others = [(job, runs_of(job.schedule)) for job in _jobs(plan, daily=False)]
    days = max((runs.days for _, runs in others), default=0.0)
    work = _sum(_idle(job, plan).times(runs.a_month / days) for job, runs in others)
    return replace(work, index_reads=work.index_reads * plan.entries), days


def _running(plan: Plan) -> list[Item]:
    """Return the requests, processor seconds and memory seconds of all functions."""
    by_name = {function.name: function for function in plan.functions}
    seconds = _answering(plan, by_name)
    runs = 0.0
    for job in _jobs(plan):
        often = runs_of(job.schedule).a_month
        runs += often
        seconds[job.name] = often * _rounded(plan.measured.start["job"] + _idle(job, plan).seconds)
    added = _filling(plan).seconds * plan.new_chunks / plan.chunks * DAYS
    gib = sum(second * by_name[name].memory / 1024 for name, second in seconds.items()) + added
    requests = plan.calls_a_day * DAYS * (2 + HANDSHAKES) + runs
    answers = plan.calls_a_day * DAYS * plan.measured.gateway.answer_bytes / GIB
    return [
        Item("requests", "run_requests", _month(requests)),
        Item("processors", "run_cpu", _month(sum(seconds.values()) + added)),
        Item("memory", "run_memory", _month(gib)),
        Item("logs", "logs", _month(requests * LOGGED / GIB)),
        Item("answers", "egress", _month(answers)),
    ]


def _answering(plan: Plan, by_name: Mapping[str, Function]) -> dict[str, float]:
    """Return the monthly instance seconds of calls, by function."""
    start, gateway = plan.measured.start, plan.measured.gateway
    seconds: dict[str, float] = {}
    waits = 0.0
    for name, (share, work) in _by_tool(plan.measured).items():
        a_day = plan.calls_a_day * share
        concurrency = by_name[name].concurrency
        seconds[name] = DAYS * _billed(a_day, start["tool"], work, concurrency)
        waits += share * (work.seconds + start["tool"] * _cold(a_day))
    own = CallWork(seconds=gateway.seconds + waits, processor=gateway.processor)
    at_once = by_name["gateway"].concurrency
    seconds["gateway"] = DAYS * _billed(plan.calls_a_day, start["gateway"], own, at_once)
    return seconds


def _by_tool(measured: Measurements) -> dict[str, tuple[float, CallWork]]:
    """Return the share of calls of each tool, and the mean usage of its calls."""
    shares: dict[str, tuple[float, CallWork]] = {}
    for call in measured.calls:
        share, work = shares.get(call.tool, (0.0, CallWork()))
        more = call.a_day / measured.mix
        shares[call.tool] = (share + more, work + call.work.times(more))
    return {name: (share, work.times(1 / share)) for name, (share, work) in shares.items()}


def _billed(a_day: float, start: float, work: CallWork, concurrency: int) -> float:
    """Return the daily instance seconds: of single calls, or of concurrent ones.

    Args:
        a_day: Calls.
        start: Seconds that an instance takes to start.
        work: What a call takes.
        concurrency: Calls that an instance takes at once.
    """
    every_second = a_day / DAY
    if every_second * work.seconds > 1:
        return DAY * instances(every_second, work.seconds, work.processor, concurrency)
    return a_day * _rounded(work.seconds + start * _cold(a_day))


def _cold(a_day: float) -> float:
    """Return the share of calls that cause a cold start."""
    return min(1.0, STARTS_A_DAY / a_day) if a_day else 0.0


def _rounded(seconds: float) -> float:
    return math.ceil(round(seconds / STEP, 6)) * STEP


def _models(work: CallWork, *, model: bool) -> list[Item]:
    asked = 1.0 if model else 0.0
    return [
        Item("embedding", "embedding", _month(work.embedded)),
        Item("language model, input", "generation_input", _month(work.input_tokens * asked)),
        Item("language model, output", "generation_output", _month(work.output_tokens * asked)),
    ]


def _fixed(plan: Plan) -> list[Item]:
    """Return the items that hardly depend on usage."""
    number = len(plan.functions)
    images = (
        BASE_IMAGE + sum(plan.measured.image[function.kind] for function in plan.functions) / 1000
    )
    starts = plan.calls_a_day * _cold(plan.calls_a_day) * DAYS
    return [
        Item("schedules", "scheduler", _month(len(_jobs(plan)))),
        Item("alerts", "alerting", _month(plan.conditions)),
        Item("images", "images", _month(images)),
        Item("builds", "builds", _month(DEPLOYMENTS * number * BUILD_MINUTES)),
        Item("secrets", "secret_versions", _month(SECRETS)),
        Item("accesses of secrets", "secret_accesses", _month(starts * SECRETS)),
        Item("bucket of deployments", "bucket", _month(BUNDLES)),
    ]


def _filling(plan: Plan) -> CallWork:
    return _sum(work for name, work in plan.measured.filling.items() if _works(name, plan))


def _works(name: str, plan: Plan) -> bool:
    return plan.model or name not in NEED_A_MODEL


def _idle(job: Function, plan: Plan) -> CallWork:
    return plan.measured.idle.get(job.name, CallWork())


def _jobs(plan: Plan, *, daily: bool | None = None) -> list[Function]:
    """Return the scheduled jobs: all, those that run daily, or the others."""
    jobs = [function for function in plan.functions if function.schedule]
    return [job for job in jobs if daily is None or runs_of(job.schedule).daily is daily]


def _share_that_writes(plan: Plan) -> float:
    mix = plan.measured
    return sum(call.a_day for call in mix.calls if call.effect != "read") / mix.mix


def _sum(works: Iterable[CallWork]) -> CallWork:
    return reduce(add, works, CallWork())


def _month(amount: float) -> Amount:
    return Amount.of_month(amount)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a schedule.

    Attributes:
        a_day: On a day on which it runs.
        days: How many such days a month has.
    """

    a_day: int
    days: float

    @property
    def a_month(self) -> float:
        """The runs of a month."""
        return self.a_day * self.days

    @property
    def daily(self) -> bool:
        """Whether it runs every day."""
        return self.days == DAYS


def runs_of(schedule: str) -> Runs:
    """Parse a schedule in cron format; an empty one has no runs.

    Raises:
        ValueError: It is none, or has both a day of the month and one of the week.
    """
    if not schedule:
        return Runs(0, 0.0)
    fields = schedule.split()
    if len(fields) != len(_RANGES):
        raise ValueError(f"a schedule has five fields: {schedule!r}")
    counts = [_count(text, *ends) for text, ends in zip(fields, _RANGES, strict=True)]
    minutes, hours, days, months, weekdays = counts
    if fields[2] != "*" and fields[4] != "*":
        raise ValueError(f"days of the month and of the week at once: {schedule!r}")
    share = days / 31 * months / 12 * min(weekdays, 7) / 7
    return Runs(minutes * hours, DAYS * share)


def _count(text: str, first: int, last: int) -> int:
    """Return the number of values that a field matches."""
    return len(set().union(*(_values(part, first, last) for part in text.split(","))))


def _values(part: str, first: int, last: int) -> set[int]:
    span, _, step = part.partition("/")
    if span != "*":
        start, _, end = span.partition("-")
        first, last = int(start), int(end or (last if step else start))
    return set(range(first, last + 1, int(step or 1)))
