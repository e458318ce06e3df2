"""A server on the web, as far as the gateway can tell: https, with a name of its own."""

from __future__ import annotations

import contextlib
import ssl
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from functions.gateway.oauth.safe_fetch import DocumentRejected, Endpoint, SafeFetch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

HOST = "client.example"
URL = f"https://{HOST}/oauth/client.json"


@dataclass(frozen=True)
class Page:
    """What the server answers.

    Attributes:
        body: The whole body, unless it drips.
        status: The HTTP status.
        headers: Headers beside the usual ones, or in their place.
        endless: Whether the body is sent again and again until the client leaves.
        pause: Seconds before each part.
    """

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    endless: bool = False
    pause: float = 0.0


@dataclass(frozen=True)
class Asked:
    """What a request said.

    Attributes:
        target: Its path and query.
        headers: Its headers, with names in lower case.
        sni: The name that the TLS handshake asked for.
    """

    target: str
    headers: dict[str, str]
    sni: str | None


class DocumentServer(ThreadingHTTPServer):
    """Listens on a free port of this machine while the `with` block runs.

    Attributes:
        page: What it answers from now on.
        asked: The requests so far.
        arrived: Set once there was one.
        gate: Requests wait until it is set.
    """

    daemon_threads = True
    request_queue_size = 128  # or a sixth client at once tries again after a second

    def __init__(self, certificate: Path, page: Page | None = None) -> None:
        """Open the port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = page or Page()
        self.asked: list[Asked] = []
        self.arrived = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.closing = threading.Event()
        self.names: list[str | None] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self._loop = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint("127.0.0.1", self.server_port)

    def __enter__(self) -> Self:
        """Start answering."""
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and let hanging requests go."""
        self.closing.set()
        self.gate.set()
        self.shutdown()
        self._loop.join()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that leave."""


class _Handler(BaseHTTPRequestHandler):
    server: DocumentServer

    def do_GET(self) -> None:
        name = self.server.names[-1] if self.server.names else None
        headers = {key.lower(): value for key, value in self.headers.items()}
        _, target, _ = self.requestline.split()  # self.path has been tidied up
        self.server.asked.append(Asked(target, headers, name))
        self.server.arrived.set()
        self.server.gate.wait()
        with contextlib.suppress(OSError):  # the client may have left
            self._send(self.server.page)

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        for name, value in {"Content-Type": "application/json", **page.headers}.items():
            self.send_header(name, value)
        if not page.endless:
            self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        while not self.server.closing.wait(page.pause):
            self.wfile.write(page.body)
            if not page.endless:
                return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def write_named_certificate(path: Path, *names: str) -> Path:
    """Write a key and a certificate for these names, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + certificate.public_bytes(pem))
    return path


def at(*endpoints: Endpoint) -> Callable[[str], Awaitable[list[Endpoint]]]:
    """A resolver that knows one host, and vouches for where it is."""

    async def resolve(host: str) -> list[Endpoint]:
        if host != HOST:
            raise DocumentRejected("host_unknown")
        return list(endpoints)

    return resolve


def fetching(server: DocumentServer, certificate: Path, seconds: float = 5.0) -> SafeFetch:
    """A fetcher for which the server is a public one, with a certificate to be trusted."""
    tls = ssl.create_default_context(cafile=certificate)
    return SafeFetch(at(server.endpoint), tls, seconds)
