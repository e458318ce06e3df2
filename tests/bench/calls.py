"""What a call costs over HTTP, against the same Firestore requests made bare.

Usage: python -m tests.bench.calls [ROUNDS]

The floor is what no server could do without: the tool's own requests, with its projections, to
the same emulator; for a search once more with the query embedded first. Every way of calling gets
the same chunk, or the same question, in the same round. The official client parses and checks
what it gets, so "bare HTTP", which reads JSON and no more, is nearer to what the gateway costs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx2
from google.cloud.firestore import AsyncClient
from mcp import Client

from functions.gateway.server import RECEIPT
from infra.deploy.discovery import tools
from infra.local.emulator import run_emulator
from infra.local.processes import serve_tools
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.caller import Caller
from shared.deps import Backend
from shared.settings import Settings
from shared.store import Meter
from shared.store.chunks import COLLECTION, nearest_query
from tests.bench.base import Remembering, fill, known_vectors
from tests.bench.measuring import interleaved, milliseconds, print_table, ratio, timed
from tests.e2e.running import GATEWAY, INLINE, run_gateway
from tests.e2e.wire import HEADERS, call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.ai.embedding import Vector
    from tests.bench.base import Base

ROUNDS: Final = 60
CHUNKS: Final = 1_000
PROJECT: Final = "bench-calls"
_RELATED, _FOUND = 6, 10
"""What get_chunk and search_kb ask Firestore for by default."""


@dataclass(slots=True)
class Way:
    """One way of calling a tool, and the receipts it brought.

    Attributes:
        send: Takes a tool's name and arguments, brings back the result as MCP has it.
        receipts: What the calls say of themselves.
    """

    send: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    receipts: list[dict[str, Any]] = field(default_factory=list)

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool and keep its receipt."""
        result = await self.send(tool, arguments)
        if result.get("isError"):
            raise RuntimeError(result["content"])
        self.receipts.append(result["_meta"][RECEIPT])


def bare_http(client: httpx2.AsyncClient, endpoint: str) -> Way:
    """Post the JSON-RPC message itself."""

    async def send(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        response = await client.post(endpoint, json=call(tool, arguments), headers=HEADERS)
        result: dict[str, Any] = response.json()["result"]
        return result

    return Way(send)
