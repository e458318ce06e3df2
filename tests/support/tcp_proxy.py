"""A TCP proxy in front of the emulator, whose connections a test can break, delay or reject."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from shared.core.target import EMULATOR, choose_target, get_target
from tests.support.ports import find_free_port

_EMULATOR = "FIRESTORE_EMULATOR_HOST"
"""The environment variable with the emulator's host and port."""


class TcpProxy:
    """Forwards bytes between clients and a server.

    Attributes:
        host: The host and port on which the proxy listens.
    """

    def __init__(self, upstream: str) -> None:
        """Forward to this host and port."""
        self.host = f"127.0.0.1:{find_free_port()}"
        self._upstream = upstream
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def restore(self) -> None:
        """Forward all connections again, and accept new ones."""
        self._flowing.set()
        name, _, port = self.host.partition(":")
        while self._server is None:
            # Another process may be using the port for a client connection at the moment.
            with suppress(OSError):
                self._server = await asyncio.start_server(self._accept, name, int(port))

    async def refuse(self) -> None:
        """Break all connections, and refuse new ones."""
        if self._server:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def hang(self) -> None:
        """Stop forwarding without breaking connections."""
        self._flowing.clear()

    async def aclose(self) -> None:
        """Close all connections."""
        self._flowing.set()
        await self.refuse()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, _, port = self._upstream.partition(":")
        upstream_reader, upstream_writer = await asyncio.open_connection(name, int(port))
        for source, sink in ((reader, upstream_writer), (upstream_reader, writer)):
            self._writers.add(sink)
            pipe = asyncio.create_task(self._forward(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while block := await source.read(65_536):
                await self._flowing.wait()
                sink.write(block)
                await sink.drain()
        sink.transport.abort()
        self._writers.discard(sink)


@asynccontextmanager
async def run_emulator_proxy() -> AsyncIterator[TcpProxy]:
    """Start a proxy in front of the emulator."""
    proxy = TcpProxy(os.environ[_EMULATOR])
    await proxy.restore()
    try:
        yield proxy
    finally:
        await proxy.aclose()


@contextmanager
def use_emulator_at(host: str) -> Iterator[None]:
    """Let new clients connect to the database at this host and port, until the block ends."""
    original, target = os.environ[_EMULATOR], get_target()
    os.environ[_EMULATOR] = host
    choose_target(EMULATOR)
    try:
        yield
    finally:
        os.environ[_EMULATOR] = original
        choose_target(target)
