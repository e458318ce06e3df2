"""The speed, reads, writes and memory of each job, and how they grow.

Usage: python -m benchmarks.jobs [CHUNKS ...]

By default, all jobs process 1,250, 2,500 and 5,000 of SciFact's abstracts. Each run has its own
process, and so its own peak memory. No model runs: vectors are hashed words, and a local server
stands in for the language model. The server replies after 20 ms, with a card for each passage and
an extraction for every fifth. Each run is compared with a process that does nothing. The share of
the elapsed time in which the job waits for commits is the emulator's.

- The emulator has no indexes. The elapsed time of jobs that page through collections is mostly the
  emulator's. The CPU time includes only the job's process.
- `ingest_materials` stores as many passages as there are chunks, of 250 characters each.

The benchmark takes about nine minutes on two idle cores.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.emulator import use_emulator
from benchmarks.jobs_dataset import (
    HashingEmbedder,
    StatelessModelServer,
    fill_library,
    read_abstracts,
)
from benchmarks.measurement import print_table
from benchmarks.scifact import ABSTRACTS, require_file
from infra.build.discovery import ROOT
from shared.core.log import log_only_warnings
from tests.support.fakes.readwise import TOKEN, FakeReadwise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.runtime.context import App
    from tests.support.commit_hooks import Results, Send

SIZES: Final = (1_250, 2_500, 5_000)
STEPS: Final = {
    "nothing": "",
    "ingest, Readwise": "ingest",
    "ingest, files": "ingest",
    "ingest, files, nothing new": "ingest",
    "embed": "embed",
    "cards": "cards",
    "cluster": "cluster",
    "extract": "extract",
    "index": "index",
    "repair": "repair",
    "purge": "purge",
    "ingest_materials": "ingest_materials",
    "reembed": "reembed",
}
"""The measurements in order, with the job that each runs."""
JOBS_WITH_OWN_DATA: Final = {"ingest_materials", "reembed"}
"""These jobs need data that no other job creates."""
MODEL_CHANGE_DELAY: Final = timedelta(minutes=10)
"""How long `reembed` waits between announcing a new embedding model and embedding with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The costs of a job run.

    Attributes:
        seconds: The elapsed time from the lease to the end.
        cpu_seconds: The CPU time of the process.
        commit_seconds: The time spent waiting for commits.
        read: Documents read.
        written: Documents written.
        peak: The peak memory of the process, in MiB.
        counts: The counts that the job reported.
    """

    seconds: float
    cpu_seconds: float
    commit_seconds: float
    read: int
    written: int
    peak: float
    counts: dict[str, int]


async def run(name: str, model: str) -> Figures:
    """Run a job in this process. An empty name runs nothing."""
    from shared.core.dates import utc_now
    from shared.core.settings import Settings
    from shared.runtime.job import Report, run_job
    from tests.support.commit_hooks import WatchedApp

    commit_durations: list[float] = []

    async def measure_commit(_commit: int, send: Send) -> Results:
        started = time.perf_counter()
        results = await send()
        commit_durations.append(time.perf_counter() - started)
        return results

    clock_offset = MODEL_CHANGE_DELAY if name == "reembed" else timedelta()
    app = WatchedApp(
        Settings(),
        measure_commit,
        embedder=HashingEmbedder(model),
        clock=lambda: utc_now() + clock_offset,
    )
    await app.ping()
    started = time.perf_counter()
    cpu_at_start = time.process_time()
    report = Report()
    if name:
        job = import_module(f"functions.jobs.{name}.job").JOB
        result = await run_job(job, app, seconds=math.inf)
        if not isinstance(result, Report) or result.failures or not result.finished:
            raise RuntimeError(f"{name}: {result}")
        report = result
    figures = Figures(
        seconds=time.perf_counter() - started,
        cpu_seconds=time.process_time() - cpu_at_start,
        commit_seconds=sum(commit_durations),
        read=report.cost.documents_read,
        written=report.cost.documents_written,
        peak=measure_peak_memory(),
        counts=dict(report.counts),
    )
    await app.aclose()
    return figures


def measure_peak_memory() -> float:
    """Return the peak memory of this process, in MiB.

    On Linux, getrusage would include the peak of the parent, from which the process was forked.
    """
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def prepare(name: str, number: int) -> None:
    """Add the data that a job of `JOBS_WITH_OWN_DATA` processes."""
    from shared.core.settings import Settings
    from shared.runtime.context import App

    model = "other" if name == "reembed" else "hashed"
    settings = Settings(extract_materials_characters=1)
    app = App(settings, embedder=HashingEmbedder(model))
    match name:
        case "ingest_materials":
            await _add_materials(app, number)
        case "reembed":
            await _announce_model(app)
    await app.aclose()


async def _add_materials(app: App, passages: int) -> None:
    from tests.support.stored_materials import call_extract_with_deadline

    text = "\n\n".join(" ".join(row["text"][:250].split()) for row in read_abstracts(passages))
    answer = await call_extract_with_deadline(app, 120, query="cells", materials=text)
    if answer.error:
        raise RuntimeError(answer.error)


async def _announce_model(app: App) -> None:
    from functions.jobs.reembed.job import JOB
    from shared.runtime.job import run_job

    await run_job(JOB, app, seconds=0.5)


def run_in_process(subcommand: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Run this module in a new process, and return its output."""
    command = [sys.executable, "-m", "benchmarks.jobs", subcommand, *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{subcommand} {arguments}: {result.stderr.decode()[-2_000:]}")
    return result.stdout.decode()


def measure(number: int, environment: Mapping[str, str], folder: Path) -> dict[str, Figures]:
    """Run all jobs on this many chunks, each in its own process."""
    path = folder / f"{number}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in read_abstracts(number)), encoding="utf-8")
    job_environment = {**environment, "GOOGLE_CLOUD_PROJECT": f"bench-jobs-{number}"}
    figures: dict[str, Figures] = {}
    for label, job in STEPS.items():
        if job in JOBS_WITH_OWN_DATA:
            run_in_process("prepare", job_environment, job, str(number))
        source_settings = {"INGEST_PATH": str(path)}
        with FakeReadwise() as readwise:
            if label == "ingest, Readwise":
                fill_library(readwise, number)
                source_settings = {
                    "READWISE_URL": readwise.base_url,
                    "READWISE_TOKEN": TOKEN,
                    "GOOGLE_CLOUD_PROJECT": f"bench-readwise-{number}",
                }
            model = "other" if job == "reembed" else "hashed"
            output = run_in_process("run", job_environment | source_settings, job, model)
        figures[label] = Figures(**json.loads(output))
        seconds = figures[label].seconds
        print(f"{number:,} chunks, {label}: {seconds:.1f} s", file=sys.stderr)
    return figures


def print_tables(sizes: Sequence[int], figures: Mapping[int, Mapping[str, Figures]]) -> None:
    """Print the tables of time, costs and memory."""
    largest = sizes[-1]
    runs = {label: [figures[size][label] for size in sizes] for label in STEPS}
    size_columns = [f"{size:,}" for size in sizes]
    print_table(
        f"Elapsed seconds by chunks, and their growth; at {largest:,}: the share of commits",
        ["", *size_columns, "growth", "commits", "chunks/s"],
        [
            [label, *_format_times(job_runs, largest)]
            for label, job_runs in runs.items()
            if STEPS[label]
        ],
    )
    print_table(
        f"CPU seconds of the job's process, and their growth; at {largest:,}: documents per chunk",
        ["", *size_columns, "growth", "read", "written", "reported"],
        [
            [label, *_format_costs(job_runs, largest)]
            for label, job_runs in runs.items()
            if STEPS[label]
        ],
    )
    print_table(
        "Peak memory of the job's process in MiB, its growth, and KiB per chunk",
        ["", *size_columns, "growth", "KiB per chunk"],
        [
            [label, *_format_memory(job_runs, largest - sizes[0])]
            for label, job_runs in runs.items()
        ],
    )


def _format_times(runs: Sequence[Figures], chunks: int) -> list[str]:
    durations = [run.seconds for run in runs]
    largest = runs[-1]
    return [
        *(f"{seconds:.1f}" for seconds in durations),
        f"{durations[-1] / durations[0]:.1f}",
        f"{largest.commit_seconds / largest.seconds:.0%}",
        f"{chunks / largest.seconds:.0f}",
    ]


def _format_costs(runs: Sequence[Figures], chunks: int) -> list[str]:
    durations = [run.cpu_seconds for run in runs]
    largest = runs[-1]
    return [
        *(f"{seconds:.1f}" for seconds in durations),
        f"{durations[-1] / durations[0]:.1f}",
        f"{largest.read / chunks:.2f}",
        f"{largest.written / chunks:.2f}",
        ", ".join(f"{count} {name}" for name, count in largest.counts.items()),
    ]


def _format_memory(runs: Sequence[Figures], added_chunks: int) -> list[str]:
    peaks = [run.peak for run in runs]
    kib_per_chunk = 1024 * (peaks[-1] - peaks[0]) / added_chunks if added_chunks else 0.0
    growth = f"{peaks[-1] / peaks[0]:.2f}"
    return [*(f"{peak:.0f}" for peak in peaks), growth, f"{kib_per_chunk:z.1f}"]


def main(sizes: Sequence[int]) -> None:
    """Measure at these sizes, if SciFact is available."""
    from tests.support.google_credentials import write_credentials_file

    require_file(ABSTRACTS)
    with ExitStack() as stack:
        stack.enter_context(use_emulator())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stack.enter_context(StatelessModelServer())
        environment = {
            "GENERATION_PROVIDER": "vertex",
            "VERTEX_BASE_URL": model.base_url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(write_credentials_file(folder)),
        }
        print_tables(sizes, {size: measure(size, environment, folder) for size in sizes})


if __name__ == "__main__":
    log_only_warnings()
    match sys.argv[1:]:
        case ["run", job, model]:
            print(json.dumps(asdict(asyncio.run(run(job, model)))))
        case ["prepare", job, number]:
            asyncio.run(prepare(job, int(number)))
        case sizes:
            main([int(size) for size in sizes] or list(SIZES))
