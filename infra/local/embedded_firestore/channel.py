"""A channel of gRPC whose calls stay in the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

import grpc
from grpc import aio

from infra.local.embedded_firestore.errors import DatabaseFileError, FirestoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

    Route = Callable[[str, bytes], Awaitable[list[bytes]]]
    """Answers a call by its name, with one response or several."""

PREFIX: Final = "/google.firestore.v1.Firestore/"
_STATUS: Final = grpc.StatusCode


def to_status(error: Exception) -> FirestoreError:
    """Return an error as a status of gRPC."""
    match error:
        case FirestoreError():
            return error
        case DatabaseFileError():
            return FirestoreError(_STATUS.FAILED_PRECONDITION, str(error))
    return FirestoreError(_STATUS.UNKNOWN, f"{type(error).__name__}: {error}")


class _Call:
    """A call in progress, which ends also if nobody waits for it any more."""

    def __init__(
        self,
        answer: Awaitable[list[bytes]],
        deserialize: Callable[[bytes], Any],
        timeout: float | None,
    ) -> None:
        self._task = asyncio.ensure_future(answer)
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._deserialize = deserialize
        self._timeout = timeout

    async def _get_responses(self) -> list[Any]:
        try:
            async with asyncio.timeout(self._timeout):
                responses = await asyncio.shield(self._task)
        except TimeoutError as error:
            message = f"There was no answer within {self._timeout} seconds."
            raise _make_error(FirestoreError(_STATUS.DEADLINE_EXCEEDED, message)) from error
        except Exception as error:
            raise _make_error(to_status(error)) from error
        return [self._deserialize(response) for response in responses]

    def cancel(self) -> bool:
        return self._task.cancel()

    def cancelled(self) -> bool:
        return self._task.cancelled()

    def done(self) -> bool:
        return self._task.done()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._task.add_done_callback(lambda _: callback(self))

    def time_remaining(self) -> float | None:
        return self._timeout

    async def initial_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    async def trailing_metadata(self) -> aio.Metadata:
        return aio.Metadata()

    async def code(self) -> grpc.StatusCode:
        return _STATUS.OK

    async def details(self) -> str:
        return ""

    async def wait_for_connection(self) -> None:
        """Raise the call's error, if it has one."""
        await self._get_responses()


class _UnaryUnaryCall(_Call, aio.UnaryUnaryCall):  # type: ignore[misc]
    async def _get_response(self) -> Any:
        [response] = await self._get_responses()
        return response

    def __await__(self) -> Generator[Any, None, Any]:
        return self._get_response().__await__()


class _UnaryStreamCall(_Call, aio.UnaryStreamCall):  # type: ignore[misc]
    _iterator: AsyncIterator[Any] | None = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        for response in await self._get_responses():
            yield response

    async def read(self) -> Any:
        if self._iterator is None:
            self._iterator = aiter(self)
        return await anext(self._iterator, aio.EOF)


class _MultiCallable:
    """A method of the API, which makes calls."""

    def __init__(
        self,
        make_call: Callable[..., Any],
        route: Route,
        method: str,
        serialize: Callable[[Any], bytes],
        deserialize: Callable[[bytes], Any],
    ) -> None:
        self._make_call = make_call
        self._route = route
        self._name = method.removeprefix(PREFIX)
        self._serialize = serialize
        self._deserialize = deserialize

    def __call__(self, request: Any, *, timeout: float | None = None, **_: Any) -> Any:
        answer = self._route(self._name, self._serialize(request))
        return self._make_call(answer, self._deserialize, timeout)


class _UnaryUnary(_MultiCallable, aio.UnaryUnaryMultiCallable):  # type: ignore[misc]
    pass


class _UnaryStream(_MultiCallable, aio.UnaryStreamMultiCallable):  # type: ignore[misc]
    pass


class InProcessChannel(aio.Channel):  # type: ignore[misc]
    """A channel to calls in this process."""

    def __init__(self, route: Route) -> None:
        """Send calls to `route`."""
        self._route = route
        self._unary_unary_interceptors: list[Any] = []  # Google's transport appends its own

    async def __aenter__(self) -> Self:
        """Do nothing."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    async def close(self, grace: float | None = None) -> None:
        """Do nothing. The databases are closed by themselves."""

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:  # noqa: ARG002, FBT001, FBT002
        """Return that the channel is ready."""
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: Any) -> None:  # noqa: ARG002
        """Wait for ever."""
        await asyncio.Event().wait()

    async def channel_ready(self) -> None:
        """Return at once."""

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = None,  # noqa: FBT001
    ) -> aio.UnaryUnaryMultiCallable:
        """Return a method with one response."""
        return _UnaryUnary(
            _UnaryUnaryCall, self._route, method, request_serializer, response_deserializer
        )

    def unary_stream(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = None,  # noqa: FBT001
    ) -> aio.UnaryStreamMultiCallable:
        """Return a method with several responses."""
        return _UnaryStream(
            _UnaryStreamCall, self._route, method, request_serializer, response_deserializer
        )

    def stream_unary(self, method: str, *_: Any, **__: Any) -> aio.StreamUnaryMultiCallable:
        """Return a method that fails."""
        return _fail(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> aio.StreamStreamMultiCallable:
        """Return a method that fails."""
        return _fail(method)


def _make_error(error: FirestoreError) -> aio.AioRpcError:
    return aio.AioRpcError(error.code, aio.Metadata(), aio.Metadata(), error.message)


def _fail(method: str) -> Any:
    def call(*_: Any, **__: Any) -> Any:
        message = f"The embedded Firestore does not support {method.removeprefix(PREFIX)}."
        raise _make_error(FirestoreError(_STATUS.UNIMPLEMENTED, message))

    return call
