"""Measures the billable usage of calls and jobs, for the tables of `docs/costs.md`.

Usage: python -m benchmarks.costs.measure [SMALL LARGE [FILE]]

By default, the benchmark measures knowledge bases of 1,000 and 4,000 of SciFact's abstracts. It
processes the abstracts with all jobs, makes the usual mix of calls, and runs the scheduled jobs
again, which then find nothing new. The results are written to `measured.json` beside this module,
or to FILE.

- Documents read and written come from the receipts of calls and jobs.
- The emulator does not report reads of vector index entries. They are computed from the number of
  documents that each query scans.
- Storage follows Firestore's published rules for sizes, with vectors of the cloud's dimension.
- Vectors are hashed words. A fake language model returns cards from the sample, and warnings that
  quote their passages: no two are alike, so none is a duplicate.
- Tokens are estimated (`shared/text/tokens.py`).

A measurement takes about 15 minutes, because vector search is slow in the emulator.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from benchmarks.costs.measure_functions import (
    count_gateway_operations,
    estimate_image_megabytes,
    measure_gateway_seconds,
    measure_start_seconds,
)
from benchmarks.costs.storage import count_document_bytes, count_index_bytes, load_index_rules
from benchmarks.costs.workload import (
    MATERIALS_CHARACTERS,
    MIX,
    FakeGenerator,
    IndexEntries,
    TokenCountingEmbedder,
    WorkloadInputs,
    make_documents,
    record_vector_queries,
)
from benchmarks.emulator import use_emulator
from benchmarks.jobs_dataset import read_abstracts
from benchmarks.scifact import ABSTRACTS, require_file
from infra.build.discovery import ROOT, jobs, tools
from infra.local.sample.traces import TRACES
from shared.core.caller import Caller
from shared.core.log import log_only_warnings
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.runtime.job import Report, run_job
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.gateway_process import ACCESS_SECRET
from tests.support.tool_calls import make_call_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.costs.workload import Figures
    from shared.runtime.job import Job

OUTPUT: Final = Path(__file__).with_name("measured.json")
INDEXES: Final = ROOT / "infra" / "build" / "firestore.indexes.json"
SIZES: Final = (1_000, 4_000)
ROUNDS: Final = 5
"""The number of calls of each kind; the result is their mean."""
DIMENSION: Final = 768
READER: Final = Caller.of("reader")
INGEST_JOBS: Final = ("ingest", "embed", "cards", "extract", "cluster", "index")
"""The jobs that process new texts, in order."""


class MeasuredKnowledgeBase:
    """A knowledge base whose usage is measured."""

    def __init__(self, size: int, folder: Path, readwise: FakeReadwise) -> None:
        """Write the texts to a file, and connect to a database of this size."""
        path = folder / f"{size}.jsonl"
        path.write_text("\n".join(map(json.dumps, make_documents(size))), encoding="utf-8")
        self.project = f"bench-costs-{size}"
        self.embedder = TokenCountingEmbedder()
        self._ingest_app = self._make_app(ingest_path=str(path))
        self.app = self._make_app(readwise_token=SecretStr(TOKEN), readwise_url=readwise.base_url)
        self.entries = IndexEntries(self.app.connection.client)

    async def process_texts(self) -> dict[str, Figures]:
        """Process the texts with all jobs in order, and measure each."""
        jobs_by_name = {job.name: job for job in jobs()}
        return {name: await self._run(jobs_by_name[name], self._ingest_app) for name in INGEST_JOBS}

    async def run_idle_jobs(self) -> dict[str, Figures]:
        """Run the scheduled jobs twice, and measure the second runs, which have nothing to do."""
        scheduled = [job for job in jobs() if job.schedule]
        for job in scheduled:
            await self._run(job, self.app)
        return {job.name: await self._run(job, self.app) for job in scheduled}

    async def add_traces(self) -> None:
        """Add the sample's traces."""
        await self._run(TRACES, self.app)

    async def measure_calls(self) -> list[Figures]:
        """Measure each kind of call in the usual mix, and return the means."""
        inputs = await self._load_workload_inputs()
        tools_by_name = {tool.name: tool for tool in tools()}
        figures = []
        for kind in MIX:
            samples = [
                await self._call(tools_by_name[kind.tool], kind.arguments(inputs, number))
                for number in range(ROUNDS)
            ]
            figures.append({name: mean(sample[name] for sample in samples) for name in samples[0]})
        return figures

    async def count_stored_bytes(self) -> int:
        """Return the bytes of all documents and their index entries."""
        indexes = json.loads(INDEXES.read_text("utf-8"))
        total = 0
        async for collection in self.app.connection.client.collections():
            rules = load_index_rules(indexes, collection.id, DIMENSION)
            async for snapshot in collection.stream():
                path, data = f"{collection.id}/{snapshot.id}", snapshot.to_dict() or {}
                total += count_document_bytes(path, data, rules) + count_index_bytes(
                    path, data, rules
                )
        return total

    async def aclose(self) -> None:
        """Close the connections."""
        await self._ingest_app.aclose()
        await self.app.aclose()

    def _make_app(self, **fields: Any) -> App:
        settings = Settings(google_cloud_project=self.project, **fields)
        return App(settings, embedder=self.embedder, generator=FakeGenerator())

    async def _run(self, job: Job, app: App) -> Figures:
        started = time.perf_counter()
        cpu_at_start = time.process_time()
        tokens_at_start = self.embedder.tokens
        with record_vector_queries() as queries:
            report = await run_job(job, app, seconds=math.inf)
        if not isinstance(report, Report) or report.failures:
            raise RuntimeError(f"{job.name}: {report}")
        log_progress(f"{self.project}: {job.name}, {dict(report.counts)}")
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu_at_start
        cost = report.cost
        return {
            "read": cost.documents_read,
            "index_reads": await self.entries.count_billed_reads(queries),
            "written": cost.documents_written,
            "seconds": round(seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "embedded": self.embedder.tokens - tokens_at_start,
            "input_tokens": cost.input_tokens,
            "output_tokens": cost.output_tokens,
        }

    async def _call(self, tool: Any, arguments: Mapping[str, Any]) -> Figures:
        request = make_call_request(tool, READER, dict(arguments))
        cpu_at_start = time.process_time()
        tokens_at_start = self.embedder.tokens
        with record_vector_queries() as queries:
            answer = await invoke(tool, request, self.app)
        cpu_seconds = time.process_time() - cpu_at_start
        if answer.error:
            raise RuntimeError(f"{tool.name}: {answer.error}")
        return {
            "read": answer.receipt.documents_read,
            "index_reads": await self.entries.count_billed_reads(queries),
            "written": answer.receipt.documents_written,
            "seconds": answer.receipt.milliseconds / 1000,
            "cpu_seconds": cpu_seconds,
            "embedded": self.embedder.tokens - tokens_at_start,
            "bytes": len(answer.model_dump_json()),
        }

    async def _load_workload_inputs(self) -> WorkloadInputs:
        client = self.app.connection.client
        ids = {
            name: [snapshot.id async for snapshot in client.collection(name).limit(ROUNDS).stream()]
            for name in ("chunks", "sources", "clusters", "traces")
        }
        rows = list(read_abstracts(1_000))
        joined_texts = " ".join(row["text"] for row in rows)
        return WorkloadInputs(
            **ids,
            tasks=[await self._add_task(number) for number in range(ROUNDS)],
            questions=(
                f"{row['title']}, number {number}" for number, row in _number_cyclically(rows)
            ),
            materials=[
                "\n\n".join(
                    _split_into_paragraphs(joined_texts[start : start + MATERIALS_CHARACTERS])
                )
                for start in range(0, ROUNDS * MATERIALS_CHARACTERS, MATERIALS_CHARACTERS)
            ],
            problems=[(row["title"][:100], row["text"][:800]) for row in rows[-ROUNDS:]],
        )

    async def _add_task(self, number: int) -> str:
        tool = next(tool for tool in tools() if tool.name == "add_task")
        request = make_call_request(tool, READER, {"title": f"Read passage {number}"})
        answer = await invoke(tool, request, self.app)
        return str((answer.result or {})["task"]["task_id"])


def _number_cyclically(rows: Sequence[dict[str, Any]]) -> Any:
    return ((number, rows[number % len(rows)]) for number in count())


def _split_into_paragraphs(text: str) -> list[str]:
    return [text[start : start + 500] for start in range(0, len(text), 500)]


async def measure(sizes: Sequence[int], folder: Path) -> dict[str, Any]:
    """Measure everything, and return the content of `measured.json`."""
    figures_by_size: list[dict[str, Any]] = []
    for size in sizes:
        with FakeReadwise() as readwise:
            knowledge_base = MeasuredKnowledgeBase(size, folder, readwise)
            figures: dict[str, Any] = {"ingestion": await knowledge_base.process_texts()}
            await knowledge_base.add_traces()
            figures["stored"] = await knowledge_base.count_stored_bytes()
            figures["calls"] = await knowledge_base.measure_calls()
            figures["idle"] = await knowledge_base.run_idle_jobs()
            await knowledge_base.aclose()
        figures_by_size.append(figures)
    effects = {tool.name: tool.effect.value for tool in tools()}
    calls: list[dict[str, Any]] = [
        {
            "name": kind.name,
            "tool": kind.tool,
            "per_day": kind.per_day,
            "effect": effects[kind.tool],
            "usage": _to_columns([figures["calls"][index] for figures in figures_by_size]),
        }
        for index, kind in enumerate(MIX)
    ]
    answer_bytes = sum(call["per_day"] * call["usage"].pop("bytes")[-1] for call in calls)
    mean_answer_bytes = round(answer_bytes / sum(call["per_day"] for call in calls))
    gateway = await count_gateway_operations() | measure_gateway_seconds(folder / "gateway.log")
    return {
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
        "base": "SciFact's abstracts, up to 1,000 characters each, as passages with 4 to 7 tags,"
        " author and category among their facets; 18 solved problems",
        "sizes": list(sizes),
        "calls": calls,
        "gateway": gateway | {"answer_bytes": mean_answer_bytes},
        "ingestion": _group_by_job([figures["ingestion"] for figures in figures_by_size]),
        "idle": _group_by_job([figures["idle"] for figures in figures_by_size]),
        "stored": [figures["stored"] for figures in figures_by_size],
        "start": await measure_start_seconds(),
        "image": estimate_image_megabytes(),
    }


def _group_by_job(
    figures_by_size: Sequence[Mapping[str, Figures]],
) -> dict[str, dict[str, list[float]]]:
    """Return for each job its figures, each with one value per size."""
    return {
        job: _to_columns([figures[job] for figures in figures_by_size])
        for job in figures_by_size[0]
    }


def _to_columns(rows: Sequence[Figures]) -> dict[str, list[float]]:
    """Return the values of all rows for each figure."""
    return {name: [round(row[name], 4) for row in rows] for name in rows[0]}


def log_progress(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr)


def main(sizes: Sequence[int] = SIZES, output: Path = OUTPUT) -> None:
    """Measure at these sizes, and write the results to a file."""
    require_file(ABSTRACTS)
    os.environ["ACCESS_SECRETS"] = json.dumps([ACCESS_SECRET])  # required by the gateway
    with ExitStack() as stack:
        stack.enter_context(use_emulator())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        figures = asyncio.run(measure(sizes, folder))
    output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    log_only_warnings()
    match sys.argv[1:]:
        case [small, large, *more]:
            main([int(small), int(large)], Path(more[0]) if more else OUTPUT)
        case _:
            main()
