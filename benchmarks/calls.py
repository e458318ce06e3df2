"""The cost of a call over HTTP, compared with the same bare requests to the database.

Usage: python -m benchmarks.calls [ROUNDS]

In each round, all methods request the same chunk, or search for the same question, on open
connections. The floor is the requests that the tool needs, sent from this process without the tool;
for a search, with the embedding of the question. The official client does work of its own; "bare
HTTP" is closer to the cost of the gateway. "In the tool" is the time in the receipt: the handler
with its requests, without HTTP and MCP.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp import Client

from benchmarks.database import use_database
from benchmarks.dataset import CachingEmbedder, fill_database, load_scifact_vectors
from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_measurement,
    measure_interleaved,
    print_table,
)
from functions.gateway.mcp.results import RECEIPT
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.ai.vector_halves import ENGLISH, MULTILINGUAL, weigh
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import Database
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.index.postings import KNOWLEDGE
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import nearest_query
from shared.knowledge.chunk_repository import COLLECTION, READ_FIELDS
from shared.runtime.context import App
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.text.terms import terms
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.mcp_wire import CLIENT_META, HEADERS, MODERN, make_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from shared.ai.embedding import Embedder
    from shared.ai.vector_halves import WeightedVector

TARGET_RATIO: Final = 1.5
ROUNDS: Final = 60
CHUNK_COUNT: Final = 1_000
WARM_UP: Final = 5
_RELATED: Final = 11
"""The number of neighbours that get_chunk requests by default."""


@dataclass(frozen=True, slots=True)
class BareRequests:
    """The requests that a tool makes, without the tool: the minimum any server needs."""

    database: Database
    embedder: Embedder

    async def get_chunk(self, chunk_id: str) -> None:
        """Read a chunk, then its nearest neighbours."""
        reference = Reference(COLLECTION, chunk_id)
        snapshot = await self.database.get(reference, [*READ_FIELDS, COMPACT])
        vector = from_compact(snapshot.get(COMPACT))
        await self._find_nearest(weigh(vector, self.embedder.model, MULTILINGUAL), _RELATED)

    async def search_kb(self, question: str) -> None:
        """Embed a question, read its postings and nearest neighbours, then the candidates."""
        [vector] = await self.embedder.embed([question], Purpose.ENGLISH_QUERY)
        weighted = weigh(vector, self.embedder.model, ENGLISH)
        postings_per_term, _ = await asyncio.gather(
            self._read_postings(question), self._find_nearest(weighted, DENSE_POOL)
        )
        chunk_ids = [chunk_id for postings in postings_per_term for chunk_id in postings]
        references = [Reference(COLLECTION, chunk_id) for chunk_id in chunk_ids[:LEXICAL_POOL]]
        await self.database.get_all(references, [*READ_FIELDS, COMPACT])

    async def _read_postings(self, question: str) -> list[dict[str, int]]:
        references = [Reference(KNOWLEDGE.lexicon, term) for term in terms(question)]
        return [found.get("postings") for found in await self.database.get_all(references)]

    async def _find_nearest(self, vector: WeightedVector, limit: int) -> None:
        await self.database.find(nearest_query(Query(COLLECTION), READ_FIELDS, vector, limit))


@dataclass(slots=True)
class CallMethod:
    """A way to call tools, with the receipts of its calls.

    Attributes:
        send: Sends a tool's name and arguments, and returns the result in MCP's wire format.
    """

    send: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    receipts: list[dict[str, Any]] = field(default_factory=list)

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool, and append its receipt."""
        result = await self.send(tool, arguments)
        if result.get("isError"):
            raise RuntimeError(result["content"])
        self.receipts.append(result["_meta"][RECEIPT])


def use_official_client(client: Client) -> CallMethod:
    """Return the method of calling by the official client, which validates results."""

    async def send(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        return {"isError": result.is_error, "content": result.content, "_meta": result.meta}

    return CallMethod(send)


def use_bare_http(client: httpx2.AsyncClient, endpoint: str, *, modern: bool) -> CallMethod:
    """Return the method of posting a message of revision 2026-07-28, or of one before it."""

    async def send(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        body, headers = make_call(tool, arguments), dict(HEADERS)
        if modern:
            body["params"]["_meta"] = CLIENT_META
            headers |= {"mcp-protocol-version": MODERN}
            headers |= {"mcp-method": "tools/call", "mcp-name": tool}
        response = await client.post(endpoint, json=body, headers=headers)
        result: dict[str, Any] = response.json()["result"]
        return result

    return CallMethod(send)


async def measure(endpoint: str, rounds: int) -> None:
    """Fill a database, then measure both tools with all methods."""
    embedder = LocalEmbedder()
    vectors = load_scifact_vectors()
    app = App(Settings(), embedder=CachingEmbedder(embedder, vectors))
    base = await fill_database(app.context(Caller(), Meter()), CHUNK_COUNT, vectors)
    floor = BareRequests(Database(app.connection, Meter()), embedder)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
        client = await stack.enter_async_context(Client(endpoint))
        methods = {
            "official client": use_official_client(client),
            "bare HTTP": use_bare_http(http, endpoint, modern=True),
            "bare HTTP, 2025-11-25": use_bare_http(http, endpoint, modern=False),
        }
        for tool, argument, operation, values in (
            ("get_chunk", "chunk_id", floor.get_chunk, base.chunk_ids),
            ("search_kb", "query", floor.search_kb, base.questions[: WARM_UP + rounds]),
        ):
            measurements = {"floor": _measure_next(operation, values)}
            for name, method in methods.items():
                call = _bind_tool(method, tool, argument)
                measurements[name] = _measure_next(call, values)
            durations = await measure_interleaved(measurements, rounds, WARM_UP)
            _print(f"{tool} on {base.name}; target {TARGET_RATIO}", durations, methods)
    await app.aclose()


def _bind_tool(method: CallMethod, tool: str, argument: str) -> Callable[[str], Awaitable[None]]:
    return lambda value: method.call(tool, {argument: value})


def _measure_next(
    operation: Callable[[str], Awaitable[None]], values: Sequence[str]
) -> Callable[[], Awaitable[float]]:
    """Measure an operation on the next of the values, cyclically."""
    cyclic_values = cycle(values)
    return make_measurement(lambda: operation(next(cyclic_values)))


def _print(
    title: str, durations: Mapping[str, list[float]], methods: Mapping[str, CallMethod]
) -> None:
    rows = []
    for name, seconds in durations.items():
        ratio = f"{compute_ratio(seconds, durations['floor']):.2f}"
        row = [name, format_milliseconds(seconds), ratio, *_summarize_receipts(methods.get(name))]
        rows.append(row)
    columns = ["method", "ms", "to floor", "in the tool", "round trips", "documents"]
    print_table(title, columns, rows)


def _summarize_receipts(method: CallMethod | None) -> list[str]:
    if method is None:
        return ["", "", ""]
    receipts = method.receipts[WARM_UP:]
    method.receipts.clear()
    names = ("milliseconds", "round_trips", "documents_read")
    return [f"{median(receipt[name] for receipt in receipts):g}" for name in names]


def main(rounds: int) -> None:
    """Start a gateway, and measure."""
    use_database()
    with (
        tempfile.TemporaryDirectory() as folder,
        run_gateway(INLINE_MAIN, {}, Path(folder) / "gateway.log") as gateway,
    ):
        asyncio.run(measure(gateway.endpoint, rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
