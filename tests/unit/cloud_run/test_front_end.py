"""The fake Cloud Run shows a function no token that is valid elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler

import httpx2
import jwt
import pytest

from tests.support.clock import SettableClock
from tests.support.cloud_run.front_end import REMOVED_SIGNATURE, FrontEnd, Service
from tests.support.cloud_run.google_accounts import LIFETIME, Accounts
from tests.support.fakes.http_server import LoopbackServer

URL = "https://127.0.0.1:4430"
GATEWAY = "carrel-gateway"


class EchoHandler(BaseHTTPRequestHandler):
    """A function that answers with the headers of the request."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.wfile.write(json.dumps(headers).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def accounts(clock: SettableClock) -> Accounts:
    return Accounts(clock)


@pytest.fixture
async def client(accounts: Accounts) -> AsyncIterator[httpx2.AsyncClient]:
    with LoopbackServer(EchoHandler) as server:
        function_url = f"http://127.0.0.1:{server.server_port}"
        service = Service(url=URL, function=function_url, invokers=(GATEWAY,), seconds=20)
        front_end = FrontEnd({4430: service}, accounts)
        transport = httpx2.ASGITransport(front_end)
        async with httpx2.AsyncClient(transport=transport, base_url=URL) as http_client:
            yield http_client
        await front_end.aclose()


async def test_the_function_gets_the_token_without_its_signature(
    client: httpx2.AsyncClient, accounts: Accounts
) -> None:
    authorization = f"Bearer {accounts.issue_token(GATEWAY, URL)}"
    headers = {"authorization": authorization, "x-forwarded-for": "1.2.3.4"}
    received = (await client.post("/", headers=headers)).json()
    claims, _, signature = received["authorization"].removeprefix("Bearer ").rpartition(".")
    assert authorization.rpartition(".")[0] == f"Bearer {claims}"
    assert signature == REMOVED_SIGNATURE
    with pytest.raises(jwt.InvalidTokenError):
        accounts.verify_token(f"{claims}.{signature}", URL)
    assert received["x-forwarded-for"] == "1.2.3.4, 127.0.0.1"
    assert received["x-forwarded-proto"] == "https"


async def test_a_token_in_the_serverless_header_counts(
    client: httpx2.AsyncClient, accounts: Accounts
) -> None:
    authorization = f"Bearer {accounts.issue_token(GATEWAY, URL)}"
    own = {"authorization": "Bearer of-the-functions-own"}
    headers = own | {"x-serverless-authorization": authorization}
    received = (await client.post("/", headers=headers)).json()
    assert received["authorization"] == own["authorization"]
    assert received["x-serverless-authorization"].rpartition(".")[2] == REMOVED_SIGNATURE
    both = {"authorization": authorization, "x-serverless-authorization": "Bearer a.b.c"}
    assert (await client.post("/", headers=both)).status_code == 401


async def test_no_token_and_an_expired_one_are_refused(
    client: httpx2.AsyncClient, accounts: Accounts, clock: SettableClock
) -> None:
    assert (await client.post("/")).status_code == 403
    clock.advance(seconds=-LIFETIME.total_seconds() - 1)
    headers = {"authorization": f"Bearer {accounts.issue_token(GATEWAY, URL)}"}
    assert (await client.post("/", headers=headers)).status_code == 401
