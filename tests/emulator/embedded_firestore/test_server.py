"""The server of the embedded Firestore, by a client of gRPC."""

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from google.cloud.firestore_v1.types import BatchGetDocumentsRequest, CommitRequest, Document, Write

from infra.local.embedded_firestore.channel import PREFIX
from infra.local.embedded_firestore.databases import Databases
from tests.support.embedded_database import ANY_INDEX, open_any_index
from tests.support.firestore_server import start_server

DATABASE = "projects/p/databases/(default)"


async def use_server(
    folder: Path, address: str, use: Callable[[grpc.aio.Channel], Awaitable[None]]
) -> None:
    with open_any_index(folder) as databases:
        server, bound = await start_server(databases, address)
        async with grpc.aio.insecure_channel(bound) as channel:
            await use(channel)
        await server.stop(None)


async def write_and_read(channel: grpc.aio.Channel) -> None:
    name = f"{DATABASE}/documents/c/x"
    commit = channel.unary_unary(PREFIX + "Commit", CommitRequest.serialize)
    write = Write(update=Document(name=name))
    await commit(CommitRequest(database=DATABASE, writes=[write]))
    get = channel.unary_stream(PREFIX + "BatchGetDocuments", BatchGetDocumentsRequest.serialize)
    request = BatchGetDocumentsRequest(database=DATABASE, documents=[name, name + "x"])
    assert 2 == len([response async for response in get(request)])


async def test_serves_a_unix_socket_for_its_owner(tmp_path: Path) -> None:
    socket = tmp_path / "s"

    async def use(channel: grpc.aio.Channel) -> None:
        assert 0o600 == stat.S_IMODE(socket.stat().st_mode)
        await write_and_read(channel)

    await use_server(tmp_path / "data", f"unix:{socket}", use)


async def test_serves_a_port_of_the_loopback_interface(tmp_path: Path) -> None:
    await use_server(tmp_path, "127.0.0.1:0", write_and_read)


async def test_does_not_serve_other_machines(tmp_path: Path) -> None:
    databases = Databases(tmp_path, lambda _: ANY_INDEX)
    with pytest.raises(ValueError, match="may be reached by others"):
        await start_server(databases, "0.0.0.0:0")


async def test_errors_are_statuses(tmp_path: Path) -> None:
    async def use(channel: grpc.aio.Channel) -> None:
        for name in ("BatchWrite", "Nonsense"):
            with pytest.raises(grpc.aio.AioRpcError, match=f"does not support {name}") as raised:
                await channel.unary_unary(PREFIX + name)(b"")
            assert grpc.StatusCode.UNIMPLEMENTED is raised.value.code()
        with pytest.raises(grpc.aio.AioRpcError, match="does not support Listen"):
            async for _ in channel.stream_stream(PREFIX + "Listen")():
                pass

    await use_server(tmp_path, "127.0.0.1:0", use)
