"""Errors become HTTP responses without internal messages, with Retry-After rounded up."""

import json
from collections.abc import Callable

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from functions.gateway.http_errors import ErrorMiddleware, make_error_response
from functions.gateway.oauth.consent_page import make_message_page
from functions.gateway.oauth.http import make_oauth_error_response
from shared.core.errors import CarrelError, NotFound, PlatformFault, Unavailable

PRIVATE_TEXT = "what-nobody-may-read"
RESPONSE_MAKERS = {
    "MCP": make_error_response,
    "OAuth": lambda error: make_oauth_error_response(Request({"type": "http"}), error),
    "a page": lambda error: make_message_page("Sign in", error),
}


class FailingApp:
    """An app that sends messages, then raises an error."""

    def __init__(self, error: Exception, *messages: Message) -> None:
        self._error = error
        self._messages = messages

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        for message in self._messages:
            await send(message)
        raise self._error


async def request_failing_app(error: Exception) -> httpx2.Response:
    """Return the response to a request whose app raises this error."""
    transport = httpx2.ASGITransport(ErrorMiddleware(FailingApp(error)))
    async with httpx2.AsyncClient(transport=transport) as client:
        return await client.get(f"http://carrel.example/{PRIVATE_TEXT}?{PRIVATE_TEXT}")


@pytest.mark.parametrize("error", [RuntimeError(PRIVATE_TEXT), PlatformFault(PRIVATE_TEXT)])
async def test_an_internal_error_is_answered_without_details(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    response = await request_failing_app(error)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "Carrel has an internal error. Try again later."
    output = capsys.readouterr()
    [line] = [json.loads(line) for line in output.err.splitlines()]
    assert line["message"] == "fault"
    assert line["severity"] == "ERROR"
    assert line["error"] == type(error).__name__
    assert PRIVATE_TEXT not in response.text + output.err + output.out


async def test_an_error_for_the_caller_is_answered_with_its_message() -> None:
    response = await request_failing_app(
        Unavailable("The database does not answer.", retry_after=4.2)
    )
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert response.json()["error"]["message"] == "The database does not answer."
    assert (await request_failing_app(NotFound("There is none."))).status_code == 404


async def test_a_started_response_is_not_replaced_by_an_error() -> None:
    sent_messages: list[Message] = []

    async def send(message: Message) -> None:
        sent_messages.append(message)

    async def receive() -> Message:
        raise AssertionError

    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await ErrorMiddleware(FailingApp(RuntimeError(PRIVATE_TEXT), start))(
        {"type": "http"}, receive, send
    )
    assert sent_messages == [start]


@pytest.mark.parametrize("make_response", RESPONSE_MAKERS.values(), ids=RESPONSE_MAKERS)
def test_retry_after_is_rounded_up(make_response: Callable[[CarrelError], Response]) -> None:
    responses = [make_response(Unavailable("Later.", retry_after=wait)) for wait in (0.2, 4.0, 4.4)]
    assert [response.headers["retry-after"] for response in responses] == ["1", "4", "5"]
    assert "retry-after" not in make_response(NotFound("Never.")).headers
