"""All of Carrel behind a gateway that asks who is calling and lets strangers read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.mcp_wire import HEADERS, message

if TYPE_CHECKING:
    import httpx2


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
