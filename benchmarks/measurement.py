"""Interleaved measurements, reported as ratios, for a machine that other programs use, too.

A measurement and its baseline alternate. A temporary slowdown of the machine affects both, so the
median of the ratios of pairs is stable when times are not.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    Measurement = Callable[[], Awaitable[float]]
    """Runs an operation once, and returns its duration in seconds."""


def timed(operation: Callable[[], Awaitable[object]]) -> Measurement:
    """Measure the elapsed time of an operation."""

    async def measured() -> float:
        started = time.perf_counter()
        await operation()
        return time.perf_counter() - started

    return measured


async def interleaved(
    measurements: Mapping[str, Measurement], rounds: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Run all measurements in each round, in alternating order, after warm-up rounds."""
    durations: dict[str, list[float]] = {name: [] for name in measurements}
    for number in range(warm_up + rounds):
        for name in list(measurements)[:: 1 if number % 2 else -1]:
            seconds = await measurements[name]()
            if number >= warm_up:
                durations[name].append(seconds)
    return durations


def ratio(values: Sequence[float], floor: Sequence[float]) -> float:
    """Return the median of the ratios of values of the same round."""
    return median(value / least for value, least in zip(values, floor, strict=True))


def milliseconds(values: Sequence[float]) -> str:
    """Format the median of seconds in milliseconds."""
    return f"{median(values) * 1000:.1f}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print(f"\n{title}")  # noqa: T201 - a benchmark prints
    for row in (columns, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))  # noqa: T201 - the same
