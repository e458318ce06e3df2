"""Fixtures: a web server with TLS, which stands for a public one, and its certificate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import write_certificate
from tests.support.public_web_server import HOST, PublicWebServer


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of the server's host."""
    return write_certificate(tmp_path / "client.pem", HOST)


@pytest.fixture
def server(certificate: Path) -> Iterator[PublicWebServer]:
    with PublicWebServer(certificate) as document_server:
        yield document_server
