"""The gateway accepts the host of its public URL; on loopback, each name of the machine."""

import httpx2
import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app
from functions.gateway.auth.public_url import (
    get_issuer_url,
    get_resource_url,
    list_mcp_hosts,
    list_own_hosts,
    list_own_origins,
)
from functions.gateway.mcp.selection import SelectedServers
from shared.core.settings import Settings
from tests.support.fake_catalog import CATALOG, FakeDispatcher
from tests.support.mcp_wire import HEADERS, make_request


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_local_gateway_accepts_each_name_of_the_machine(host: str, slash: str) -> None:
    settings = Settings(public_url=f"http://{host}:8080{slash}")
    names = ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"]
    assert list_own_hosts(settings) == names
    assert list_own_origins(settings) == [f"http://{name}" for name in names]


def test_a_further_name_is_a_host_of_clients_and_nothing_else() -> None:
    names = ("host.docker.internal", "laptop.local:9090", "[fd00::2]")
    plain, settings = Settings(), Settings(allowed_hosts=names)
    assert list_mcp_hosts(settings)[-5:] == [
        "host.docker.internal",
        "host.docker.internal:8080",
        "laptop.local:9090",
        "[fd00::2]",
        "[fd00::2]:8080",
    ]
    for derive in (list_own_hosts, list_own_origins, get_issuer_url, get_resource_url):
        assert derive(settings) == derive(plain)


@pytest.mark.parametrize("host", ["carrel.example", "carrel.example:8443", "[2001:db8::1]:8443"])
def test_deployed_gateway_accepts_one_host(host: str) -> None:
    """Many proxies leave the port out of the header."""
    settings = Settings(public_url=f"https://{host}/")
    assert list_own_hosts(settings) == [host]
    assert list_own_origins(settings) == [f"https://{host}"]
    assert list_mcp_hosts(settings) == list(dict.fromkeys([host, host.removesuffix(":8443")]))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("[::1]:8080", 200), ("localhost", 200), ("127.0.0.1:8080", 200)),
        *(("laptop.local:8080", 200), ("laptop.local", 200)),
        ("[::2]:8080", 421),
        ("localhost:8081", 421),
        ("a.laptop.local", 421),
        ("laptop.local.evil.example:8080", 421),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_local_gateway_is_reached_by_its_names(host: str, status: int, path: str) -> None:
    settings = Settings(
        public_url="http://[::1]:8080",
        allowed_hosts=("laptop.local",),
        local_user="local",
        access_secrets=[SecretStr("s" * 32)],
    )
    access = Access(settings)
    dispatcher = FakeDispatcher(lambda *_: {})
    app = make_mcp_app(
        access, dispatcher, SelectedServers(CATALOG, access.make_pipeline(dispatcher)).find
    )
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        answer = await client.post(
            f"http://[::1]:8080{path}", json=make_request("ping"), headers={**HEADERS, "host": host}
        )

    assert answer.status_code == status
    assert status == 200 or "ALLOWED_HOSTS" in answer.text
