"""What every tool that reads costs as the base grows, and its time compared with a floor.

Usage: python -m benchmarks.growth [CHUNKSxDIMENSION ...]

The base is synthetic and grows in one emulator (`benchmarks.synthetic`), 20,000 chunks by default.
The floors are the fewest requests that give a correct answer (`benchmarks.floors`). What does not
depend on the size of the base is the same in all tables. Firestore also bills the index entries
that a vector query scans, one read per hundred. The emulator does not count them, and compares
vectors in one thread: trust documents and round trips more than milliseconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.emulator import use_emulator
from benchmarks.floors import Floors
from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_measurement,
    measure_interleaved,
    print_table,
)
from benchmarks.synthetic import (
    READER,
    TAG_INTERVALS,
    SyntheticBase,
    SyntheticEmbedder,
    SyntheticTexts,
)
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import parse_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GROWTH: Final = ((1_000, 384), (5_000, 384), (20_000, 384))
"""The numbers of chunks and the dimensions of their vectors."""
ROUNDS: Final = 5
_CALLER: Final = Caller.of(READER)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call cost.

    Attributes:
        meter: Its documents and round trips.
        seconds: The elapsed time.
        floor: The seconds that the requests of the floor took.
    """

    meter: Meter
    seconds: float
    floor: float


def iterate_calls(base: SyntheticBase, number: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the calls to measure: a name, the tool and its arguments."""
    question = base.texts.write_question(number)
    yield "search_kb", "search_kb", {"query": question}
    yield "search_kb, semantic", "search_kb", {"query": question, "mode": "semantic"}
    yield "search_kb, lexical", "search_kb", {"query": question, "mode": "lexical"}
    for tag in TAG_INTERVALS:
        yield f"search_kb, tag {tag}", "search_kb", {"query": question, "filters": {"tags": [tag]}}
    several = {"tags": ["seventh"], "category": "books", "period": "last_30_days"}
    yield "search_kb, three filters", "search_kb", {"query": question, "filters": several}
    yield "search_kb, by date", "search_kb", {"filters": {"tags": ["seventh"]}}
    yield "get_chunk", "get_chunk", {"chunk_id": base.chunk_ids[number]}
    yield "get_source", "get_source", {"source_id": "book-0"}
    yield "list_sources", "list_sources", {}
    yield "list_clusters", "list_clusters", {}
    yield "get_map", "get_map", {}
    yield "get_cluster", "get_cluster", {"cluster_id": f"cluster-{number}"}
    yield "get_recent", "get_recent", {}
    yield "get_recent, 30 days", "get_recent", {"period": "last_30_days"}
    yield "get_stats", "get_stats", {}
    yield "get_patterns", "get_patterns", {}
    yield "get_warnings, by meaning", "get_warnings", {"query": question}
    yield "list_topics", "list_topics", {}
    yield "search_traces", "search_traces", {"query": question}
    yield "get_trace", "get_trace", {"trace_id": f"trace-{number}"}
    yield "list_tags", "list_tags", {}
    yield "list_tasks", "list_tasks", {}


async def measure(app: App, base: SyntheticBase, title: str) -> None:
    """Make each call and send its floor, and print the costs. The first round fills caches."""
    by_name = {tool.name: tool for tool in tools()}
    floors = Floors(app.context(_CALLER, Meter()), base.texts)
    costs: dict[str, list[Cost]] = {}
    for number in range(ROUNDS + 1):
        for name, tool, arguments in iterate_calls(base, number):
            parsed = parse_arguments(by_name[tool].input, arguments, tool)
            floor, meter = await floors.prepare(tool, arguments), Meter()
            call = partial(by_name[tool].run, parsed, app.context(_CALLER, meter))
            seconds = await measure_interleaved(
                {"call": make_measurement(call), "floor": make_measurement(floor)}, 1, warm_up=0
            )
            if number:
                cost = Cost(meter, *seconds["call"], *seconds["floor"])
                costs.setdefault(name, []).append(cost)
    rows = [_make_row(name, costs_of_call) for name, costs_of_call in costs.items()]
    print_table(title, ["", "documents", "round trips", "p50 ms", "floor ms", "to floor"], rows)


def _make_row(name: str, costs: Sequence[Cost]) -> list[str]:
    seconds, floors = [cost.seconds for cost in costs], [cost.floor for cost in costs]
    return [
        name,
        f"{median(cost.meter.documents_read for cost in costs):.0f}",
        f"{max(cost.meter.round_trips for cost in costs)}",
        format_milliseconds(seconds),
        format_milliseconds(floors),
        f"{compute_ratio(seconds, floors):.2f}",
    ]


async def grow(dimension: int, sizes: Sequence[int]) -> None:
    """Grow a base, and measure all calls at each size."""
    texts = SyntheticTexts(dimension)
    settings = Settings(google_cloud_project=f"bench-growth-{dimension}")
    app = App(settings, embedder=SyntheticEmbedder(texts))
    base = SyntheticBase(app.context(_CALLER, Meter()), texts)
    for size in sizes:
        started = time.perf_counter()
        await base.grow(size)
        filled = time.perf_counter() - started
        await measure(
            app, base, f"{size:,} chunks, {dimension} dimensions, filled in {filled:.0f} s"
        )
    await app.aclose()


async def _measure_all(steps: Sequence[tuple[int, int]]) -> None:
    for dimension, group in groupby(steps, key=lambda step: step[1]):
        await grow(dimension, [chunks for chunks, _ in group])


def main() -> None:
    """Measure at the named sizes."""
    named = [argument.split("x") for argument in sys.argv[1:]]
    steps = [(int(chunks), int(dimension)) for chunks, dimension in named] or GROWTH
    with use_emulator():
        asyncio.run(_measure_all(steps))


if __name__ == "__main__":
    main()
