"""The budgets of `search_kb`: times beside the same requests issued bare, documents, round trips.

Usage: python -m benchmarks.search [ROUNDS] [CHUNKSxDIMENSION ...]

It runs in one process, without HTTP, on the emulator; the base is synthetic, see that module.
The bare requests are the cheapest that answer the same question: their ids and facets are known
before the clock starts, so that nothing is computed between them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from itertools import cycle
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measurement import interleaved, milliseconds, print_table, ratio, timed
from benchmarks.synthetic import SyntheticBase, SyntheticEmbedder, SyntheticTexts
from functions.tools.knowledge.search_kb.filters import to_selection
from functions.tools.knowledge.search_kb.tool import In, search_kb
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.index import bm25
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.index.stored_vector import COMPACT
from shared.index.vector_index import nearest_query
from shared.knowledge.chunk_repository import COLLECTION, READ_FIELDS
from shared.runtime.context import App
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.search.filter_plan import plan_filters
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.measurement import Measurement
    from shared.ai.embedding import Vector

ROUNDS: Final = 20
BASES: Final = ((2_000, 384), (2_000, 768), (20_000, 384))
"""The numbers of chunks and the dimensions of their vectors."""
WORDS: Final = {384: 150, 768: 370}
"""The number of words of a chunk: 1,000 and 2,600 characters."""
QUESTIONS: Final = 5
"""Each is asked once before the clock starts, which fills caches."""
MAX_ROUND_TRIPS: Final = 3
MAX_DOCUMENTS: Final = 85
"""Documents that a search without filters may read."""
HYBRID_TO_DENSE: Final = 1.35
DENSE_TO_BARE: Final = 1.25
_CALLER: Final = Caller.of("reader")


@dataclass(frozen=True, slots=True)
class Search:
    """A way to search.

    Attributes:
        arguments: The arguments of `search_kb` beside the query.
        max_documents: The documents that it may read, on average. With filters, it is what was read
            at 2,000 chunks when the budget was set.
    """

    arguments: dict[str, Any]
    max_documents: int


SEARCHES: Final = {
    "hybrid": Search({}, MAX_DOCUMENTS),
    "dense only": Search({"mode": "semantic"}, MAX_DOCUMENTS),
    "words only": Search({"mode": "lexical"}, MAX_DOCUMENTS),
    "one tag": Search({"filters": {"tags": ["seventh"]}}, 90),
    "author": Search({"filters": {"author": "Author 7"}}, 60),
    "three filters": Search(
        {"filters": {"tags": ["odd"], "category": "books", "period": "last_30_days"}}, 434
    ),
    "date span": Search({"filters": {"period": "last_30_days"}}, 190),
}


@dataclass(frozen=True, slots=True)
class BareSearch:
    """The requests of one search, with what they need to know.

    Attributes:
        vector: The vector of the question.
        postings: The postings to read: of terms and of filters.
        facets: The facets that the vector search filters by.
        lexical: The ids of the chunks with the best BM25 scores.
    """

    vector: Vector
    postings: list[tuple[str, str]]
    facets: tuple[str, ...]
    lexical: list[str]


class BareRequests:
    """Issues the requests of searches with Google's client alone."""

    def __init__(self, app: App, texts: SyntheticTexts) -> None:
        """Use the connection of this app."""
        self._app = app
        self._texts = texts
        self._client = app.connection.client
        self._chunks = self._client.collection(COLLECTION)

    async def prepare(self, question: str, search: Search) -> BareSearch:
        """Find out what a search needs to know, before its time is measured."""
        ctx = self._app.context(_CALLER, Meter())
        selection = to_selection(
            In(query=question, **search.arguments).filters, ctx.clock(), cards_only=False
        )
        query_terms = terms(question)
        read = await InvertedIndex(ctx.database, KNOWLEDGE).read(query_terms, selection.facets)
        plan = plan_filters(selection, read.facets)
        scores = bm25.score(query_terms, read.terms, read.totals)
        passing = {
            name: score
            for name, score in scores.items()
            if plan.dates is None or name in plan.dates
        }
        best = sorted(passing, key=lambda name: (-passing[name], name))[:LEXICAL_POOL]
        postings = [(KNOWLEDGE.lexicon, term) for term in dict.fromkeys(query_terms)]
        postings += [(KNOWLEDGE.facets, facet.id) for facet in selection.facets]
        vector = self._texts.vector(question)
        return BareSearch(vector, [*postings, KNOWLEDGE.totals], plan.prefilter.facets, best)

    async def nearest(self, search: BareSearch) -> list[str]:
        """Find the nearest chunks."""
        query = nearest_query(self._chunks, READ_FIELDS, search.vector, DENSE_POOL, search.facets)
        return [snapshot.id async for snapshot in query.stream()]

    async def hybrid(self, search: BareSearch) -> None:
        """Read postings and the nearest chunks together, then the chunks that words find."""
        references = [self._client.collection(name).document(key) for name, key in search.postings]
        _, nearest = await asyncio.gather(self._read(references), self.nearest(search))
        others = [self._chunks.document(name) for name in search.lexical if name not in nearest]
        await self._read(others, [*READ_FIELDS, COMPACT])

    async def words(self, search: BareSearch) -> None:
        """Read postings, then the first ten chunks."""
        references = [self._client.collection(name).document(key) for name, key in search.postings]
        await self._read(references)
        await self._read([self._chunks.document(name) for name in search.lexical[:10]], READ_FIELDS)

    async def _read(self, references: Sequence[Any], fields: Sequence[str] | None = None) -> None:
        if references:
            async for _ in self._client.get_all(list(references), fields):
                pass


async def measure(chunks: int, dimension: int, rounds: int) -> bool:
    """Fill a base, search it in every way, and return whether all budgets are met."""
    texts = SyntheticTexts(dimension)
    settings = Settings(google_cloud_project=f"bench-search-{chunks}-{dimension}")
    app = App(settings, embedder=SyntheticEmbedder(texts))
    await SyntheticBase(app.context(_CALLER, Meter()), texts, WORDS[dimension]).grow(chunks)
    bare = BareRequests(app, texts)
    questions = [texts.question(number) for number in range(QUESTIONS)]
    meters: dict[str, list[Meter]] = {name: [] for name in SEARCHES}
    measurements: dict[str, Measurement] = {}
    for name, search in SEARCHES.items():
        prepared = [await bare.prepare(question, search) for question in questions]
        floor = {"dense only": bare.nearest, "words only": bare.words}.get(name, bare.hybrid)
        measurements[name] = timed(_searching(app, search, questions, meters[name]))
        measurements[f"bare {name}"] = timed(_repeating(floor, prepared))
    seconds = await interleaved(measurements, rounds, warm_up=QUESTIONS)
    await app.aclose()
    _print_times(f"{chunks:,} chunks, {dimension} dimensions", seconds, meters)
    return _print_budgets(seconds, meters)


def _searching(
    app: App, search: Search, questions: Sequence[str], meters: list[Meter]
) -> Callable[[], Awaitable[object]]:
    remaining = cycle(questions)

    async def search_once() -> None:
        meters.append(Meter())
        args = In(query=next(remaining), **search.arguments)
        await search_kb(args, app.context(_CALLER, meters[-1]))

    return search_once


def _repeating(
    floor: Callable[[BareSearch], Awaitable[object]], prepared: Sequence[BareSearch]
) -> Callable[[], Awaitable[object]]:
    remaining = cycle(prepared)
    return lambda: floor(next(remaining))


def _documents(meters: Sequence[Meter]) -> float:
    return mean(meter.documents_read for meter in meters)


def _print_times(
    base: str, seconds: dict[str, list[float]], meters: dict[str, list[Meter]]
) -> None:
    rows = [
        [
            name,
            milliseconds(seconds[name]),
            milliseconds(seconds[f"bare {name}"]),
            f"{ratio(seconds[name], seconds[f'bare {name}']):.2f}",
            f"{_documents(meters[name]):.0f}",
            f"{max(meter.round_trips for meter in meters[name])}",
        ]
        for name in SEARCHES
    ]
    columns = ["", "p50 ms", "bare ms", "to bare", "documents", "round trips"]
    print_table(f"search_kb at {base}", columns, rows)


def _print_budgets(seconds: dict[str, list[float]], meters: dict[str, list[Meter]]) -> bool:
    dense = seconds["dense only"]
    budgets = [
        ("hybrid to dense only", HYBRID_TO_DENSE, ratio(seconds["hybrid"], dense)),
        (
            "dense only to bare find_nearest",
            DENSE_TO_BARE,
            ratio(dense, seconds["bare dense only"]),
        ),
    ]
    for name, search in SEARCHES.items():
        budgets.append((f"documents, {name}", search.max_documents, _documents(meters[name])))
        trips = max(meter.round_trips for meter in meters[name][QUESTIONS:])
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


async def _main(rounds: int, bases: Sequence[tuple[int, int]]) -> bool:
    return all([await measure(chunks, dimension, rounds) for chunks, dimension in bases])


def main() -> None:
    """Measure the bases, and end with 1 if a budget is not met."""
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    named = [argument.split("x") for argument in sys.argv[1:] if "x" in argument]
    bases = [(int(chunks), int(dimension)) for chunks, dimension in named] or BASES
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            met = asyncio.run(_main(int(numbers[0]) if numbers else ROUNDS, bases))
    except EmulatorMissing as error:
        sys.exit(str(error))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
