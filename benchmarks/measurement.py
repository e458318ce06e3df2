"""Interleaved measurements and their ratios, which are stable on a machine that others use, too.

A measurement and its baseline alternate. A temporary slowdown of the machine affects both, so the
median of their ratios is stable when the times are not.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    Measurement = Callable[[], Awaitable[float]]
    """A function that runs an operation once, and returns its duration in seconds."""


def make_measurement(operation: Callable[[], Awaitable[object]]) -> Measurement:
    """Return a measurement of the elapsed time of an operation."""

    async def measure() -> float:
        started = time.perf_counter()
        await operation()
        return time.perf_counter() - started

    return measure


def make_cpu_measurement(code: str) -> Measurement:
    """Return a measurement of the CPU time of a new Python process that runs `code`.

    CPU time excludes waiting, so it depends less on what else the machine does.
    """

    async def measure() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
        if await process.wait():
            raise RuntimeError(f"This code failed: {code}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return measure


async def measure_interleaved(
    measurements: Mapping[str, Measurement], rounds: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Run all measurements in each round, and return the durations by name.

    Every other round runs the measurements in reverse order. Warm-up rounds are not returned.
    """
    durations: dict[str, list[float]] = {name: [] for name in measurements}
    names = list(measurements)
    for number in range(warm_up + rounds):
        for name in names if number % 2 else reversed(names):
            seconds = await measurements[name]()
            if number >= warm_up:
                durations[name].append(seconds)
    return durations


def compute_ratio(values: Sequence[float], baselines: Sequence[float]) -> float:
    """Return the median ratio of a value to the baseline of the same round."""
    return median(value / baseline for value, baseline in zip(values, baselines, strict=True))


def format_milliseconds(seconds: Sequence[float]) -> str:
    """Format the median of durations in milliseconds."""
    return f"{median(seconds) * 1000:.1f}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print(f"\n{title}")
    for row in (columns, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))
