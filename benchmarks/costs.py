"""What Carrel costs one person a month in the cloud, for the table of `docs/deploy.md`.

Usage: python -m benchmarks.costs

On the local database, the sample is loaded once and four times; calls, and jobs with nothing to do,
are counted. A call costs the same at any size but for its scan; jobs follow a line through both.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from benchmarks.database import use_database
from benchmarks.dataset import QUESTIONS, CachingEmbedder, fill_database
from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from infra.build.discovery import jobs
from infra.local.local_database import SAMPLE
from infra.local.sample.traces import share_traces
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.ids import parse_source_id
from shared.core.log import log_only_warnings
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Job, Report, run_job
from shared.text.tokens import count_tokens
from tests.support.tool_calls import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.ai.embedding import Purpose, Vector

    Usage = NDArray[np.float64]
    """Documents read, documents written, tokens embedded, and shares of all vectors scanned."""

DAYS: Final = 365.25 / 12
PRICES: Final = {
    # Dollars, for how many units, and how many are free a month; us-central1, read on 2026-11-22.
    "Firestore reads": (0.03, 100_000, 50_000 * DAYS),
    "Firestore writes": (0.09, 100_000, 20_000 * DAYS),
    "GiB stored": (0.15, 1, 1),
    "GiB for point-in-time recovery": (0.15, 1, 0),
    "tokens embedded": (0.15, 1_000_000, 0),
    "invocations": (0.40, 1_000_000, 2_000_000),
    "vCPU-seconds": (0.000024, 1, 180_000),
    "GB of images": (0.10, 1, 0.5),
    "schedules": (0.10, 1, 3),
    "language model: tokens read": (0.30, 1_000_000, 0),
    "language model: tokens written": (2.50, 1_000_000, 0),
}
SIZES: Final = (1_000, 10_000, 100_000)  # passages
CALLS_A_DAY: Final = 100
NEW_PASSAGES_A_DAY: Final = 10
INVOCATIONS_A_CALL: Final = 3  # the gateway, the tool, and one to connect or to list tools
SECONDS_AN_INVOCATION: Final = 1  # of a vCPU, with the invocation's share of cold starts
IMAGES_GB: Final = 1.5
MODEL_TOKENS: Final = (3_700, 240)  # read and written for a passage's card and extractions
ENTRIES_A_READ: Final = 100  # entries of a vector index that are billed as one read
VECTOR_ENTRY_BYTES: Final = 8 * 768 + 200  # a passage has one, and one for each facet
OTHER_BYTES: Final = 10_000  # of a passage: document, other index entries, share of postings


class TokenCounter(CachingEmbedder):
    """An embedder that counts tokens."""

    tokens = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts, and count their tokens."""
        self.tokens += sum(map(count_tokens, texts))
        return await super().embed(texts, purpose)


class Figures(NamedTuple):
    """The usage of a base: of a new passage, of a hundred calls, and of idle runs of jobs."""

    chunks: int
    facets: float
    passage: Usage
    calls: Usage
    idle: dict[str, Usage]


async def measure(copies: int) -> Figures:
    """Load the sample this many times, make the calls, and run the jobs with nothing to do."""
    embedder = TokenCounter(LocalEmbedder(), {})
    settings = Settings(google_cloud_project=f"costs-{copies}", ingest_path=str(SAMPLE))
    app = App(settings, embedder=embedder)
    meter = Meter()
    base = await fill_database(app.context(Caller(), meter), 64 * copies, {})
    loading = np.array([meter.documents_read, meter.documents_written, embedder.tokens, 0])
    loading = loading + await run(CARDS, app) + await run(CLUSTER, app)
    await share_traces(app.context(Caller(), Meter()))
    calls = np.zeros(4)
    for number, share, name, arguments in await list_calls(app, base.chunk_ids[0]):
        embedder.tokens = 0
        answer = await call(app, name, **arguments)
        if answer.error:
            raise RuntimeError(answer.error)
        cost = answer.receipt
        usage = [cost.documents_read, cost.documents_written, embedder.tokens, share]
        calls += number * np.array(usage)
    scheduled = [job for job in jobs() if job.schedule]
    # The first runs ingest the sample itself, and have work left; the last ones count.
    idle = {job.name: await run(job, app) for job in scheduled * 4}
    documents = await app.connection.client.collection("chunks").select(["facets"]).get()
    await app.aclose()
    facets = sum(len(document.get("facets")) for document in documents) / len(documents)
    return Figures(len(documents), facets, loading / len(base.chunk_ids), calls, idle)


async def run(job: Job, app: App) -> Usage:
    """Run a job until it has finished."""
    report = await run_job(job, app, seconds=math.inf)
    if not isinstance(report, Report) or report.failures:
        raise RuntimeError(f"{job.name}: {report}")
    return np.array([report.cost.documents_read, report.cost.documents_written, 0, 0])


async def list_calls(app: App, chunk_id: str) -> list[tuple[int, float, str, dict[str, Any]]]:
    """List a hundred usual calls: how many, the share of vectors they scan, tool, arguments."""
    traces = (await call(app, "search_traces", query="error")).result or {}
    first, second, third = ({"query": question} for question in QUESTIONS)
    trace = {"trace_id": traces["results"][0]["trace_id"]}
    return [
        (30, 1, "search_kb", first),
        (15, 1 / 7, "search_kb", second | {"filters": {"tags": ["testing"]}}),
        (15, 1, "get_chunk", {"chunk_id": chunk_id}),
        (6, 0, "get_source", {"source_id": parse_source_id(chunk_id)}),
        (7, 0, "get_recent", {"period": "last_30_days"}),
        (2, 0, "get_stats", {}),
        (4, 0, "get_warnings", third),
        (6, 0, "search_traces", third),
        (3, 0, "get_trace", trace),
        (1, 0, "vote_trace", trace | {"vote_type": "up"}),
        (5, 0, "list_tasks", {}),
        (4, 0, "add_task", {"title": "Read a passage"}),
        (2, 0, "extract_key_info", {"query": "tests", "materials": "Some tests fail. " * 1_000}),
    ]


def count_runs(schedule: str) -> float:
    """Return how often a month a schedule in cron format runs."""
    runs = DAYS
    minute, hour, _, _, weekday = schedule.split()
    for field, count in ((minute, 60), (hour, 24), (weekday, 7)):
        span, _, step = field.partition("/")
        first, _, last = ("0", "-", count - 1) if span == "*" else span.partition("-")
        runs *= len(range(int(first), int(last or first) + 1, int(step or 1)))
    return runs / 7


def compute_month(small: Figures, large: Figures, chunks: int) -> dict[str, float]:
    """Return the amounts of a month for a base of this size, by the names of their prices."""
    new = NEW_PASSAGES_A_DAY * DAYS
    usage = new * large.passage + CALLS_A_DAY / 100 * DAYS * large.calls
    invocations = CALLS_A_DAY * DAYS * INVOCATIONS_A_CALL
    schedules = {job.name: count_runs(job.schedule) for job in jobs() if job.schedule}
    for name, runs in schedules.items():
        slope = (large.idle[name] - small.idle[name]) / (large.chunks - small.chunks)
        usage = usage + runs * (large.idle[name] + slope * (chunks - large.chunks))
        invocations += runs
    reads, writes, tokens, scans = usage
    gib = chunks * ((large.facets + 1) * VECTOR_ENTRY_BYTES + OTHER_BYTES) / 1024**3
    amounts = [reads + scans * chunks / ENTRIES_A_READ, writes, gib, gib, tokens, invocations]
    amounts += [invocations * SECONDS_AN_INVOCATION, IMAGES_GB, len(schedules)]
    amounts += [new * tokens_of_passage for tokens_of_passage in MODEL_TOKENS]
    return dict(zip(PRICES, amounts, strict=True))


async def main() -> None:
    """Print the table in Markdown, and the usage that was counted."""
    small, large = await measure(1), await measure(4)
    months = [compute_month(small, large, chunks) for chunks in SIZES]
    rows = []
    for name, (dollars, units, free) in PRICES.items():
        rows.append([max(0.0, month[name] - free) * dollars / units for month in months])
        cells = [
            f"{month[name]:,.1f} | {cost:.2f}" for month, cost in zip(months, rows[-1], strict=True)
        ]
        print(f"| {name} | ${dollars:g} for {units:,} | {free:,.1f} |", " | ".join(cells), "|")
    print("without a language model:", np.sum(rows[:-2], axis=0).round(2))
    print("with one:", np.sum(rows, axis=0).round(2))
    print("a passage:", large.passage.round(1), "a hundred calls:", large.calls.round(1))


if __name__ == "__main__":
    log_only_warnings()
    use_database()
    asyncio.run(main())
