"""The cost of a call over HTTP, compared with the same bare requests to Firestore.

Usage: python -m benchmarks.calls [ROUNDS]

All methods get the same chunk, or the same question, in a round, on open connections. The official
client does work of its own; "bare HTTP" is closer to the cost of the gateway. "In the tool" is the
time in the receipt: the handler with its requests, without HTTP and MCP. "Functions" are deployed
functions. Their calls pass a fake Cloud Run, which adds TLS, the verification of a token and a hop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

import httpx2
from mcp import Client

from benchmarks.baselines import (
    CallMethod,
    FirestoreBaseline,
    bare_http,
    bare_http_handshake,
    official_client,
)
from benchmarks.dataset import CachingEmbedder, fill_database, scifact_vectors
from benchmarks.measurement import interleaved, milliseconds, print_table, ratio, timed
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.cloud_run.cloud import cloud
from tests.support.gateway_process import INLINE, run_deployed_gateway, run_gateway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks.dataset import KnowledgeBase
    from benchmarks.measurement import Measurement

T = TypeVar("T")
GOAL: Final = 1.5
ROUNDS: Final = 60
CHUNKS: Final = 1_000
PROJECT: Final = "bench-calls"
WARM_UP: Final = 5


async def measure(endpoints: Mapping[str, str], rounds: int) -> None:
    """Fill a database, then call both tools with all methods."""
    embedder = LocalEmbedder()
    vectors = scifact_vectors()
    settings = Settings(google_cloud_project=PROJECT)
    app = App(settings, embedder=CachingEmbedder(embedder, vectors))
    base = await fill_database(app.context(Caller(), Meter()), CHUNKS, vectors)
    floor = FirestoreBaseline(app.connection.client, embedder)
    async with AsyncExitStack() as stack:
        ways = await _ways(stack, endpoints)
        await measure_get_chunk(base, floor, ways, rounds)
        await measure_search_kb(base, floor, ways, rounds)
    await app.aclose()


async def measure_get_chunk(
    base: KnowledgeBase, floor: FirestoreBaseline, ways: Mapping[str, CallMethod], rounds: int
) -> None:
    """Measure get_chunk: one read, then nearest neighbours."""
    measurements = {"floor": _turns(floor.get_chunk, base.chunk_ids)}
    for name, way in ways.items():
        measurements[name] = _turns(_calling(way, "get_chunk", "chunk_id"), base.chunk_ids)
    taken = await interleaved(measurements, rounds, WARM_UP)
    _print(f"get_chunk on {base.name}; goal {GOAL} inline", taken, ["floor"], ways)


async def measure_search_kb(
    base: KnowledgeBase, floor: FirestoreBaseline, ways: Mapping[str, CallMethod], rounds: int
) -> None:
    """Measure search_kb, with one floor that embeds the question and one that does not."""
    questions = base.questions[: WARM_UP + rounds]
    vectors = await floor.embedder.embed(questions, Purpose.QUERY)
    measurements = {
        "floor": _turns(floor.search_kb, questions),
        "Firestore alone": _turns(floor.search, list(zip(questions, vectors, strict=True))),
    }
    for name, way in ways.items():
        measurements[name] = _turns(_calling(way, "search_kb", "query"), questions)
    taken = await interleaved(measurements, rounds, WARM_UP)
    floors = ["floor", "Firestore alone"]
    _print(f"search_kb on {base.name}; goal {GOAL} inline", taken, floors, ways)


async def _ways(stack: AsyncExitStack, endpoints: Mapping[str, str]) -> dict[str, CallMethod]:
    http = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
    ways: dict[str, CallMethod] = {}
    for topology, endpoint in endpoints.items():
        client = await stack.enter_async_context(Client(endpoint))
        ways[f"{topology}, official client"] = official_client(client)
        ways[f"{topology}, bare HTTP"] = bare_http(http, endpoint)
    ways["inline, bare HTTP, 2025-11-25"] = bare_http_handshake(http, endpoints["inline"])
    return ways


def _calling(way: CallMethod, tool: str, argument: str) -> Callable[[str], Awaitable[None]]:
    return lambda value: way.call(tool, {argument: value})


def _turns(work: Callable[[T], Awaitable[None]], values: Sequence[T]) -> Measurement:
    """Run an operation on one value after the other."""
    coming = cycle(values)
    return timed(lambda: work(next(coming)))


def _print(
    title: str,
    taken: Mapping[str, list[float]],
    floors: Sequence[str],
    ways: Mapping[str, CallMethod],
) -> None:
    rows = []
    for name, seconds in taken.items():
        ratios = [f"{ratio(seconds, taken[floor]):.2f}" for floor in floors]
        rows.append([name, milliseconds(seconds), *ratios, *_told(ways.get(name))])
    columns = ["way", "ms", *(f"to {floor}" for floor in floors)]
    print_table(title, [*columns, "in the tool", "round trips", "documents"], rows)


def _told(way: CallMethod | None) -> list[str]:
    if way is None:
        return ["", "", ""]
    receipts = way.receipts[WARM_UP:]
    way.receipts.clear()
    names = ("milliseconds", "round_trips", "documents_read")
    return [f"{median(receipt[name] for receipt in receipts):g}" for name in names]


def main(rounds: int) -> None:
    """Start an emulator and both topologies, and measure."""
    with ExitStack() as stack:
        os.environ["FIRESTORE_EMULATOR_HOST"] = stack.enter_context(run_emulator())
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "functions.log"
        project = {"GOOGLE_CLOUD_PROJECT": PROJECT}
        in_cloud = stack.enter_context(cloud(["get_chunk", "search_kb"], project, log=log))
        inline = stack.enter_context(run_gateway(INLINE, project, log))
        functions = stack.enter_context(run_deployed_gateway(project, log, in_cloud))
        endpoints = {"inline": inline.endpoint, "functions": functions.endpoint}
        asyncio.run(measure(endpoints, rounds))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    except EmulatorMissing as error:
        sys.exit(str(error))
