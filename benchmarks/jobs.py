"""The speed, reads, writes and memory of each job, and how they grow.

Usage: python -m benchmarks.jobs [CHUNKS ...]

By default 1,250, 2,500 and 5,000 of SciFact's abstracts go through all jobs. Each run has its own
process, and so its own peak memory. No model runs: vectors are made of hashed words, and a local
server answers for the language model after 20 ms, with a card for each passage and an extraction
for every fifth. What remains is the work of the jobs. The floors, in the same runs, are a process
that does nothing, and the share of time in which a job waits for its commits, which is the
emulator's.

The emulator has no indexes: for jobs that page through lists or search, the elapsed time says more
about the emulator (`health`: a search takes half a second at 1,250 chunks and some seconds at
5,000). The processor time of the job's process is the job's own.

It takes some nine minutes on two idle cores. Trust adds up the votes on a tenth as many traces, two
on each, and finds all sums wrong. Materials have as many passages as there are chunks, of 250
characters.
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

from benchmarks.jobs_dataset import (
    SCIFACT,
    HashingEmbedder,
    StatelessModelServer,
    abstracts,
    group_abstracts,
)
from benchmarks.measurement import print_table
from infra.build.discovery import ROOT
from infra.local.emulator import EmulatorMissing, run_emulator
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
    "health": "health",
    "purge": "purge",
    "trust": "trust",
    "ingest_materials": "ingest_materials",
    "reembed": "reembed",
}
"""The measurements in order, with their jobs."""
PREPARED: Final = {"trust", "ingest_materials", "reembed"}
"""These jobs need their own data."""
MOVE: Final = timedelta(minutes=10)
"""An announced move to another model continues after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The costs of a run.

    Attributes:
        seconds: From its lease to its end, by the clock on the wall.
        own: Of its process, on whatever core: what others do to the machine does not count.
        committing: For how many of them it waited for a commit.
        read: Documents.
        written: Documents.
        peak: The most memory of its process, in MiB.
        counts: What it says it did.
    """

    seconds: float
    own: float
    committing: float
    read: int
    written: int
    peak: float
    counts: dict[str, int]


async def run(name: str, model: str) -> Figures:
    """Run a job in this process; without a name, do nothing."""
    from shared.core.dates import utc_now
    from shared.core.settings import Settings
    from shared.runtime.job import Report, run_job
    from tests.support.commit_hooks import WatchedApp

    committing: list[float] = []

    async def timed(_commit: int, send: Send) -> Results:
        began = time.perf_counter()
        results = await send()
        committing.append(time.perf_counter() - began)
        return results

    moving = MOVE if name == "reembed" else timedelta()
    app = WatchedApp(
        Settings(), timed, embedder=HashingEmbedder(model), clock=lambda: utc_now() + moving
    )
    await app.ping()
    began, began_own, outcome = time.perf_counter(), time.process_time(), Report()
    if name:
        job = import_module(f"functions.jobs.{name}.job").JOB
        done = await run_job(job, app, seconds=math.inf)
        if not isinstance(done, Report) or done.failures or not done.finished:
            raise RuntimeError(f"{name}: {done}")
        outcome = done
    figures = Figures(
        seconds=time.perf_counter() - began,
        own=time.process_time() - began_own,
        committing=sum(committing),
        read=outcome.cost.documents_read,
        written=outcome.cost.documents_written,
        peak=peak_memory(),
        counts=dict(outcome.counts),
    )
    await app.aclose()
    return figures


def peak_memory() -> float:
    """Return the peak memory of this process, in MiB.

    On Linux, getrusage tells of its parent's too: a process begins as a copy of that.
    """
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def prepare(name: str, number: int) -> None:
    """Add the data that a job works on."""
    from shared.core.settings import Settings
    from shared.runtime.context import App

    model = "other" if name == "reembed" else "hashed"
    settings = Settings(extract_materials_characters=1)
    app = App(settings, embedder=HashingEmbedder(model))
    match name:
        case "trust":
            await _vote(app, number // 10)
        case "ingest_materials":
            await _bring(app, number)
        case "reembed":
            await _announce(app)
    await app.aclose()


async def _vote(app: App, traces: int) -> None:
    """Add traces with two votes each that are missing in their sums."""
    from shared.core.dates import utc_now
    from shared.traces.model import Trace, TraceContent
    from shared.traces.repository import TRACE

    now, client = utc_now(), app.connection.client
    for number, row in enumerate(abstracts(traces)):
        batch = client.batch()
        content = TraceContent(
            title=row["title"], context_text=row["text"], solution_text="Read it."
        )
        path = client.collection("traces").document(f"trace-{number}")
        trace = Trace(
            trace_id=path.id, content=content, contributor="ada", created_at=now, updated_at=now
        )
        batch.create(path, TRACE.write(trace))
        vote = {"vote": "up", "tag": None, "weight": 50, "revision": 1, "given_at": now}
        for voter in ("ben", "cas"):
            batch.create(path.collection("votes").document(voter), vote)
        await batch.commit()


async def _bring(app: App, passages: int) -> None:
    from tests.support.stored_materials import ask

    text = "\n\n".join(" ".join(row["text"][:250].split()) for row in abstracts(passages))
    answer = await ask(app, 120, query="cells", materials=text)
    if answer.error:
        raise RuntimeError(answer.error)


async def _announce(app: App) -> None:
    from functions.jobs.reembed.job import JOB
    from shared.runtime.job import run_job

    await run_job(JOB, app, seconds=0.5)


def in_its_own_process(what: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Run this module in a process of its own, and return its output."""
    command = [sys.executable, "-m", "benchmarks.jobs", what, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{what} {arguments}: {done.stderr.decode()[-2_000:]}")
    return done.stdout.decode()


def measure(number: int, environment: Mapping[str, str], folder: Path) -> dict[str, Figures]:
    """Run all jobs on this many chunks."""
    path = folder / f"{number}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in abstracts(number)), encoding="utf-8")
    own = {**environment, "GOOGLE_CLOUD_PROJECT": f"bench-jobs-{number}"}
    figures: dict[str, Figures] = {}
    for label, job in STEPS.items():
        if job in PREPARED:
            in_its_own_process("prepare", own, job, str(number))
        more = {"INGEST_PATH": str(path)}
        with FakeReadwise() as library:
            if label == "ingest, Readwise":
                group_abstracts(library, number)
                more = {"READWISE_URL": library.base_url, "READWISE_TOKEN": TOKEN}
                more["GOOGLE_CLOUD_PROJECT"] = f"bench-readwise-{number}"
            model = "other" if job == "reembed" else "hashed"
            output = in_its_own_process("run", own | more, job, model)
        figures[label] = Figures(**json.loads(output))
        seconds = figures[label].seconds
        print(f"{number:,} chunks, {label}: {seconds:.1f} s", file=sys.stderr)  # noqa: T201
    return figures


def print_tables(sizes: Sequence[int], figures: Mapping[int, Mapping[str, Figures]]) -> None:
    """Print the tables of time, costs and memory."""
    last = sizes[-1]
    runs = {label: [figures[size][label] for size in sizes] for label in STEPS}
    by_chunks = [f"{size:,}" for size in sizes]
    print_table(
        f"Seconds on the wall, by chunks, and their growth; at {last:,}: the share of commits",
        ["", *by_chunks, "growth", "commits", "chunks/s"],
        [[label, *_times(run, last)] for label, run in runs.items() if STEPS[label]],
    )
    print_table(
        f"CPU seconds of the job's process, and their growth; at {last:,}: documents a chunk",
        ["", *by_chunks, "growth", "read", "written", "did"],
        [[label, *_costs(run, last)] for label, run in runs.items() if STEPS[label]],
    )
    print_table(
        "Peak memory of the job's process in MiB, its growth, and KiB a chunk",
        ["", *by_chunks, "growth", "KiB a chunk"],
        [[label, *_memory(run, last - sizes[0])] for label, run in runs.items()],
    )


def _times(runs: Sequence[Figures], chunks: int) -> list[str]:
    seconds, last = [run.seconds for run in runs], runs[-1]
    growth = f"{seconds[-1] / seconds[0]:.1f}"
    commits, speed = f"{last.committing / last.seconds:.0%}", f"{chunks / last.seconds:.0f}"
    return [*(f"{second:.1f}" for second in seconds), growth, commits, speed]


def _costs(runs: Sequence[Figures], chunks: int) -> list[str]:
    seconds, last = [run.own for run in runs], runs[-1]
    documents = [f"{last.read / chunks:.2f}", f"{last.written / chunks:.2f}"]
    did = ", ".join(f"{count} {name}" for name, count in last.counts.items())
    growth = f"{seconds[-1] / seconds[0]:.1f}"
    return [*(f"{second:.1f}" for second in seconds), growth, *documents, did]


def _memory(runs: Sequence[Figures], more_chunks: int) -> list[str]:
    peaks = [run.peak for run in runs]
    gained = 1024 * (peaks[-1] - peaks[0]) / more_chunks if more_chunks else 0.0
    growth = f"{peaks[-1] / peaks[0]:.2f}"
    return [*(f"{peak:.0f}" for peak in peaks), growth, f"{gained:z.1f}"]


def main(sizes: Sequence[int]) -> None:
    """Measure at these sizes, if SciFact is available."""
    from tests.support.whole_sample import credentials_file

    if not SCIFACT.is_file():
        sys.exit(f"Skipped: {SCIFACT} is not here. It is no part of the project.")
    with ExitStack() as stack:
        try:
            host = stack.enter_context(run_emulator())
        except EmulatorMissing as error:
            sys.exit(str(error))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stack.enter_context(StatelessModelServer())
        environment = {
            "FIRESTORE_EMULATOR_HOST": host,
            "GENERATION_PROVIDER": "vertex",
            "VERTEX_BASE_URL": model.base_url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials_file(folder)),
        }
        print_tables(sizes, {size: measure(size, environment, folder) for size in sizes})


if __name__ == "__main__":
    log_only_warnings()
    match sys.argv[1:]:
        case ["run", job, model]:
            print(json.dumps(asdict(asyncio.run(run(job, model)))))  # noqa: T201 - it is read
        case ["prepare", job, number]:
            asyncio.run(prepare(job, int(number)))
        case given:
            main([int(size) for size in given] or list(SIZES))
