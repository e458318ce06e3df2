"""A client of a gateway with all tools, where anonymous callers may use public tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.mcp_wire import HEADERS, make_request


@dataclass(frozen=True, slots=True)
class Carrel:
    """A gateway, with one HTTP client for all callers.

    Attributes:
        endpoint: The URL of the MCP endpoint.
        http: The HTTP client.
    """

    endpoint: str
    http: httpx2.Client

    def call_tool(self, key: str | None, tool: str, /, **arguments: Any) -> httpx2.Response:
        """Call a tool with a key, or anonymously."""
        return self.send_request(key, "tools/call", name=tool, arguments=arguments)

    def send_request(self, key: str | None, method: str, /, **params: Any) -> httpx2.Response:
        """Send a request with a key, or anonymously."""
        headers = HEADERS | ({"authorization": f"Bearer {key}"} if key else {})
        return self.http.post(self.endpoint, json=make_request(method, **params), headers=headers)
