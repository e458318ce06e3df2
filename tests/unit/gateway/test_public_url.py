"""The gateway accepts the host of its public URL; on loopback, each name of the machine."""

from __future__ import annotations

import httpx2
import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app
from functions.gateway.auth.public_url import list_allowed_hosts, list_own_origins
from functions.gateway.mcp.selection import SelectedServers
from shared.core.settings import Settings
from tests.support.fake_catalog import CATALOG, FakeDispatcher
from tests.support.mcp_wire import HEADERS, make_request


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_local_gateway_accepts_each_name_of_the_machine(host: str, slash: str) -> None:
    settings = Settings(public_url=f"http://{host}:8080{slash}")
    names = ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"]
    assert list_allowed_hosts(settings) == names
    assert list_own_origins(settings) == [f"http://{name}" for name in names]


@pytest.mark.parametrize("host", ["carrel.example", "carrel.example:8443", "[2001:db8::1]:8443"])
def test_deployed_gateway_accepts_one_host(host: str) -> None:
    settings = Settings(public_url=f"https://{host}/")
    assert list_allowed_hosts(settings) == [host]
    assert list_own_origins(settings) == [f"https://{host}"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("host", "status"), [("[::1]:8080", 200), ("localhost:8080", 200), ("[::2]:8080", 421)]
)
async def test_local_gateway_accepts_ipv6(host: str, status: int) -> None:
    settings = Settings(
        public_url="http://[::1]:8080",
        local_user="local",
        access_secrets=[SecretStr("s" * 32)],
    )
    access = Access(settings)
    dispatcher = FakeDispatcher(lambda *_: {})
    app = make_mcp_app(
        access, dispatcher, SelectedServers(CATALOG, access.make_pipeline(dispatcher)).find
    )
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        headers = {**HEADERS, "origin": f"http://{host}"}
        answer = await client.post(f"http://{host}/mcp", json=make_request("ping"), headers=headers)

    assert answer.status_code == status
