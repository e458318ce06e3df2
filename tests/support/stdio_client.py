"""A client that starts its server itself, as Claude Desktop does."""

import json
import threading
from typing import Any

from tests.support.local_machine import CARREL, Machine
from tests.support.mcp_wire import HANDSHAKE, make_call, make_initialize


class StdioClient:
    """A client that starts a server of its own, and calls it over standard input and output."""

    def __init__(self, machine: Machine) -> None:
        """Start the server, and shake hands."""
        self.process = machine.start([*CARREL, "stdio"])
        assert self.process.stderr
        # A full pipe would stop the server.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self._send(make_initialize(HANDSHAKE[0]))
        self._receive()
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, and return its result."""
        self._send(make_call(tool, arguments))
        return self._receive()["result"]["structuredContent"]  # type: ignore[no-any-return]

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{json.dumps(message)}\n")
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]
