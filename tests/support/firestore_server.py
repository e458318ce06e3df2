"""A gRPC server of embedded databases, for tests that read them from another process."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc import aio

from infra.local.embedded_firestore.channel import PREFIX, to_status
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions

if TYPE_CHECKING:
    from infra.local.embedded_firestore.channel import Route

_STREAMS: Final = {"BatchGetDocuments", "RunAggregationQuery", "RunQuery"}
_LOOPBACK: Final = ("127.0.0.1:", "localhost:", "[::1]:")
_MAX_MESSAGE_BYTES: Final = 64 * 1_048_576


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands serialized requests on."""

    def __init__(self, route: Route) -> None:
        self._route = route

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method."""
        method = handler_call_details.method
        if not method.startswith(PREFIX):
            return None
        name = method.removeprefix(PREFIX)

        async def answer(request: bytes, context: aio.ServicerContext) -> list[bytes]:
            try:
                return await self._route(name, request)
            except Exception as error:
                status = to_status(error)
                await context.abort(status.code, status.message)
                raise  # abort has raised

        async def answer_once(request: bytes, context: aio.ServicerContext) -> bytes:
            [response] = await answer(request, context)
            return response

        async def answer_often(request: bytes, context: aio.ServicerContext) -> Any:
            for response in await answer(request, context):
                yield response

        async def refuse(_: Any, context: aio.ServicerContext) -> Any:
            await answer(b"", context)
            yield b""

        if name in {"Listen", "Write"}:
            return grpc.stream_stream_rpc_method_handler(refuse)
        if name in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(answer_often)
        return grpc.unary_unary_rpc_method_handler(answer_once)


async def start_server(databases: Databases, address: str) -> tuple[aio.Server, str]:
    """Start a server, and return it with its address.

    Args:
        databases: What to serve.
        address: `unix:/PATH`, or a loopback address with a port, which is chosen if it is 0.

    Raises:
        ValueError: The address is open to others.
    """
    is_socket = address.startswith("unix:")
    if not is_socket and not address.startswith(_LOOPBACK):
        raise ValueError(f"{address} may be reached by others. Use 127.0.0.1 or unix:/PATH.")
    options = [
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),
    ]
    server = aio.server(options=options)
    server.add_generic_rpc_handlers((_Handler(databases.route),))
    mask = os.umask(0o177) if is_socket else None  # the socket gets the mode 0600
    try:
        port = server.add_insecure_port(address)
        await server.start()
    finally:
        if mask is not None:
            os.umask(mask)
    return server, address if is_socket else f"{address.rpartition(':')[0]}:{port}"


def read_definitions(files: list[Path], dimension: int | None) -> dict[str, Definitions]:
    """Read index files, each of the database that its name begins with, or else of the default."""
    return {
        "(default)" if file.name.startswith("firestore.") else file.name.partition(".")[0]: (
            Definitions.read(file, dimension)
        )
        for file in files
    }


async def _serve(arguments: argparse.Namespace) -> None:
    by_database = read_definitions(arguments.indexes, arguments.dimension)

    def define(database: str) -> Definitions:
        definitions = by_database.get(database) or by_database.get("(default)", Definitions())
        return replace(definitions, builds_missing=arguments.build_missing)

    databases = Databases(arguments.folder, define, durable=not arguments.fast)
    server, address = await start_server(databases, arguments.address)
    print(address, flush=True)  # noqa: T201 - whoever started it waits for the address
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop(1)
    databases.close()


def _main() -> None:
    parser = argparse.ArgumentParser(description="Serve the databases of a folder by gRPC.")
    parser.add_argument("--folder", type=Path, required=True, help="where the files are")
    parser.add_argument("--address", default="127.0.0.1:0", help="unix:/PATH or 127.0.0.1:PORT")
    parser.add_argument(
        "--indexes", type=Path, nargs="*", default=[], help="files like firestore.indexes.json"
    )
    parser.add_argument("--dimension", type=int, help="of all vectors, instead of the files'")
    parser.add_argument(
        "--build-missing", action="store_true", help="give a query an index that is not defined"
    )
    parser.add_argument(
        "--fast", action="store_true", help="answer a commit before it survives a power failure"
    )
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    _main()
