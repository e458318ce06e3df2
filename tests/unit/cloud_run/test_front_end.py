"""The fake Cloud Run forwards authorized requests, and answers others with the real errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import jwt
import pytest

from shared.core.dates import utc_now
from tests.support.clock import SettableClock
from tests.support.cloud_run.front_end import (
    MAX_REQUEST_BYTES,
    REMOVED_SIGNATURE,
    FrontEnd,
    Service,
)
from tests.support.cloud_run.google_accounts import LIFETIME, Accounts
from tests.support.fakes.http_server import LoopbackServer
from tests.support.ports import find_free_port

URL = "https://127.0.0.1:4430"
GATEWAY = "carrel-gateway"


class EchoHandler(BaseHTTPRequestHandler):
    """A function that answers with the request: its path, body and headers.

    It never answers `/late` in time, and breaks the connection at `/broken`.
    """

    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/late":
            self.server.pause(10)
        if self.path == "/broken":
            self.close_connection = True
            return
        echo = {"path": self.path, "body": body, "headers": self.headers.items()}
        content = json.dumps(echo).encode()
        self.send_response(418)  # a status that nothing else here returns
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Of-The-Function", "yes")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def function_url() -> Iterator[str]:
    """The URL of the function."""
    with LoopbackServer(EchoHandler) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def accounts() -> Accounts:
    """The accounts whose tokens the front end accepts."""
    return Accounts()


@asynccontextmanager
async def open_client(
    function_url: str, accounts: Accounts, seconds: float = 20
) -> AsyncIterator[httpx2.AsyncClient]:
    """Make a client of the function's service."""
    service = Service(url=URL, function=function_url, invokers=(GATEWAY,), seconds=seconds)
    front_end = FrontEnd({4430: service}, accounts)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(front_end), base_url=URL
    ) as client:
        yield client
    await front_end.aclose()


@pytest.fixture
async def client(function_url: str, accounts: Accounts) -> AsyncIterator[httpx2.AsyncClient]:
    async with open_client(function_url, accounts) as http_client:
        yield http_client


@pytest.fixture
def authorization(accounts: Accounts) -> str:
    """The gateway's credential."""
    return f"Bearer {accounts.issue_token(GATEWAY, URL)}"


async def read_received_headers(
    client: httpx2.AsyncClient, headers: dict[str, str]
) -> dict[str, str]:
    """Return the headers that the function received."""
    response = await client.post("/", content=b"x", headers=headers)
    return {name.lower(): value for name, value in response.json()["headers"]}


async def test_requests_and_answers_pass_unchanged(
    client: httpx2.AsyncClient, authorization: str
) -> None:
    headers = {"authorization": authorization, "x-mine": "1"}
    response = await client.post("/a%20b?c=d&c=%C3%A9", content="é", headers=headers)
    echo: dict[str, Any] = response.json()
    assert response.status_code == 418
    assert response.headers["x-of-the-function"] == "yes"
    assert echo["path"] == "/a%20b?c=d&c=%C3%A9"
    assert echo["body"] == "é"
    assert ["x-mine", "1"] in [[name.lower(), value] for name, value in echo["headers"]]


async def test_the_function_gets_the_token_without_its_signature(
    client: httpx2.AsyncClient, authorization: str, accounts: Accounts
) -> None:
    headers = await read_received_headers(client, {"authorization": authorization})
    claims, _, signature = headers["authorization"].removeprefix("Bearer ").rpartition(".")
    assert authorization.rpartition(".")[0] == f"Bearer {claims}"
    assert signature == REMOVED_SIGNATURE
    with pytest.raises(jwt.InvalidTokenError):
        accounts.verify_token(f"{claims}.{signature}", URL)


async def test_a_token_in_the_serverless_header_counts(
    client: httpx2.AsyncClient, authorization: str
) -> None:
    application_headers = {"authorization": "Bearer of-the-functions-own"}
    headers = await read_received_headers(
        client, {**application_headers, "x-serverless-authorization": authorization}
    )
    assert headers["authorization"] == application_headers["authorization"]
    assert headers["x-serverless-authorization"].rpartition(".")[2] == REMOVED_SIGNATURE
    both_headers = {"authorization": authorization, "x-serverless-authorization": "Bearer a.b.c"}
    assert (await client.post("/", headers=both_headers)).status_code == 401


async def test_the_callers_address_is_appended_to_forwarded_for(
    client: httpx2.AsyncClient, authorization: str
) -> None:
    request_headers = {"authorization": authorization, "x-forwarded-for": "1.2.3.4"}
    headers = await read_received_headers(client, request_headers)
    assert headers["x-forwarded-for"] == "1.2.3.4, 127.0.0.1"
    assert headers["x-forwarded-proto"] == "https"


async def test_an_expired_token_is_refused() -> None:
    expired_accounts = Accounts(SettableClock(utc_now() - LIFETIME - timedelta(seconds=1)))
    async with open_client("http://127.0.0.1:1", expired_accounts) as client:
        headers = {"authorization": f"Bearer {expired_accounts.issue_token(GATEWAY, URL)}"}
        response = await client.post("/", headers=headers)
    assert response.status_code == 401
    assert 'error="invalid_token"' in response.headers["www-authenticate"]


async def test_a_dead_function_is_unavailable_until_it_restarts(
    accounts: Accounts, authorization: str
) -> None:
    async with open_client(f"http://127.0.0.1:{find_free_port()}", accounts) as client:
        response = await client.post("/", headers={"authorization": authorization})
    assert response.status_code == 503
    assert "503 Service Unavailable" in response.text


async def test_a_broken_connection_is_unavailable(
    client: httpx2.AsyncClient, authorization: str
) -> None:
    response = await client.post("/broken", headers={"authorization": authorization})
    assert response.status_code == 503


async def test_a_slow_function_times_out(
    function_url: str, accounts: Accounts, authorization: str
) -> None:
    async with open_client(function_url, accounts, seconds=0.1) as client:
        response = await client.post("/late", headers={"authorization": authorization})
    assert response.status_code == 504


@pytest.mark.parametrize(
    ("size", "status"), [(MAX_REQUEST_BYTES, 418), (MAX_REQUEST_BYTES + 1, 413)]
)
async def test_the_request_size_is_limited(
    client: httpx2.AsyncClient, authorization: str, size: int, status: int
) -> None:
    response = await client.post("/", content=b"a" * size, headers={"authorization": authorization})
    assert response.status_code == status


async def test_a_refused_request_does_not_reach_the_function(accounts: Accounts) -> None:
    async with open_client("http://nowhere.invalid", accounts) as client:
        response = await client.post("/<b>")
    assert response.status_code == 403
    assert "&lt;b&gt;" in response.text
