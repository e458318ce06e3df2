"""The HTTP server and the request handler from which fakes of services derive."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

HANGS: Final = 3600
"""The seconds of a pause that outlasts any test: with it, a server hangs."""


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on a free port of this machine while the `with` block runs.

    Attributes:
        closing: Set when the server stops, which ends all pauses.
        on_hang: Called when a request begins to hang; a test may advance its clock.
    """

    daemon_threads = True
    request_queue_size = 128
    """With the default of five, a sixth concurrent client would retry after a second."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        """Open the port, by default a free one. This handler serves the requests."""
        super().__init__(("127.0.0.1", port), handler)
        self.closing = threading.Event()
        self.on_hang: Callable[[], object] = lambda: None
        self._loop = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        """Start answering."""
        self._loop.start()
        return self

    def pause(self, seconds: float) -> None:
        """Pause the thread of a request, at most until the server stops."""
        if seconds >= HANGS:
            self.on_hang()
        self.closing.wait(seconds)

    def __exit__(self, *_: object) -> None:
        """Stop, and release hanging requests."""
        self.closing.set()
        self.shutdown()
        self._loop.join()
        self.server_close()


class LoopbackHandler(BaseHTTPRequestHandler):
    """The base of handlers, which logs nothing."""

    disable_nagle_algorithm = True
    """Otherwise, the body would wait 40 ms for the acknowledgement of the headers."""

    def read_body(self) -> bytes:
        """Return the body of the request; empty if it has none."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send_answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, missing: int = 0
    ) -> None:
        """Send an answer with a Content-Length.

        Args:
            status: The HTTP status.
            body: The body.
            headers: Further headers.
            missing: The number of bytes at the end of the body that are never sent. The connection
                is closed instead.
        """
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: max(0, len(body) - missing)])
        if missing:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""
