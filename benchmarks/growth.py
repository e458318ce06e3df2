"""The documents and round trips of calls as the base grows: 1,000, 5,000 and 20,000 chunks.

Usage: python -m benchmarks.growth [CHUNKS ...]

The base grows in one emulator, with copies of SciFact's abstracts and their vectors. What does not
depend on the size of the base is the same in all columns. Firestore also bills the index entries
that a vector query scans, one read per hundred; the emulator does not count them.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from dataclasses import replace
from itertools import count, islice
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.dataset import SCIFACT, CachingEmbedder, read_sources, scifact_vectors
from benchmarks.measurement import print_table
from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from infra.build.discovery import tools
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.ingestion import BATCH_SIZE, Ingestion
from shared.runtime.context import App
from shared.runtime.invocation import parse_arguments
from shared.runtime.job import Budget
from tests.support.knowledge import with_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.knowledge.ingestion import ChunkedSource
    from shared.runtime.context import Context

PROJECT: Final = "bench-growth"
SIZES: Final = (1_000, 5_000, 20_000)
QUESTIONS: Final = (
    "vitamin D and bone density",
    "gene expression in tumour cells",
    "mortality after surgery in elderly patients",
)
CATEGORY: Final = "articles"
TAGS: Final = ("odd", "seventh", "hundredth")


def calls(chunk_id: str, source_id: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The calls to measure, by name."""
    for question in QUESTIONS:
        yield "search_kb", "search_kb", {"query": question}
        yield "search_kb, semantic", "search_kb", {"query": question, "mode": "semantic"}
        yield "search_kb, lexical", "search_kb", {"query": question, "mode": "lexical"}
        for tag in TAGS:
            filters = {"tags": [tag]}
            yield f"search_kb, tag {tag}", "search_kb", {"query": question, "filters": filters}
        several = {"tags": ["seventh"], "category": CATEGORY, "period": "last_30_days"}
        yield "search_kb, three filters", "search_kb", {"query": question, "filters": several}
    yield "search_kb, by date", "search_kb", {"filters": {"tags": ["seventh"]}}
    yield "get_chunk", "get_chunk", {"chunk_id": chunk_id}
    yield "get_source", "get_source", {"source_id": source_id}
    yield "list_sources", "list_sources", {}
    yield "list_clusters", "list_clusters", {}
    yield "get_recent", "get_recent", {"period": "last_30_days"}
    yield "get_stats", "get_stats", {}


def endless_sources() -> Iterator[ChunkedSource]:
    """Yield copies of abstracts with known vectors, and with tags of known frequency."""
    vectors = scifact_vectors()
    for turn in count():
        for number, source in enumerate(read_sources(SCIFACT / "corpus.jsonl")):
            every = {"odd": 2, "seventh": 7, "hundredth": 100}
            tags = tuple(tag for tag in TAGS if number % every[tag] == 0)
            again = replace(
                source, source_id=f"{source.source_id}-{turn}", tags=tags, category=CATEGORY
            )
            chunked = with_chunks(again)
            if all(chunk.embedding_text in vectors for chunk in chunked.chunks):
                yield chunked


async def fill_in_steps(ctx: Context, sources: Iterator[ChunkedSource], chunks: int) -> None:
    """Add at least this many chunks, and run the jobs."""
    while chunks > 0:
        block = list(islice(sources, BATCH_SIZE))
        chunks -= sum(len(source.chunks) for source in block)
        await Ingestion(ctx.database).save(block, ctx.clock())
    for job in (embed, index):
        await job(ctx, Budget(math.inf))


async def cost(app: App, source: ChunkedSource) -> dict[str, str]:
    """The documents and round trips of each call, as medians over its questions."""
    by_name = {tool.name: tool for tool in tools()}
    taken: dict[str, list[Meter]] = {}
    for name, tool, arguments in calls(source.chunks[0].chunk_id, source.source.source_id):
        meter = Meter()
        parsed = parse_arguments(by_name[tool].input, arguments, tool)
        await by_name[tool].run(parsed, app.context(Caller(), meter))
        taken.setdefault(name, []).append(meter)
    return {name: _print(meters) for name, meters in taken.items()}


def _print(meters: Sequence[Meter]) -> str:
    reads = median(meter.documents_read for meter in meters)
    return f"{reads:.0f} in {max(meter.round_trips for meter in meters)}"


async def measure(sizes: Sequence[int]) -> None:
    """Grow the base, and measure all calls at each size."""
    settings = Settings(google_cloud_project=PROJECT)
    embedder = CachingEmbedder(LocalEmbedder(), scifact_vectors())
    app = App(settings, embedder=embedder)
    sources = endless_sources()
    first = next(sources)
    ctx = app.context(Caller(), Meter())
    await Ingestion(ctx.database).save([first], ctx.clock())
    columns: list[dict[str, str]] = []
    present = 0
    for size in sizes:
        await fill_in_steps(ctx, sources, size - present)
        present = size
        columns.append(await cost(app, first))
    await app.aclose()
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    title = "Documents read, in how many round trips after one another, by chunks in the base"
    print_table(title, ["", *(f"{size:,}" for size in sizes)], rows)


def main() -> None:
    """Measure at the named sizes."""
    if not SCIFACT.is_dir():
        sys.exit(f"Skipped: {SCIFACT} is not here. It is no part of the project.")
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(measure(sizes))
    except EmulatorMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
