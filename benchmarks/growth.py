"""What every tool that reads takes over HTTP as the base grows, and the memory of the gateway.

Usage: python -m benchmarks.growth [CHUNKS ...]

The base is synthetic (`benchmarks.synthetic`) and grows in the local database, to 5,000 and 20,000
chunks by default. At each size, a new gateway with all tools in its process answers the calls one
after another. It embeds questions with the local model. The first round, which fills caches and
loads vectors, is shown on its own. Cloud Firestore also bills the index entries that a vector query
scans, one read per hundred.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

import httpx2

from benchmarks.calls import use_bare_http
from benchmarks.database import use_database
from benchmarks.measurement import print_table
from benchmarks.synthetic import (
    READER,
    TAG_INTERVALS,
    SyntheticBase,
    SyntheticEmbedder,
    SyntheticTexts,
)
from infra.build.discovery import ROOT
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.gateway_process import run_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZES: Final = (5_000, 20_000)
ROUNDS: Final = 20
_GATEWAY: Final = ROOT / "benchmarks" / "synthetic_gateway.py"
_ENVIRONMENT: Final = {"LOCAL_USER": READER, "READS_PER_MINUTE": "1000000"}


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
    yield "get_source", "get_source", {"source_id": f"book-{number}"}
    yield "list_sources", "list_sources", {}
    yield "list_clusters", "list_clusters", {}
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


async def measure(base: SyntheticBase, endpoint: str) -> list[list[str]]:
    """Make each call in each round, and return the rows of the table."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    receipts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    async with httpx2.AsyncClient(timeout=60) as client:
        method = use_bare_http(client, endpoint, modern=True)
        for number in range(ROUNDS + 1):
            for name, tool, arguments in iterate_calls(base, number):
                started = time.perf_counter()
                await method.call(tool, arguments)
                seconds[name].append(time.perf_counter() - started)
                receipts[name].append(method.receipts[-1])
    return [_make_row(name, seconds[name], receipts[name]) for name in seconds]


def _make_row(name: str, seconds: Sequence[float], receipts: Sequence[dict[str, Any]]) -> list[str]:
    first, *others = (1_000 * value for value in seconds)
    return [
        name,
        f"{median(receipt['documents_read'] for receipt in receipts[1:]):.0f}",
        f"{max(receipt['round_trips'] for receipt in receipts[1:])}",
        *(f"{value:.1f}" for value in (median(others), quantiles(others, n=20)[-1], first)),
    ]


def read_memory(pid: int) -> list[str]:
    """Return the memory of a process in MiB: what it holds now, and the most that it held."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    sizes = re.findall(r"^Vm(?:RSS|HWM):\s+(\d+) kB", status, re.MULTILINE)
    peak, now = (f"{int(size) // 1024}" for size in sizes)
    return [now, peak]


async def main(sizes: Sequence[int]) -> None:
    """Grow a base, and measure all calls at each size."""
    use_database()
    texts = SyntheticTexts()
    app = App(Settings(), embedder=SyntheticEmbedder(texts))
    base = SyntheticBase(app.context(Caller.of(READER), Meter()), texts)
    for size in sizes:
        started = time.perf_counter()
        await base.grow(size)
        filled = time.perf_counter() - started
        with (
            tempfile.TemporaryDirectory() as folder,
            run_gateway(_GATEWAY, _ENVIRONMENT, Path(folder) / "gateway.log") as running,
        ):
            pid = running.gateway.process.pid
            memory = [["after its start", *read_memory(pid)]]
            rows = await measure(base, running.endpoint)
            memory.append(["after the calls", *read_memory(pid)])
        columns = ["", "documents", "round trips", "p50 ms", "p95 ms", "first ms"]
        print_table(f"{size:,} chunks, written in {filled:.0f} s", columns, rows)
        print_table("Memory of the gateway, MiB", ["", "now", "at most"], memory)
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main([int(argument) for argument in sys.argv[1:]] or SIZES))
