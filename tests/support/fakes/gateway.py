"""A fake gateway, which answers only what clients without credentials may request."""

import json
from typing import Any

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer


class FakeGateway(LoopbackServer):
    """A fake gateway on a free port while the `with` block runs.

    Attributes:
        health: The HTTP status of `/health`.
        resource: The resource in the OAuth metadata; by default, this gateway's MCP endpoint.
        metadata: The body of the OAuth metadata; by default, JSON with the resource.
        refusal: The HTTP status of MCP calls, which have no credentials here.
    """

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.health = 200
        self.resource: str | None = None
        self.metadata: bytes | None = None
        self.refusal = 401

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(LoopbackHandler):
    server: FakeGateway

    def do_GET(self) -> None:
        if self.path == "/health":
            parts = {"search_kb": "ok" if self.server.health == 200 else "it does not answer"}
            return self._send_json(self.server.health, {"status": "ok", "parts": parts})
        assert self.path == "/.well-known/oauth-protected-resource/mcp"
        resource = self.server.resource or f"{self.server.url}/mcp"
        metadata = self.server.metadata or json.dumps({"resource": resource}).encode()
        return self.send_answer(200, metadata)

    def do_POST(self) -> None:
        self.read_body()
        self._send_json(self.server.refusal, {})

    def _send_json(self, status: int, body: dict[str, Any]) -> None:
        self.send_answer(status, json.dumps(body).encode())
