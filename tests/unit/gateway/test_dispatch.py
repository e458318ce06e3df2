"""The gateway dispatches calls to functions, whose answers may be invalid, late or missing.

After failures in a row, a circuit breaker sends a function no calls for a pause, then one probe.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from starlette.datastructures import Headers

from functions.gateway.calls.dispatch import HttpDispatcher, IdTokens
from functions.gateway.catalog import Declaration
from shared.core.circuit_breaker import FAILURE_THRESHOLD, OPEN_SECONDS, PROBE_RETRY_SECONDS
from shared.core.log import bind_trace
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest, WireError
from shared.runtime.outage_advice import RETRY_AFTER_SECONDS
from shared.runtime.tool import Effect
from tests.support.clock import SettableMonotonicClock
from tests.support.fake_catalog import make_tool
from tests.support.fakes.http_server import HANGS
from tests.support.fakes.tool_server import SUCCESS, FakeToolServer, Reply
from tests.support.monotonic_clock import MonotonicClock
from tests.support.ports import find_free_port

ERROR_PAGE = b"<html><body>Service temporarily unavailable</body></html>"
GOOGLES_ERROR = b'{"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}'
TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"
BROKEN_REPLY = Reply(500, ERROR_PAGE, {"Content-Type": "text/html"})
WRITING_TOOL = make_tool("try_out", timeout=40, effect=Effect.WRITE)


class NoTokens(IdTokens):
    """A source of Google's tokens that is unavailable."""

    async def authorization(self, url: str) -> dict[str, str]:
        """Fail."""
        raise OSError(url)


def make_error_reply(status: int, code: str) -> Reply:
    """Return an error in the format of a tool's function."""
    return Reply(status, b'{"error": {"code": "%s", "message": "", "details": {}}}' % code.encode())


@pytest.fixture
def clock() -> SettableMonotonicClock:
    """The clock of the circuit breaker, in seconds."""
    return SettableMonotonicClock()


@asynccontextmanager
async def open_dispatcher(
    url: str, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[HttpDispatcher]:
    """Open a dispatcher that reaches `try_out` at a URL."""
    all_settings = Settings(tool_urls={"try_out": url}, **(settings or {}))
    dispatcher = HttpDispatcher(all_settings, **options)
    try:
        yield dispatcher
    finally:
        await dispatcher.aclose()


async def dispatch_to(reply: Reply, tool: Declaration, request: CallRequest) -> CallAnswer:
    """Call a tool whose function sends this reply; return the gateway's answer."""
    with FakeToolServer(reply) as server:
        async with open_dispatcher(server.url) as dispatcher:
            return await dispatcher.call(tool, request)


def assert_unavailable(answer: CallAnswer) -> None:
    assert answer.result is None
    assert answer.error is not None
    assert answer.error.code == "UNAVAILABLE"
    assert answer.error.details == {"tool": "try_out"}
    assert answer.error.retry_after == RETRY_AFTER_SECONDS


async def test_a_result_or_an_error_comes_back_with_its_receipt(
    declaration: Declaration, call_request: CallRequest
) -> None:
    answer = await dispatch_to(Reply(), declaration, call_request)
    assert (answer.result, answer.error) == ({"well": True}, None)
    assert answer.receipt.documents_read == 3
    body = b'{"error": {"code": "NOT_FOUND", "message": "There is none.", "details": {"id": "a"}}}'
    answer = await dispatch_to(Reply(404, body), declaration, call_request)
    assert answer.error == WireError(
        code="NOT_FOUND", message="There is none.", details={"id": "a"}
    )


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200, ERROR_PAGE, {"Content-Type": "text/html"}), "unknown"),
        (BROKEN_REPLY, "unknown"),
        (Reply(302, b"", {"Location": "https://accounts.example/sign-in"}), "unknown"),
        (Reply(200, b""), "unknown"),
        (Reply(200, b'{"result": "text"}'), "unknown"),
        (Reply(200, SUCCESS, missing=10), "unknown"),
        (Reply(200, b"not gzip", {"Content-Encoding": "gzip"}), "unknown"),
        (Reply(200, b'{"result": null, "error": null}'), "unknown"),
        (Reply(500, b'{"detail": "Internal Server Error"}'), "unknown"),
        (Reply(403, GOOGLES_ERROR), "nothing_done"),  # the front end rejects these
        (Reply(404, ERROR_PAGE), "nothing_done"),
        (Reply(429, ERROR_PAGE), "nothing_done"),
    ],
    ids=str,
)
async def test_invalid_response_makes_the_tool_unavailable(
    declaration: Declaration, call_request: CallRequest, reply: Reply, outcome: str
) -> None:
    """And a caller of a tool that writes is told what is known of the outcome."""
    with FakeToolServer(reply) as server:
        async with open_dispatcher(server.url) as dispatcher:
            assert_unavailable(await dispatcher.call(declaration, call_request))
            assert await dispatch_write(dispatcher, call_request) == outcome


@pytest.mark.parametrize("url", [None, "https://tool.example"], ids=["refused", "no token"])
async def test_a_function_that_is_not_reached_does_nothing(
    declaration: Declaration, call_request: CallRequest, url: str | None
) -> None:
    url = url or f"http://127.0.0.1:{find_free_port()}"
    async with open_dispatcher(url, tokens=NoTokens()) as dispatcher:
        assert_unavailable(await dispatcher.call(declaration, call_request))
        assert await dispatch_write(dispatcher, call_request) == "nothing_done"


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [(Reply(pause=HANGS), 60), (Reply(is_sent_bytewise=True), 10)],
    ids=["silent", "dripping"],
)
async def test_hanging_tool_is_abandoned_after_its_deadline(
    declaration: Declaration,
    call_request: CallRequest,
    reply: Reply,
    seconds: float,
    monotonic: MonotonicClock,
) -> None:
    with FakeToolServer(reply) as server:
        server.on_hang = partial(monotonic.advance_soon, seconds)
        async with asyncio.timeout(120), open_dispatcher(server.url) as dispatcher:
            assert_unavailable(await dispatcher.call(declaration, call_request))


async def test_a_tool_without_a_url_is_not_deployed(
    declaration: Declaration, call_request: CallRequest
) -> None:
    dispatcher = HttpDispatcher(Settings(tool_urls={}), names=["try_out"])
    answer = await dispatcher.call(declaration, call_request)
    assert answer.error
    assert answer.error.code == "INTERNAL_ERROR"
    assert await dispatcher.health() == {"try_out": "not deployed"}
    await dispatcher.aclose()


async def dispatch_write(dispatcher: HttpDispatcher, request: CallRequest) -> str:
    """Call a tool that writes, which must fail; return the outcome that the caller is told."""
    answer = await dispatcher.call(WRITING_TOOL, request)
    assert answer.error is not None
    assert answer.error.code == "UNAVAILABLE"
    assert answer.error.details["tool"] == "try_out"
    return str(answer.error.details["outcome"])


async def fail_calls(
    dispatcher: HttpDispatcher, request: CallRequest, times: int = FAILURE_THRESHOLD
) -> None:
    """Send a call several times; each must fail."""
    for _ in range(times):
        assert (await dispatcher.call(WRITING_TOOL, request)).error is not None


@pytest.mark.requirement("002-C5", "002-D6")
@pytest.mark.parametrize(
    "reply",
    [
        BROKEN_REPLY,
        Reply(200, SUCCESS, missing=10),
        make_error_reply(503, "UNAVAILABLE"),
        make_error_reply(500, "INTERNAL_ERROR"),
    ],
)
async def test_five_failures_in_a_row_open_the_breaker(
    call_request: CallRequest, clock: SettableMonotonicClock, reply: Reply
) -> None:
    with FakeToolServer(reply) as server:
        async with open_dispatcher(server.url, clock=clock) as dispatcher:
            await fail_calls(dispatcher, call_request)
            clock.now += 13
            answer = await dispatcher.call(WRITING_TOOL, call_request)

    assert len(server.bodies) == FAILURE_THRESHOLD
    assert answer.error == WireError(
        code="UNAVAILABLE",
        message="try_out is temporarily unreachable. Nothing was stored: call it again in 17 s.",
        details={"tool": "try_out", "outcome": "nothing_done"},
        retry_after=17,
    )


@pytest.mark.requirement("002-C5", "002-C6")
async def test_threshold_and_pause_of_the_breaker_are_settings(
    call_request: CallRequest, clock: SettableMonotonicClock
) -> None:
    settings = {"circuit_failure_threshold": 2, "circuit_recovery_timeout": 90}
    with FakeToolServer(BROKEN_REPLY) as server:
        async with open_dispatcher(server.url, settings, clock=clock) as dispatcher:
            await fail_calls(dispatcher, call_request, 2)
            clock.now += 89
            await fail_calls(dispatcher, call_request, 3)
            assert len(server.bodies) == 2
            clock.now += 1
            server.reply = Reply()
            assert (await dispatcher.call(WRITING_TOOL, call_request)).result


async def test_timeouts_open_the_breaker(
    call_request: CallRequest, clock: SettableMonotonicClock, monotonic: MonotonicClock
) -> None:
    let_calls_time_out = partial(monotonic.advance_soon, 60)
    with FakeToolServer(Reply(pause=HANGS)) as server:
        server.on_hang = threading.Barrier(FAILURE_THRESHOLD, action=let_calls_time_out).wait
        async with open_dispatcher(server.url, clock=clock) as dispatcher:
            await asyncio.gather(
                *(fail_calls(dispatcher, call_request, 1) for _ in range(FAILURE_THRESHOLD))
            )
            await fail_calls(dispatcher, call_request)
    assert len(server.bodies) == FAILURE_THRESHOLD


@pytest.mark.parametrize(
    "reply",
    [make_error_reply(429, "RATE_LIMITED"), Reply(403, GOOGLES_ERROR), Reply(200, b"")],
)
async def test_rejections_do_not_open_the_breaker_and_reset_its_count(
    call_request: CallRequest, reply: Reply
) -> None:
    with FakeToolServer(reply) as server:
        async with open_dispatcher(server.url) as dispatcher:
            await fail_calls(dispatcher, call_request, FAILURE_THRESHOLD + 2)
            assert len(server.bodies) == FAILURE_THRESHOLD + 2
            server.reply = BROKEN_REPLY
            await fail_calls(dispatcher, call_request, FAILURE_THRESHOLD - 1)
            server.reply = make_error_reply(404, "NOT_FOUND")
            await fail_calls(dispatcher, call_request, 1)
            server.reply = BROKEN_REPLY
            await fail_calls(dispatcher, call_request, FAILURE_THRESHOLD - 1)
            server.reply = Reply()
            assert (await dispatcher.call(WRITING_TOOL, call_request)).result


@pytest.mark.requirement("002-C6")
async def test_after_the_pause_one_call_probes_the_function(
    call_request: CallRequest, clock: SettableMonotonicClock
) -> None:
    with FakeToolServer(BROKEN_REPLY) as server:
        async with open_dispatcher(server.url, clock=clock) as dispatcher:
            await fail_calls(dispatcher, call_request)
            clock.now += OPEN_SECONDS
            server.reply = Reply(pause=0.1)
            calls = [dispatcher.call(WRITING_TOOL, call_request) for _ in range(4)]
            probe, *other_answers = await asyncio.gather(*calls)
            assert (await dispatcher.call(WRITING_TOOL, call_request)).result

    assert probe.result
    assert [answer.error.retry_after for answer in other_answers if answer.error] == [
        PROBE_RETRY_SECONDS
    ] * 3
    assert len(server.bodies) == FAILURE_THRESHOLD + 2


async def test_a_failed_probe_begins_another_pause_and_a_cancelled_one_none(
    call_request: CallRequest, clock: SettableMonotonicClock
) -> None:
    with FakeToolServer(BROKEN_REPLY) as server:
        async with open_dispatcher(server.url, clock=clock) as dispatcher:
            await fail_calls(dispatcher, call_request)
            clock.now += OPEN_SECONDS
            await fail_calls(dispatcher, call_request)
            assert len(server.bodies) == FAILURE_THRESHOLD + 1
            clock.now += OPEN_SECONDS
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await dispatcher.call(WRITING_TOOL, call_request)
            server.reply = Reply()
            assert (await dispatcher.call(WRITING_TOOL, call_request)).result


async def test_breakers_of_functions_are_independent(call_request: CallRequest) -> None:
    with FakeToolServer(BROKEN_REPLY) as broken_server, FakeToolServer() as healthy_server:
        urls = {"try_out": broken_server.url, "other": healthy_server.url}
        dispatcher = HttpDispatcher(Settings(tool_urls=urls))
        await fail_calls(dispatcher, call_request)
        answer = await dispatcher.call(make_tool("other"), call_request)
        assert {"other": "ok"}.items() <= (await dispatcher.health()).items()
        await dispatcher.aclose()
    assert answer.result == {"well": True}


async def test_trace_header_is_passed_to_the_function(
    declaration: Declaration, call_request: CallRequest
) -> None:
    with FakeToolServer() as server:
        async with open_dispatcher(server.url) as dispatcher:
            with bind_trace(Headers({"traceparent": TRACEPARENT}), "p"):
                await dispatcher.call(declaration, call_request)
            await dispatcher.call(declaration, call_request)
    assert server.traces == [TRACEPARENT, None]


@pytest.mark.parametrize(
    ("reply", "state"),
    [(Reply(), "ok"), (Reply(503, ERROR_PAGE), "HTTP 503"), (Reply(302), "HTTP 302")],
)
async def test_health_reports_the_answer_of_each_function(reply: Reply, state: str) -> None:
    with FakeToolServer(reply) as server:
        async with open_dispatcher(server.url) as dispatcher:
            assert await dispatcher.health() == {"try_out": state}
    async with open_dispatcher(f"http://127.0.0.1:{find_free_port()}") as dispatcher:
        assert await dispatcher.health() == {"try_out": "unreachable (ConnectError)"}


async def test_health_checks_all_functions_at_the_same_time() -> None:
    barrier = threading.Barrier(2)
    with FakeToolServer() as first_server, FakeToolServer() as second_server:
        first_server.barrier = second_server.barrier = barrier
        dispatcher = HttpDispatcher(
            Settings(tool_urls={"a": first_server.url, "b": second_server.url})
        )
        assert await dispatcher.health() == {"a": "ok", "b": "ok"}
        await dispatcher.aclose()
    assert not barrier.broken
