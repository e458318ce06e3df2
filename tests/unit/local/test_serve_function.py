"""A function that is served on this machine keeps idle connections, but waits for no headers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from infra.local.serve_function import make_server

HEADER_SECONDS = 1.0
"""Longer than a busy machine keeps this process from sending after it has connected."""
TIMEOUT_SECONDS = 60
"""A test that takes this long hangs, even on a busy machine."""
REQUEST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n"


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(await request.body())


@contextmanager
def run_server() -> Iterator[tuple[str, int]]:
    """Run a server with a short deadline in a thread."""
    server = make_server(Starlette(routes=[Route("/", echo, methods=["POST"])]), HEADER_SECONDS)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_SECONDS)


def connect(address: tuple[str, int], data: bytes) -> socket.socket:
    connection = socket.create_connection(address, TIMEOUT_SECONDS)
    connection.sendall(data)
    return connection


def test_an_idle_connection_stays_open_for_75_seconds() -> None:
    assert make_server(Starlette()).config.timeout_keep_alive == 75


@pytest.mark.parametrize("data", [b"", b"POST", REQUEST[:-2]])
def test_a_connection_without_whole_headers_is_closed(data: bytes) -> None:
    with run_server() as address, connect(address, data) as connection:
        assert connection.recv(1) == b""


def test_a_slow_body_and_an_idle_connection_are_not_cut_off() -> None:
    """When the last connection has been closed, the deadline of the earlier ones has passed."""
    with (
        run_server() as address,
        connect(address, REQUEST + b"sl") as slow,
        connect(address, REQUEST + b"idle") as idle,
    ):
        assert b"idle" in idle.recv(1000)
        with connect(address, REQUEST[:-2]) as unfinished:
            assert unfinished.recv(1) == b""
        slow.sendall(b"ow")
        idle.sendall(REQUEST + b"back")
        assert b"slow" in slow.recv(1000)
        assert b"back" in idle.recv(1000)
        idle.sendall(REQUEST[:-2])
        assert idle.recv(1) == b""
