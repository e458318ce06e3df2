"""The official clients sign in, although they know only the URL of the gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from tests.support.access import MakeKey
from tests.support.consent_page import ConsentResult, submit_decision
from tests.support.fakes.token_storage import MemoryTokenStorage
from tests.support.gateway_process import RunningGateway
from tests.support.typescript_clients import run_client

CALLBACK = "http://127.0.0.1:51111/callback"


class Browser:
    """A fake browser of a person, which a client opens for sign-in."""

    def __init__(self, key: str) -> None:
        """Sign in with this key."""
        self._key = key
        self.visits: list[str] = []
        self._returned: ConsentResult | None = None

    async def open(self, address: str) -> None:
        """Open the consent page and allow the request."""
        self.visits.append(address)
        self._returned = await asyncio.to_thread(submit_decision, address, self._key)

    async def read_redirect(self) -> AuthorizationCodeResult:
        """Return the redirect that the client's callback server receives."""
        assert self._returned
        return AuthorizationCodeResult.model_validate(self._returned.answer)


@asynccontextmanager
async def connect(
    endpoint: str, memory: MemoryTokenStorage, browser: Browser, method: str | None = None
) -> AsyncIterator[tuple[Client, OAuthClientProvider]]:
    """Connect the official Python client, which signs in.

    Args:
        endpoint: The URL of the gateway.
        memory: The store of the client's registration and tokens.
        browser: The browser in which the user signs in.
        method: How the client authenticates at the token endpoint; by default, the client chooses.
    """
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Python tests",
            "redirect_uris": [AnyUrl(CALLBACK)],
            "token_endpoint_auth_method": method,
        }
    )
    auth = OAuthClientProvider(endpoint, metadata, memory, browser.open, browser.read_redirect)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        Client(streamable_http_client(endpoint, http_client=http)) as client,
    ):
        yield client, auth


@pytest.mark.parametrize("method", [None, "none", "client_secret_post", "client_secret_basic"])
async def test_the_python_client_signs_in_and_calls(
    gateway: RunningGateway, make_key: MakeKey, method: str | None
) -> None:
    memory = MemoryTokenStorage()
    browser = Browser(make_key("anna.python"))
    async with connect(gateway.endpoint, memory, browser, method) as (client, _):
        result = await client.call_tool("write_note", {"text": "by hand"})
    assert not result.is_error
    assert memory.tokens
    assert memory.tokens.expires_in == 3600
    assert memory.tokens.scope == "carrel:curate carrel:read carrel:write"
    assert memory.tokens.refresh_token


async def test_a_token_is_valid_for_every_selection_of_tools(
    gateway: RunningGateway, make_key: MakeKey
) -> None:
    """A selection of tools is not another resource, and limits nothing that the token may do."""
    memory, browser = MemoryTokenStorage(), Browser(make_key("anna.reads"))
    async with connect(f"{gateway.endpoint}?readonly", memory, browser) as (client, _):
        assert "write_note" not in {tool.name for tool in (await client.list_tools()).tools}
    async with connect(gateway.endpoint, memory, browser) as (client, _):
        assert not (await client.call_tool("write_note", {"text": "by hand"})).is_error
    assert len(browser.visits) == 1


@pytest.mark.parametrize("kind", ["v2", "v1"])
@pytest.mark.slow
def test_the_typescript_clients_sign_in_call_and_refresh(
    gateway: RunningGateway, make_key: MakeKey, kind: str
) -> None:
    report = run_client(
        "sign_in.mjs", gateway.endpoint, kind, {"CARREL_KEY": make_key(f"ts.{kind}")}
    )
    assert report["refused"] is True
    assert report["visits"] == 1
    assert report["iss"] == gateway.url
    assert report["scope"] == "carrel:curate carrel:read carrel:write"
    assert report["written"]["structuredContent"] == {"number": 1}
    assert report["read"]["structuredContent"] == {"texts": ["from TypeScript"]}
