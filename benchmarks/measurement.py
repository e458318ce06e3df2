"""Interleaved measurements, reported as ratios, for a machine that other programs use, too.

A measurement and its baseline alternate. A temporary slowdown of the machine affects both, so the
median of their ratios is stable when the times are not.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    Measurement = Callable[[], Awaitable[float]]
    """A function that runs an operation once, and returns its duration in seconds."""


def timed(operation: Callable[[], Awaitable[object]]) -> Measurement:
    """Return a measurement of the elapsed time of an operation."""

    async def measured() -> float:
        started = time.perf_counter()
        await operation()
        return time.perf_counter() - started

    return measured


async def interleaved(
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


def ratio(values: Sequence[float], baselines: Sequence[float]) -> float:
    """Return the median ratio of a value to the baseline of the same round."""
    return median(value / baseline for value, baseline in zip(values, baselines, strict=True))


def milliseconds(seconds: Sequence[float]) -> str:
    """Format the median of durations in milliseconds."""
    return f"{median(seconds) * 1000:.1f}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print(f"\n{title}")  # noqa: T201 - a benchmark prints
    for row in (columns, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))  # noqa: T201 - the same
