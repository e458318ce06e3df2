"""A fake of a tool's function that can fail on demand, for tests of the gateway's dispatcher."""

import contextlib
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

SUCCESS = b'{"result": {"well": true}, "receipt": {"documents_read": 3}}'
"""The default body: the answer of a call that succeeded."""


@dataclass(frozen=True)
class Reply:
    """A reply of the server.

    Attributes:
        status: The HTTP status.
        body: The whole body.
        headers: Additional headers.
        missing: The number of bytes of the Content-Length that are never sent.
        pause: Seconds before the response.
        is_sent_bytewise: Whether the server pauses before each byte of the body.
    """

    status: int = 200
    body: bytes = SUCCESS
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    pause: float = 0.0
    is_sent_bytewise: bool = False


class FakeToolServer(LoopbackServer):
    """A fake function on a free port while the `with` block runs.

    Attributes:
        reply: The reply to all further requests.
        bodies: The body of each `POST` so far.
        authorizations: The `Authorization` header of each request so far.
        traces: The `traceparent` header of each request so far.
        barrier: A barrier at which the requests of two servers wait for each other, or None.
    """

    def __init__(self, reply: Reply | None = None, certificate: Path | None = None) -> None:
        """Open the port, with TLS if there is a certificate."""
        super().__init__(_Handler)
        self.reply = reply or Reply()
        self.bodies: list[bytes] = []
        self.authorizations: list[str | None] = []
        self.traces: list[str | None] = []
        self.barrier: threading.Barrier | None = None
        self.url = f"http://127.0.0.1:{self.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.url = f"https://127.0.0.1:{self.server_port}"


class _Handler(LoopbackHandler):
    server: FakeToolServer

    def do_POST(self) -> None:
        self.server.bodies.append(self.read_body())
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        reply = self.server.reply
        self.server.authorizations.append(self.headers["Authorization"])
        self.server.traces.append(self.headers["traceparent"])
        if self.server.barrier:
            self.server.barrier.wait(60)
        self.server.pause(reply.pause)
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = {"Content-Type": "application/json", **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body) + reply.missing))
        self.end_headers()
        if not reply.is_sent_bytewise:
            self.wfile.write(reply.body)
            return
        for byte in reply.body:
            self.server.on_hang()
            self.server.closing.wait(0.01)
            self.wfile.write(bytes([byte]))
