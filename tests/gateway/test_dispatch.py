"""From the gateway to a tool's function that answers badly, late or not at all."""

from __future__ import annotations

import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from functions.gateway.dispatch import RETRY_AFTER, HttpDispatcher
from infra.local.processes import free_port
from shared.call import WireError
from tests.gateway.tool_server import WELL, Reply, ToolServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from functions.gateway.catalog import Declaration
    from shared.call import CallAnswer, CallRequest

pytestmark = pytest.mark.anyio

PAGE = b"<html><body>Service temporarily unavailable</body></html>"
GOOGLES_ERROR = b'{"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}'


@asynccontextmanager
async def dispatching(url: str) -> AsyncIterator[HttpDispatcher]:
    """A dispatcher that reaches `try_out` at a URL."""
    dispatcher = HttpDispatcher({"try_out": url})
    try:
        yield dispatcher
    finally:
        await dispatcher.aclose()


async def answered(reply: Reply, tool: Declaration, request: CallRequest) -> CallAnswer:
    """What the gateway makes of a reply."""
    with ToolServer(reply) as server:
        async with dispatching(server.url) as dispatcher:
            return await dispatcher.call(tool, request)


def assert_unavailable(answer: CallAnswer) -> None:
    assert answer.result is None
    assert answer.error is not None
    assert ("UNAVAILABLE", {"tool": "try_out"}) == (
        answer.error.code,
        answer.error.details,
    )
    assert RETRY_AFTER == answer.error.retry_after


async def test_a_result_comes_back_with_its_receipt(
    declaration: Declaration, call_request: CallRequest
) -> None:
    answer = await answered(Reply(), declaration, call_request)
    assert ({"well": True}, None) == (answer.result, answer.error)
    assert 3 == answer.receipt.documents_read


async def test_an_error_comes_back_as_the_tool_said_it(
    declaration: Declaration, call_request: CallRequest
) -> None:
    body = b'{"error": {"code": "NOT_FOUND", "message": "There is none.", "details": {"id": "a"}}}'
    answer = await answered(Reply(404, body), declaration, call_request)
    assert answer.error == WireError(
        code="NOT_FOUND", message="There is none.", details={"id": "a"}
    )


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, PAGE, {"Content-Type": "text/html"}),
        Reply(500, PAGE, {"Content-Type": "text/html"}),
        Reply(302, b"", {"Location": "https://accounts.example/sign-in"}),
        Reply(200, b""),
        Reply(200, b'{"result": {"well": tr'),
        Reply(200, b'{"result": "text"}'),
        Reply(200, WELL, missing=10),
        Reply(200, b"not gzip", {"Content-Encoding": "gzip"}),
        Reply(200, b"{}"),
        Reply(200, b'{"result": null, "error": null}'),
        Reply(500, b'{"detail": "Internal Server Error"}'),
        Reply(403, GOOGLES_ERROR),
    ],
    ids=[
        "a page", "an error page", "a redirect", "nothing", "cut JSON", "a result of no shape",
        "a cut connection", "bytes that do not decode", "an empty object", "neither of the two",
        "an error of the framework", "an error of Google's",
    ],
)  # fmt: skip
async def test_rubbish_means_that_the_tool_is_unavailable(
    declaration: Declaration, call_request: CallRequest, reply: Reply
) -> None:
    assert_unavailable(await answered(reply, declaration, call_request))


async def test_nobody_there_means_that_the_tool_is_unavailable(
    declaration: Declaration, call_request: CallRequest
) -> None:
    async with dispatching(f"http://127.0.0.1:{free_port()}") as dispatcher:
        assert_unavailable(await dispatcher.call(declaration, call_request))


@pytest.mark.parametrize("reply", [Reply(pause=60), Reply(drip=0.06)], ids=["silent", "dripping"])
async def test_a_tool_that_hangs_is_given_up_soon_after_its_deadline(
    declaration: Declaration, call_request: CallRequest, reply: Reply
) -> None:
    began = time.monotonic()
    assert_unavailable(await answered(reply, declaration, call_request))
    assert time.monotonic() - began < declaration.timeout + 2


async def test_a_tool_that_is_not_deployed_is_our_fault(
    declaration: Declaration, call_request: CallRequest
) -> None:
    dispatcher = HttpDispatcher({})
    answer = await dispatcher.call(declaration, call_request)
    await dispatcher.aclose()
    assert answer.error is not None
    assert "INTERNAL_ERROR" == answer.error.code


@pytest.mark.parametrize(
    ("reply", "state"), [(Reply(), "ok"), (Reply(503, PAGE), "HTTP 503"), (Reply(302), "HTTP 302")]
)
async def test_health_is_what_the_function_answers(reply: Reply, state: str) -> None:
    with ToolServer(reply) as server:
        async with dispatching(server.url) as dispatcher:
            assert {"try_out": state} == await dispatcher.health()


async def test_health_names_what_cannot_be_reached() -> None:
    async with dispatching(f"http://127.0.0.1:{free_port()}") as dispatcher:
        assert {"try_out": "unreachable (ConnectError)"} == await dispatcher.health()


async def test_health_asks_all_functions_at_once() -> None:
    barrier = threading.Barrier(2)
    with ToolServer() as one, ToolServer() as other:
        one.both = other.both = barrier
        dispatcher = HttpDispatcher({"a": one.url, "b": other.url})
        assert {"a": "ok", "b": "ok"} == await dispatcher.health()
        await dispatcher.aclose()
    assert not barrier.broken


async def test_a_tool_without_a_url_is_missed() -> None:
    dispatcher = HttpDispatcher({}, names=["try_out"])
    assert {"try_out": "not deployed"} == await dispatcher.health()
    await dispatcher.aclose()
