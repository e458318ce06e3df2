"""The time to ingest a corpus, compared with the speed of the embedder.

Usage: python -m benchmarks.ingest [--limit N] [--files-only]

1. `carrel ingest` reads sixty mixed files and makes cards, clusters and the index, alternating with
   the embedder alone on the same chunks.
2. The jobs `ingest`, `embed` and `index` process SciFact's 5,183 abstracts in a new database. Each
   half minute, `embed` is interrupted to measure the embedder alone on a sample of the chunks.
3. The same jobs run again, and must write nothing but their leases.
4. `repair` compares the index twice.
5. The knowledge base is searched.

The benchmark takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.database import use_database
from benchmarks.dataset import read_sources
from benchmarks.measurement import print_table
from benchmarks.mixed_files import write_mixed_files
from benchmarks.scifact import ABSTRACTS, require_file
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.batches import chunk_in_batches
from functions.jobs.ingest.job import JOB as INGEST
from functions.jobs.ingest.listing import read
from functions.jobs.repair.job import JOB as REPAIR
from functions.tools.knowledge.search_kb.tool import In, search_kb
from infra.local.jobs import ingest_all
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.log import log_only_warnings
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from shared.text.splitting import CHUNK_LIMITS
from tests.support.knowledge import chunk_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.runtime.context import Context
    from shared.runtime.job import Job

JOB_RUNS: Final = (INGEST, EMBED, INDEX, INGEST, EMBED, INDEX, REPAIR, REPAIR)
ROUNDS: Final = 2
SLICE_SECONDS: Final = 30.0
SAMPLE_SIZE: Final = 64
QUESTIONS: Final = ("do vitamins prevent cancer?", "stem cell fate", "risks of heart disease")


@dataclass(slots=True)
class JobProgress:
    """The totals of a job's slices, and for each slice the speed relative to the embedder."""

    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    meter: Meter = field(default_factory=Meter)
    relative_speeds: list[float] = field(default_factory=list)

    def make_cells(self, chunks: int) -> list[str]:
        """Return the cells of the job's row."""
        relative_speed = f"{median(self.relative_speeds):.2f}" if self.relative_speeds else ""
        work_done = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        speed = f"{chunks / self.seconds:.0f}" if self.counts else ""
        document_counts = [str(self.meter.documents_read), str(self.meter.documents_written)]
        return [f"{self.seconds:.1f}", speed, relative_speed, *document_counts, work_done]


class MeteredApp(App):
    """An app whose contexts share one meter."""

    meter = Meter()

    def context(self, caller: Caller, meter: Meter) -> Context:  # noqa: ARG002 - the app's meter counts
        """Return a context with the app's meter."""
        return super().context(caller, self.meter)


async def run(
    job: Job, app: MeteredApp, embedder_speed: Callable[[], Awaitable[float]] | None = None
) -> JobProgress:
    """Run a job to completion, in slices if `embedder_speed` is measured between them."""
    progress = JobProgress()
    app.meter = progress.meter
    while True:
        started = time.perf_counter()
        report = await run_job(replace(job, timeout=SLICE_SECONDS) if embedder_speed else job, app)
        seconds = time.perf_counter() - started
        if not isinstance(report, Report) or report.failures:
            raise RuntimeError(f"{job.name}: {report}")
        progress.seconds += seconds
        progress.counts += report.counts
        if embedder_speed and report.counts["embedded"]:
            progress.relative_speeds.append(
                report.counts["embedded"] / seconds / await embedder_speed()
            )
        if report.finished:
            return progress


async def measure(app: MeteredApp, path: Path) -> None:
    """Run all jobs on a file, and search the knowledge base."""
    chunks = [chunk for source in read_sources(path) for chunk in chunk_source(source).chunks]
    texts = [chunk.embedding_text for chunk in chunks[:: max(1, len(chunks) // SAMPLE_SIZE)]]

    async def embedder_speed() -> float:
        started = time.perf_counter()
        await app.embedder.embed(texts, Purpose.DOCUMENT)
        return len(texts) / (time.perf_counter() - started)

    await embedder_speed()  # loads the model
    rows = []
    for number, job in enumerate(JOB_RUNS):
        progress = await run(job, app, embedder_speed if job is EMBED else None)
        repetition = "again" if job in JOB_RUNS[:number] else "first time"
        rows.append([f"{job.name}, {repetition}", *progress.make_cells(len(chunks))])
    columns = ["", "seconds", "chunks/s", "ratio to embedder", "read", "written", "done"]
    print_table(f"{len(chunks)} chunks of SciFact", columns, rows)
    for question in QUESTIONS:
        out = await search_kb(In(query=question, limit=3), app.context(Caller(), Meter()))
        rows = [[hit.title[:90], f"{hit.score or 0:.2f}"] for hit in out.results]
        print_table(question, ["title", "score"], rows)
    await app.aclose()


def measure_files(folder: Path) -> None:
    """Ingest mixed files with the command's function, alternating with the embedder alone."""
    write_mixed_files(folder)
    sources = (item for item in read(folder) if isinstance(item, Source))
    chunked = (
        source
        for batch in chunk_in_batches(sources, CHUNK_LIMITS["local"])
        for source in batch.accepted
    )
    texts = [chunk.embedding_text for source in chunked for chunk in source.chunks]
    rows = []
    for number in range(ROUNDS):
        floor = asyncio.run(_embed_alone(texts))
        os.environ["GOOGLE_CLOUD_PROJECT"] = f"bench-files-{number}"
        started = time.perf_counter()
        if not ingest_all(folder):
            raise RuntimeError("Some files were not ingested.")
        seconds = time.perf_counter() - started
        speed = len(texts) / floor
        rows.append([f"round {number + 1}", *(f"{n:.1f}" for n in (floor, speed, seconds))])
        rows[-1].append(f"{floor / seconds:.2f}")
    columns = ["", "embedder, s", "texts/s", "carrel ingest, s", "ratio to embedder"]
    print_table(f"{len(texts)} chunks of {len(list(folder.iterdir()))} files", columns, rows)


async def _embed_alone(texts: Sequence[str]) -> float:
    """Embed texts, and return the seconds, including those of loading the model."""
    embedder = LocalEmbedder()
    started = time.perf_counter()
    await embedder.embed(texts, Purpose.DOCUMENT)
    await embedder.aclose()
    return time.perf_counter() - started


def main(limit: int | None, *, files_only: bool) -> None:
    """Measure in empty databases."""
    require_file(ABSTRACTS)
    log_only_warnings()
    use_database()
    with ExitStack() as stack:
        measure_files(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        if files_only:
            return
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / ABSTRACTS.name
        with ABSTRACTS.open("rb") as lines:
            path.write_bytes(b"".join(islice(lines, limit)))
        settings = Settings(google_cloud_project="bench-ingest", ingest_path=str(path))
        asyncio.run(measure(MeteredApp(settings), path))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print_table("Memory of this process", ["", "MiB"], [["peak", f"{peak / 1024:.0f}"]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, help="the number of abstracts; all by default")
    parser.add_argument("--files-only", action="store_true", help="only the mixed files")
    arguments = parser.parse_args()
    main(arguments.limit, files_only=arguments.files_only)
