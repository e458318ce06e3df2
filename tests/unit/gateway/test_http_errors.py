"""Errors as HTTP answers: without the words of faults, and with a wait rather too long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx2
import pytest
from starlette.requests import Request

from functions.gateway.http_errors import ErrorMiddleware, error_response
from functions.gateway.oauth.consent_page import message_page
from functions.gateway.oauth.http import oauth_error_response
from shared.core.errors import NotFound, PlatformFault, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from shared.core.errors import CarrelError

pytestmark = pytest.mark.anyio

SECRET = "what-nobody-may-read"
RESPONSES = {
    "MCP": error_response,
    "OAuth": lambda error: oauth_error_response(Request({"type": "http"}), error),
    "a page": lambda error: message_page("Sign in", error),
}


class Raising:
    """An app that breaks, before or while it answers."""

    def __init__(self, error: Exception, *first: Message) -> None:
        """Send these messages, then raise this."""
        self._error = error
        self._first = first

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Break."""
        for message in self._first:
            await send(message)
        raise self._error


async def answer_to(error: Exception) -> httpx2.Response:
    """Return the response that a client gets if an app raises this."""
    transport = httpx2.ASGITransport(ErrorMiddleware(Raising(error)))
    async with httpx2.AsyncClient(transport=transport) as client:
        return await client.get(f"http://carrel.example/{SECRET}?{SECRET}")


@pytest.mark.parametrize("error", [RuntimeError(SECRET), PlatformFault(SECRET)])
async def test_an_internal_error_is_answered_without_details(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await answer_to(error)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "Carrel has an internal error. Try again later."
    output = capsys.readouterr()
    [line] = [json.loads(line) for line in output.err.splitlines()]
    assert line["message"] == "fault"
    assert line["severity"] == "ERROR"
    assert line["error"] == type(error).__name__
    assert SECRET not in answer.text + output.err + output.out


async def test_an_error_the_caller_can_act_on_is_answered() -> None:
    answer = await answer_to(Unavailable("The database does not answer.", retry_after=4.2))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["error"]["message"] == "The database does not answer."
    assert (await answer_to(NotFound("There is none."))).status_code == 404


async def test_started_response_is_not_restarted() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await ErrorMiddleware(Raising(RuntimeError(SECRET), start))({"type": "http"}, receive, send)
    assert sent == [start]


@pytest.mark.parametrize("response_to", RESPONSES.values(), ids=RESPONSES)
def test_retry_after_is_rounded_up(
    response_to: Callable[[CarrelError], Response],
) -> None:
    responses = [response_to(Unavailable("Later.", retry_after=wait)) for wait in (0.2, 4.0, 4.4)]
    assert [response.headers["retry-after"] for response in responses] == ["1", "4", "5"]
    assert "retry-after" not in response_to(NotFound("Never.")).headers
