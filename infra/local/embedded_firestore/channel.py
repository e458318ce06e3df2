"""A channel of gRPC whose calls stay in the process, and a server of the same calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import apsw
import grpc
from grpc import aio

from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.storage import _describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Route = Callable[[str, bytes], Awaitable[list[bytes]]]
    """Answers a call by its name, with one response or several."""

PREFIX: Final = "/google.firestore.v1.Firestore/"


def to_status(error: Exception) -> FirestoreError:
    """Return an error as a status of gRPC."""
    match error:
        case FirestoreError():
            return error
        case apsw.BusyError():
            return FirestoreError(grpc.StatusCode.ABORTED, "Other processes write. Try again.")
        case apsw.FullError():
            return FirestoreError(
                grpc.StatusCode.UNKNOWN, "The disk is full. Free some space."
            )
        case apsw.ReadOnlyError():
            return FirestoreError(grpc.StatusCode.PERMISSION_DENIED, f"{error}")
        case apsw.Error():
            return FirestoreError(grpc.StatusCode.DATA_LOSS, f"{type(error).__name__}: {error}")
    return FirestoreError(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")


class _Call:
    """A call that has its answer as soon as it is awaited."""

    def __init__(self, run: Awaitable[list[bytes]], deserialize: Callable[[bytes], Any]) -> None:
        self._task = asyncio.ensure_future(run)
        self._deserialize = deserialize
        self._iterator: AsyncIterator[Any] | None = None

    async def _answer(self) -> list[Any]:
        try:
            responses = await asyncio.shield(self._task)
        except Exception as error:  # noqa: BLE001 - all become a status
            status = to_status(error)
            raise aio.AioRpcError(
                status.code, aio.Metadata(), aio.Metadata(), status.message
            ) from error
        return [self._deserialize(response) for response in responses]

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return self._task.cancelled()

    def done(self) -> bool:
        return self._task.done()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._task.add_done_callback(lambda _: callback(self))

    def time_remaining(self) -> float | None:
        return None

    async def initial_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    async def trailing_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK

    async def details(self) -> str:
        return ""

    async def wait_for_connection(self) -> None:
        await self._answer()


class _UnaryUnaryCall(_Call, aio.UnaryUnaryCall):  # type: ignore[misc]
    def __await__(self) -> Any:
        async def answer() -> Any:
            [response] = await self._answer()
            return response

        return answer().__await__()


class _UnaryStreamCall(_Call, aio.UnaryStreamCall):  # type: ignore[misc]
    def __aiter__(self) -> AsyncIterator[Any]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Any]:
        for response in await self._answer():
            yield response

    async def read(self) -> Any:
        if self._iterator is None:
            self._iterator = self._iterate()
        async for response in self._iterator:
            return response
        return aio.EOF


class _MultiCallable:
    def __init__(
        self, route: Route, method: str, serialize: Callable[[Any], bytes], deserialize: Any, call: Any
    ) -> None:
        self._route = route
        self._method = method
        self._serialize = serialize
        self._deserialize = deserialize
        self._call = call

    def __call__(self, request: Any, **_: Any) -> Any:
        data = self._serialize(request)
        return self._call(self._route(self._method, data), self._deserialize)


class _UnaryUnary(_MultiCallable, aio.UnaryUnaryMultiCallable):  # type: ignore[misc]
    pass


class _UnaryStream(_MultiCallable, aio.UnaryStreamMultiCallable):  # type: ignore[misc]
    pass


class InProcessChannel(aio.Channel):  # type: ignore[misc]
    """A channel to calls in this process."""

    def __init__(self, route: Route, close: Callable[[], None] | None = None) -> None:
        """Send calls to `route`."""
        self._route = route
        self._close = close
        self._unary_unary_interceptors: list[Any] = []  # Google's transport appends its own

    async def __aenter__(self) -> InProcessChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:  # noqa: ARG002
        """Close what the channel uses."""
        if self._close:
            self._close()
            self._close = None

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:  # noqa: ARG002, FBT001, FBT002
        """Return that the channel is ready."""
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: Any) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def channel_ready(self) -> None:
        """Return at once."""

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        """Return a function that makes calls."""
        return _UnaryUnary(
            self._route, method, request_serializer, response_deserializer, _UnaryUnaryCall
        )

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        """Return a function that makes calls with several responses."""
        return _UnaryStream(
            self._route, method, request_serializer, response_deserializer, _UnaryStreamCall
        )

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        """Return a function that fails."""
        return _fail(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        """Return a function that fails."""
        return _fail(method)


def _fail(method: str) -> Any:
    def call(*_: Any, **__: Any) -> Any:
        raise aio.AioRpcError(
            grpc.StatusCode.UNIMPLEMENTED, aio.Metadata(), aio.Metadata(), method.removeprefix(PREFIX)
        )

    return call
