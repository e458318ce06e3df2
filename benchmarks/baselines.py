"""Ways to get what a tool returns: bare requests to Firestore, and calls through the gateway."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from functions.gateway.mcp.results import RECEIPT
from shared.ai.embedding import Purpose
from shared.index.postings import KNOWLEDGE
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import nearest_query
from shared.knowledge.chunk_repository import COLLECTION, READ_FIELDS
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.text.terms import terms
from tests.support.mcp_wire import HEADERS, MODERN, make_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2
    from google.cloud.firestore import AsyncClient
    from mcp import Client

    from shared.ai.embedding import Embedder, Vector

_RELATED: Final = 6
"""The number of neighbours that get_chunk requests from Firestore by default."""
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "carrel-bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class FirestoreBaseline:
    """The Firestore requests that a tool makes, without the tool: the minimum any server needs."""

    client: AsyncClient
    embedder: Embedder

    async def get_chunk(self, chunk_id: str) -> None:
        """Read a chunk, then its nearest neighbours."""
        reference = self.client.collection(COLLECTION).document(chunk_id)
        snapshot = await reference.get([*READ_FIELDS, COMPACT])
        await self.find_nearest(from_compact(snapshot.get(COMPACT)), _RELATED)

    async def search_kb(self, question: str) -> None:
        """Embed a question, and read what a search for it needs."""
        [vector] = await self.embedder.embed([question], Purpose.QUERY)
        await self.search((question, vector))

    async def search(self, question_and_vector: tuple[str, Vector]) -> None:
        """Read a question's postings and nearest neighbours concurrently, then the candidates."""
        question, vector = question_and_vector
        postings_per_term, _ = await asyncio.gather(
            self.read_postings(question), self.find_nearest(vector, DENSE_POOL)
        )
        chunk_ids = [chunk_id for postings in postings_per_term for chunk_id in postings]
        chunks = self.client.collection(COLLECTION)
        references = [chunks.document(chunk_id) for chunk_id in chunk_ids[:LEXICAL_POOL]]
        async for _ in self.client.get_all(references, [*READ_FIELDS, COMPACT]):
            pass

    async def read_postings(self, question: str) -> list[dict[str, int]]:
        """Read the postings of a question's terms."""
        lexicon = self.client.collection(KNOWLEDGE.lexicon)
        references = [lexicon.document(term) for term in terms(question)]
        snapshots = [
            snapshot async for snapshot in self.client.get_all(references) if snapshot.exists
        ]
        return [snapshot.get("postings") for snapshot in snapshots]

    async def find_nearest(self, vector: Vector, limit: int) -> None:
        """Find the nearest neighbours of a vector."""
        chunks = self.client.collection(COLLECTION)
        async for _ in nearest_query(chunks, READ_FIELDS, vector, limit).stream():
            pass


@dataclass(slots=True)
class CallMethod:
    """A way to call tools, with the receipts of its calls.

    Attributes:
        send: Sends a tool's name and arguments, and returns the result in MCP's wire format.
        receipts: The receipts of all calls so far.
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


def use_bare_http(client: httpx2.AsyncClient, endpoint: str) -> CallMethod:
    """Return the method of posting only the JSON-RPC message of revision 2026-07-28."""

    async def send(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        body = make_call(tool, arguments)
        body["params"]["_meta"] = _META
        method_headers = {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        return await _post(client, endpoint, body, HEADERS | method_headers)

    return CallMethod(send)


def use_bare_http_of_older_revision(client: httpx2.AsyncClient, endpoint: str) -> CallMethod:
    """Return the method of posting a message of an older revision, without its handshake."""

    async def send(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await _post(client, endpoint, make_call(tool, arguments), HEADERS)

    return CallMethod(send)


async def _post(
    client: httpx2.AsyncClient, endpoint: str, body: dict[str, Any], headers: dict[str, str]
) -> dict[str, Any]:
    response = await client.post(endpoint, json=body, headers=headers)
    result: dict[str, Any] = response.json()["result"]
    return result
