"""All of Carrel behind a gateway that asks who is calling and lets strangers read."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from tests.e2e.access.conftest import CLOUD
from tests.support.gateway_process import INLINE, run_gateway
from tests.support.mcp_wire import HEADERS, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNLIMITED = {"PUBLIC_ACCESS": "true", "ANONYMOUS_PER_MINUTE": "100000"}


@dataclass(frozen=True, slots=True)
class Carrel:
    """A gateway, and a connection to it that all callers share.

    Attributes:
        endpoint: Where it answers.
        http: The connection.
    """

    endpoint: str
    http: httpx2.Client

    def ask(self, key: str | None, tool: str, /, **arguments: Any) -> httpx2.Response:
        """Call a tool with a key, or as a stranger."""
        return self.send(key, "tools/call", name=tool, arguments=arguments)

    def send(self, key: str | None, method: str, /, **params: Any) -> httpx2.Response:
        """Send a request with a key, or as a stranger."""
        headers = HEADERS | ({"authorization": f"Bearer {key}"} if key else {})
        return self.http.post(self.endpoint, json=message(method, **params), headers=headers)


@contextmanager
def open_carrel(realm: str, log: Path) -> Iterator[Carrel]:
    """Serve it until the block ends, over the project that `make_key` makes keys for."""
    environment = {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD, **UNLIMITED}
    with run_gateway(INLINE, environment, log) as running, httpx2.Client(timeout=60) as http:
        yield Carrel(running.endpoint, http)
