"""All endpoints of the authorization server parse their parameters by the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from functions.gateway.body_limits import BodyLimit
from shared.core.settings import Settings
from tests.support.authorization_server import serve_authorization_server
from tests.support.sign_in_app import SignInApp

FORM = "application/x-www-form-urlencoded"
PATHS = ["/authorize", "/token", "/revoke", "/consent"]


@pytest.fixture
async def endpoints(
    settings: Settings, project: str
) -> AsyncIterator[dict[str, httpx2.AsyncClient]]:
    """The HTTP client of each path."""
    async with (
        serve_authorization_server(project) as server,
        SignInApp(settings).make_client() as browser,
    ):
        yield {path: browser if path == "/consent" else server.http for path in PATHS}


async def post(
    endpoints: dict[str, httpx2.AsyncClient], path: str, body: bytes, content_type: str = FORM
) -> httpx2.Response:
    """Post a body to the endpoint with this path."""
    return await endpoints[path].post(path, content=body, headers={"content-type": content_type})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"{}", "Send the parameters as"),
        ("text/plain", b"state=a", "Send the parameters as"),
        ("multipart/form-data; boundary=b", b"--b--", "Send the parameters as"),
        (FORM, b"state=a&state=b", "is repeated"),
        (FORM, b"state=a&state=a", "is repeated"),
        (FORM, b"state=\xff\xfe", "are not valid"),
        (FORM, b"&".join(b"a%d=b" % number for number in range(101)), "are not valid"),
    ],
)
async def test_an_invalid_form_is_rejected_with_a_hint(
    endpoints: dict[str, httpx2.AsyncClient],
    path: str,
    content_type: str,
    body: bytes,
    message: str,
) -> None:
    answer = await post(endpoints, path, body, content_type)
    assert answer.status_code == 400
    assert message in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_a_form_that_is_too_large_is_rejected(
    endpoints: dict[str, httpx2.AsyncClient], path: str
) -> None:
    answer = await post(endpoints, path, b"state=" + b"s" * 65_536)  # at most 64 KiB
    assert answer.status_code == 413


@pytest.mark.parametrize("path", PATHS)
async def test_empty_values_and_twenty_parameters_are_accepted(
    endpoints: dict[str, httpx2.AsyncClient], path: str
) -> None:
    twenty_parameters = b"&".join(b"a%d=b" % number for number in range(20))
    answer = await post(
        endpoints, path, b"state=&state=a&" + twenty_parameters, f"{FORM};charset=UTF-8"
    )
    assert not any(words in answer.text for words in ("is repeated", "are not valid"))


@pytest.mark.parametrize("query", ["state=a&state=b", "state=%ff&state=%fe"])
async def test_a_query_is_read_by_the_same_rules(
    endpoints: dict[str, httpx2.AsyncClient], query: str
) -> None:
    answer = await endpoints["/authorize"].get(f"/authorize?{query}")
    assert answer.status_code == 400
    assert "is repeated" in answer.text


async def test_a_slow_body_times_out() -> None:
    sent_messages: list[Message] = []
    first_part = iter([{"type": "http.request", "body": b"a", "more_body": True}])

    async def receive() -> Message:
        for part in first_part:
            return part
        await asyncio.Event().wait()  # the second part never arrives
        raise AssertionError

    async def send(message: Message) -> None:
        sent_messages.append(message)

    scope = {"type": "http", "method": "POST", "path": "/token", "headers": []}
    limit = BodyLimit(PlainTextResponse("never sent"), lambda _: 9, timeout=0.1)
    await limit(scope, receive, send)
    assert sent_messages[0]["status"] == 408
