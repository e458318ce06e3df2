"""The budgets of `search_kb`: documents, round trips, and times relative to the bare requests.

Usage: python -m benchmarks.search [ROUNDS] [CHUNKSxDIMENSION ...]

It runs in one process, without HTTP, on the emulator, with a synthetic base
(`benchmarks.synthetic`). The bare requests are the same ones, sent
with Google's client alone (`benchmarks.floors`).
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from itertools import cycle
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.emulator import use_emulator
from benchmarks.floors import make_knowledge_searches
from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_measurement,
    measure_interleaved,
    print_table,
)
from benchmarks.synthetic import SyntheticBase, SyntheticEmbedder, SyntheticTexts
from functions.tools.knowledge.search_kb.filters import to_selection
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.floors import BareSearch, BareSearches
    from benchmarks.measurement import Measurement
    from shared.knowledge.chunk import Chunk

ROUNDS: Final = 20
BASES: Final = ((2_000, 384), (2_000, 768), (20_000, 384))
"""The numbers of chunks and the dimensions of their vectors."""
QUESTION_COUNT: Final = 5
"""The number of different questions. Each is asked once before the clock starts, to fill caches."""
MAX_ROUND_TRIPS: Final = 3
MAX_DOCUMENTS: Final = 85
"""The mean number of documents that a search without filters may read."""
MAX_HYBRID_TO_DENSE: Final = 1.35
"""The budget for the time of a hybrid search, relative to a search by meaning alone."""
MAX_DENSE_TO_BARE: Final = 1.25
"""The budget for the time of a search by meaning, relative to its bare requests."""
_CALLER: Final = Caller.of("reader")


@dataclass(frozen=True, slots=True)
class Search:
    """A way to search.

    Attributes:
        arguments: The arguments of `search_kb` in addition to the query.
        max_documents: The documents that it may read, on average. With filters, it is what was read
            in this base of 2,000 chunks before chunks had compact vectors (commit 321b304b).
    """

    arguments: dict[str, Any]
    max_documents: int


SEARCHES: Final = {
    "hybrid": Search({}, MAX_DOCUMENTS),
    "dense only": Search({"mode": "semantic"}, MAX_DOCUMENTS),
    "words only": Search({"mode": "lexical"}, MAX_DOCUMENTS),
    "one tag": Search({"filters": {"tags": ["seventh"]}}, 95),
    "author": Search({"filters": {"author": "Author 7"}}, 66),
    "three filters": Search(
        {"filters": {"tags": ["second"], "category": "books", "period": "last_30_days"}}, 437
    ),
    "date span": Search({"filters": {"period": "last_30_days"}}, 196),
}


async def measure(chunks: int, dimension: int, rounds: int) -> bool:
    """Fill a base, search it in every way, and return whether all budgets are met."""
    texts = SyntheticTexts(dimension)
    settings = Settings(google_cloud_project=f"bench-search-{chunks}-{dimension}")
    app = App(settings, embedder=SyntheticEmbedder(texts))
    await SyntheticBase(app.context(_CALLER, Meter()), texts).grow(chunks)
    bare = make_knowledge_searches(app.context(_CALLER, Meter()))
    questions = [texts.write_question(number) for number in range(QUESTION_COUNT)]
    meters: dict[str, list[Meter]] = {name: [] for name in SEARCHES}
    measurements: dict[str, Measurement] = {}
    for name, search in SEARCHES.items():
        prepared = [await _prepare(bare, texts, question, search) for question in questions]
        floor = {"dense only": bare.find_nearest, "words only": bare.search_by_words}.get(
            name, bare.search_by_both
        )
        measurements[name] = make_measurement(_make_search(app, search, questions, meters[name]))
        measurements[f"bare {name}"] = make_measurement(_make_repetition(floor, prepared))
    seconds = await measure_interleaved(measurements, rounds, warm_up=QUESTION_COUNT)
    await app.aclose()
    _print_times(f"{chunks:,} chunks, {dimension} dimensions", seconds, meters)
    return _print_budgets(seconds, meters)


async def _prepare(
    bare: BareSearches[Chunk], texts: SyntheticTexts, question: str, search: Search
) -> BareSearch:
    args = In(query=question, **search.arguments)
    selection = to_selection(args.filters, utc_now(), cards_only=False)
    return await bare.prepare(question, texts.embed(question), selection)


def _make_search(
    app: App, search: Search, questions: Sequence[str], meters: list[Meter]
) -> Callable[[], Awaitable[object]]:
    remaining = cycle(questions)

    async def search_once() -> None:
        meters.append(Meter())
        args = In(query=next(remaining), **search.arguments)
        await search_kb(args, app.context(_CALLER, meters[-1]))

    return search_once


def _make_repetition(
    floor: Callable[[BareSearch], Awaitable[object]], prepared: Sequence[BareSearch]
) -> Callable[[], Awaitable[object]]:
    remaining = cycle(prepared)
    return lambda: floor(next(remaining))


def _compute_mean_documents(meters: Sequence[Meter]) -> float:
    return mean(meter.documents_read for meter in meters)


def _print_times(
    base: str, seconds: dict[str, list[float]], meters: dict[str, list[Meter]]
) -> None:
    rows = [
        [
            name,
            format_milliseconds(seconds[name]),
            format_milliseconds(seconds[f"bare {name}"]),
            f"{compute_ratio(seconds[name], seconds[f'bare {name}']):.2f}",
            f"{_compute_mean_documents(meters[name]):.0f}",
            f"{max(meter.round_trips for meter in meters[name])}",
        ]
        for name in SEARCHES
    ]
    columns = ["", "p50 ms", "bare ms", "to bare", "documents", "round trips"]
    print_table(f"search_kb at {base}", columns, rows)


def _print_budgets(seconds: dict[str, list[float]], meters: dict[str, list[Meter]]) -> bool:
    dense = seconds["dense only"]
    budgets = [
        ("hybrid to dense only", MAX_HYBRID_TO_DENSE, compute_ratio(seconds["hybrid"], dense)),
        (
            "dense only to bare find_nearest",
            MAX_DENSE_TO_BARE,
            compute_ratio(dense, seconds["bare dense only"]),
        ),
    ]
    for name, search in SEARCHES.items():
        budgets.append(
            (f"documents, {name}", search.max_documents, _compute_mean_documents(meters[name]))
        )
        trips = max(meter.round_trips for meter in meters[name][QUESTION_COUNT:])
        budgets.append((f"round trips, {name}", MAX_ROUND_TRIPS, trips))
    rows = [
        [
            name,
            f"{budget:g}",
            f"{value:.2f}".rstrip("0").rstrip("."),
            "yes" if value <= budget else "NO",
        ]
        for name, budget, value in budgets
    ]
    print_table("Budgets", ["", "budget", "measured", "met"], rows)
    return all(value <= budget for _, budget, value in budgets)


async def _measure_all(rounds: int, bases: Sequence[tuple[int, int]]) -> bool:
    return all([await measure(chunks, dimension, rounds) for chunks, dimension in bases])


def main() -> None:
    """Measure the bases, and end with 1 if a budget is not met."""
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    named = [argument.split("x") for argument in sys.argv[1:] if "x" in argument]
    bases = [(int(chunks), int(dimension)) for chunks, dimension in named] or BASES
    with use_emulator():
        are_met = asyncio.run(_measure_all(int(numbers[0]) if numbers else ROUNDS, bases))
    sys.exit(0 if are_met else 1)


if __name__ == "__main__":
    main()
