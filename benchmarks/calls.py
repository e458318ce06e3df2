"""The cost of a call over HTTP, compared with the same bare requests to Firestore.

Usage: python -m benchmarks.calls [ROUNDS]

In each round, all methods request the same chunk, or search for the same question, on open
connections. The floor is the Firestore requests that the tool needs, sent without the tool; for a
search, with the embedding of the question. The official client does work of its own; "bare HTTP" is
closer to the cost of the gateway. "In the tool" is the time in the receipt: the handler with its
requests, without HTTP and MCP. "Functions" are deployed functions behind a fake Cloud Run, which
adds TLS, the verification of a token and a hop.
"""

from __future__ import annotations

import asyncio
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
    use_bare_http,
    use_bare_http_of_older_revision,
    use_official_client,
)
from benchmarks.dataset import CachingEmbedder, fill_database, load_scifact_vectors
from benchmarks.emulator import use_emulator
from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_measurement,
    measure_interleaved,
    print_table,
)
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.cloud_run.cloud import run_cloud
from tests.support.gateway_process import INLINE_MAIN, run_deployed_gateway, run_gateway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks.dataset import KnowledgeBase
    from benchmarks.measurement import Measurement

T = TypeVar("T")
TARGET_RATIO: Final = 1.5
ROUNDS: Final = 60
CHUNK_COUNT: Final = 1_000
PROJECT: Final = "bench-calls"
WARM_UP: Final = 5


async def measure(endpoints: Mapping[str, str], rounds: int) -> None:
    """Fill a database, then measure both tools with all methods."""
    embedder = LocalEmbedder()
    vectors = load_scifact_vectors()
    settings = Settings(google_cloud_project=PROJECT)
    app = App(settings, embedder=CachingEmbedder(embedder, vectors))
    knowledge_base = await fill_database(app.context(Caller(), Meter()), CHUNK_COUNT, vectors)
    floor = FirestoreBaseline(app.connection.client, embedder)
    async with AsyncExitStack() as stack:
        methods = await _call_methods(stack, endpoints)
        await measure_get_chunk(knowledge_base, floor, methods, rounds)
        await measure_search_kb(knowledge_base, floor, methods, rounds)
    await app.aclose()


async def measure_get_chunk(
    knowledge_base: KnowledgeBase,
    floor: FirestoreBaseline,
    methods: Mapping[str, CallMethod],
    rounds: int,
) -> None:
    """Measure get_chunk, which reads a document and then searches for its nearest neighbours."""
    measurements = {"floor": _time_each(floor.get_chunk, knowledge_base.chunk_ids)}
    for name, method in methods.items():
        measurements[name] = _time_each(
            _bind_tool(method, "get_chunk", "chunk_id"), knowledge_base.chunk_ids
        )
    durations = await measure_interleaved(measurements, rounds, WARM_UP)
    _print(
        f"get_chunk on {knowledge_base.name}; target {TARGET_RATIO} inline",
        durations,
        ["floor"],
        methods,
    )


async def measure_search_kb(
    knowledge_base: KnowledgeBase,
    floor: FirestoreBaseline,
    methods: Mapping[str, CallMethod],
    rounds: int,
) -> None:
    """Measure search_kb against a floor that embeds the question, and one that does not."""
    questions = knowledge_base.questions[: WARM_UP + rounds]
    vectors = await floor.embedder.embed(questions, Purpose.QUERY)
    measurements = {
        "floor": _time_each(floor.search_kb, questions),
        "Firestore alone": _time_each(floor.search, list(zip(questions, vectors, strict=True))),
    }
    for name, method in methods.items():
        measurements[name] = _time_each(_bind_tool(method, "search_kb", "query"), questions)
    durations = await measure_interleaved(measurements, rounds, WARM_UP)
    floors = ["floor", "Firestore alone"]
    _print(
        f"search_kb on {knowledge_base.name}; target {TARGET_RATIO} inline",
        durations,
        floors,
        methods,
    )


async def _call_methods(
    stack: AsyncExitStack, endpoints: Mapping[str, str]
) -> dict[str, CallMethod]:
    http = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
    methods: dict[str, CallMethod] = {}
    for topology, endpoint in endpoints.items():
        client = await stack.enter_async_context(Client(endpoint))
        methods[f"{topology}, official client"] = use_official_client(client)
        methods[f"{topology}, bare HTTP"] = use_bare_http(http, endpoint)
    methods["inline, bare HTTP, 2025-11-25"] = use_bare_http_of_older_revision(
        http, endpoints["inline"]
    )
    return methods


def _bind_tool(method: CallMethod, tool: str, argument: str) -> Callable[[str], Awaitable[None]]:
    return lambda value: method.call(tool, {argument: value})


def _time_each(operation: Callable[[T], Awaitable[None]], values: Sequence[T]) -> Measurement:
    """Measure an operation on the next of the values, cyclically."""
    cyclic_values = cycle(values)
    return make_measurement(lambda: operation(next(cyclic_values)))


def _print(
    title: str,
    durations: Mapping[str, list[float]],
    floors: Sequence[str],
    methods: Mapping[str, CallMethod],
) -> None:
    rows = []
    for name, seconds in durations.items():
        ratios = [f"{compute_ratio(seconds, durations[floor]):.2f}" for floor in floors]
        rows.append(
            [
                name,
                format_milliseconds(seconds),
                *ratios,
                *_compute_receipt_medians(methods.get(name)),
            ]
        )
    columns = ["method", "ms", *(f"to {floor}" for floor in floors)]
    print_table(title, [*columns, "in the tool", "round trips", "documents"], rows)


def _compute_receipt_medians(method: CallMethod | None) -> list[str]:
    if method is None:
        return ["", "", ""]
    receipts = method.receipts[WARM_UP:]
    method.receipts.clear()
    names = ("milliseconds", "round_trips", "documents_read")
    return [f"{median(receipt[name] for receipt in receipts):g}" for name in names]


def main(rounds: int) -> None:
    """Start an emulator and the gateway in both topologies, and measure."""
    with ExitStack() as stack:
        stack.enter_context(use_emulator())
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "functions.log"
        project = {"GOOGLE_CLOUD_PROJECT": PROJECT}
        cloud_functions = stack.enter_context(
            run_cloud(["get_chunk", "search_kb"], project, log=log)
        )
        inline = stack.enter_context(run_gateway(INLINE_MAIN, project, log))
        functions = stack.enter_context(run_deployed_gateway(project, log, cloud_functions))
        endpoints = {"inline": inline.endpoint, "functions": functions.endpoint}
        asyncio.run(measure(endpoints, rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
