"""What an app raises is answered, and logged, without its words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx2
import pytest

from functions.gateway.http_errors import ErrorMiddleware
from shared.core.errors import NotFound, PlatformFault, Unavailable

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio

SECRET = "what-nobody-may-read"


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
    """What a client hears where an app raises this."""
    transport = httpx2.ASGITransport(ErrorMiddleware(Raising(error)))
    async with httpx2.AsyncClient(transport=transport) as client:
        return await client.get(f"http://carrel.example/{SECRET}?{SECRET}")


@pytest.mark.parametrize("error", [RuntimeError(SECRET), PlatformFault(SECRET)])
async def test_of_a_fault_nothing_is_told(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await answer_to(error)
    assert (500, "Carrel failed on its side. Try again later.") == (
        answer.status_code,
        answer.json()["error"]["message"],
    )
    said = capsys.readouterr()
    [line] = [json.loads(line) for line in said.err.splitlines()]
    assert ("fault", "ERROR", type(error).__name__) == (
        line["message"],
        line["severity"],
        line["error"],
    )
    assert SECRET not in answer.text + said.err + said.out


async def test_what_its_reader_can_act_on_is_told() -> None:
    answer = await answer_to(Unavailable("The database does not answer.", retry_after=4.2))
    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert "The database does not answer." == answer.json()["error"]["message"]
    assert 404 == (await answer_to(NotFound("There is none."))).status_code


async def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await ErrorMiddleware(Raising(RuntimeError(SECRET), start))({"type": "http"}, receive, send)
    assert [start] == sent
