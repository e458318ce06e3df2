"""A web server on this machine, and fetchers that treat it as a server on the public internet.

Real fetchers refuse loopback addresses, so these resolve a public name to the server's address.
"""

import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from functions.gateway.oauth.client_id_metadata import FETCH_RULES
from shared.core.public_url import DocumentRejected
from shared.core.safe_fetch import Endpoint, SafeFetch
from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

HOST = "client.example"
"""The public name of the server."""
DOCUMENT_URL = f"https://{HOST}/oauth/client.json"
"""The URL of an OAuth client's metadata document."""


@dataclass(frozen=True)
class Page:
    """A response of the server.

    Attributes:
        body: The body; of an endless body, the part that is repeated.
        status: The HTTP status.
        headers: Headers that are added to the usual ones, or replace them.
        is_endless: Whether the body is repeated until the client disconnects.
        pause: Seconds before each part.
    """

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    is_endless: bool = False
    pause: float = 0.0


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the server received.

    Attributes:
        target: The path and query.
        headers: The headers, with names in lower case.
        sni: The server name in the TLS handshake.
    """

    target: str
    headers: dict[str, str]
    sni: str | None


class PublicWebServer(LoopbackServer):
    """A web server on a free port of this machine while the `with` block runs.

    Attributes:
        page: The response to every request for which `pages` has none.
        pages: Responses by target.
        requests: The requests so far.
        arrived: Set after the first request.
        gate: Responses wait until this is set. It is set unless a test clears it.
        server_names: The server name of each TLS handshake so far.
    """

    def __init__(self, certificate: Path | None, page: Page | None = None) -> None:
        """Open the port. Without a certificate, serve plain HTTP."""
        super().__init__(_Handler)
        self.page = page or Page()
        self.pages: dict[str, Page] = {}
        self.requests: list[ReceivedRequest] = []
        self.arrived = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.server_names: list[str | None] = []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            context.sni_callback = lambda _socket, name, _context: self.server_names.append(name)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def endpoint(self) -> Endpoint:
        """The address and port of the server."""
        return Endpoint("127.0.0.1", self.server_port)

    def __exit__(self, *_: object) -> None:
        """Stop, and release waiting requests."""
        self.gate.set()
        super().__exit__()

    def handle_error(self, *_: object) -> None:
        """Do not log clients that disconnect."""


class _Handler(LoopbackHandler):
    server: PublicWebServer

    def do_GET(self) -> None:
        sni = self.server.server_names[-1] if self.server.server_names else None
        headers = {key.lower(): value for key, value in self.headers.items()}
        _, target, _ = self.requestline.split()  # self.path is normalized
        self.server.requests.append(ReceivedRequest(target, headers, sni))
        self.server.arrived.set()
        self.server.gate.wait()
        with contextlib.suppress(OSError):  # the client may have disconnected
            self._send(self.server.pages.get(target, self.server.page))

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        for name, value in {"Content-Type": "application/json", **page.headers}.items():
            self.send_header(name, value)
        if not page.is_endless:
            self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        while not self.server.closing.wait(page.pause):
            self.wfile.write(page.body)
            if not page.is_endless:
                return


def make_resolver(*endpoints: Endpoint) -> Callable[[str, int], Awaitable[list[Endpoint]]]:
    """Make a resolver that resolves only `HOST`, to these endpoints."""

    async def resolve(host: str, _port: int) -> list[Endpoint]:
        if host != HOST:
            raise DocumentRejected("host_unknown")
        return list(endpoints)

    return resolve


def make_fetcher(server: PublicWebServer, certificate: Path, seconds: float = 30.0) -> SafeFetch:
    """Make a fetcher that treats the server as a public one, and trusts its certificate."""
    tls = ssl.create_default_context(cafile=certificate)
    return SafeFetch(replace(FETCH_RULES, seconds=seconds), make_resolver(server.endpoint), tls)
