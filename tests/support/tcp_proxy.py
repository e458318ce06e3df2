"""Stands between a client and a server, and lets connections break, hang, or be refused."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_EMULATOR = "FIRESTORE_EMULATOR_HOST"


class TcpProxy:
    """Passes bytes on, until told otherwise.

    Attributes:
        host: Where it listens.
    """

    def __init__(self, upstream: str) -> None:
        """Pass on to this host and port."""
        self.host = f"127.0.0.1:{free_port()}"
        self._upstream = upstream
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._flowing.set()

    async def mend(self) -> None:
        """Let connections through, old and new."""
        self._flowing.set()
        name, _, port = self.host.partition(":")
        while self._server is None:
            # Whoever connects somewhere meanwhile may have been given the port for a moment.
            with suppress(OSError):
                self._server = await asyncio.start_server(self._accept, name, int(port))

    async def refuse(self) -> None:
        """Break all connections, and take no new ones."""
        if self._server:
            self._server.close()
            self._server = None
        for each in list(self._writers):
            each.transport.abort()

    async def hang(self) -> None:
        """Pass nothing on any more, and break nothing."""
        self._flowing.clear()

    async def aclose(self) -> None:
        """End everything."""
        self._flowing.set()
        await self.refuse()
        for each in self._pipes:
            each.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, _, port = self._upstream.partition(":")
        there = await asyncio.open_connection(name, int(port))
        for source, sink in ((reader, there[1]), (there[0], writer)):
            self._writers.add(sink)
            pipe = asyncio.create_task(self._pass_on(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while read := await source.read(65_536):
                await self._flowing.wait()
                sink.write(read)
                await sink.drain()
        sink.transport.abort()
        self._writers.discard(sink)


@asynccontextmanager
async def emulator_proxy() -> AsyncIterator[TcpProxy]:
    """A proxy before the emulator of these tests."""
    proxy = TcpProxy(os.environ[_EMULATOR])
    await proxy.mend()
    try:
        yield proxy
    finally:
        await proxy.aclose()


@contextmanager
def emulator_at(host: str) -> Iterator[None]:
    """Whoever connects to the database within the block connects there."""
    usual = os.environ[_EMULATOR]
    os.environ[_EMULATOR] = host
    try:
        yield
    finally:
        os.environ[_EMULATOR] = usual
