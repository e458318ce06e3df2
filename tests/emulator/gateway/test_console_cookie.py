"""The console keeps a person signed in with a secure cookie, for 30 days."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx2
import pytest
from lxml import html
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app
from functions.gateway.console.routes import LazyConsole
from functions.gateway.mcp.selection import SelectedServers
from shared.accounts.access_key import new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.clock import SettableClock
from tests.support.console_app import CATALOG, make_result
from tests.support.fake_catalog import FakeDispatcher

COOKIE = "__Host-carrel-session"


@pytest.fixture
async def access() -> AsyncIterator[Access]:
    """The access services of a gateway at a public address."""
    settings = Settings(
        google_cloud_project=f"test-{uuid.uuid4().hex[:16]}",
        public_url="https://carrel.example",
        access_secrets=[SecretStr("s" * 32)],
        trusted_proxies=0,
    )
    services = Access(settings, SettableClock())
    yield services
    await services.aclose()


@pytest.fixture
async def browser(access: Access) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that signed in with a key."""
    dispatcher = FakeDispatcher(lambda tool, _: make_result(tool, "text"))
    pipeline = access.make_pipeline(dispatcher)
    find_server = SelectedServers(CATALOG, pipeline).find
    app = make_mcp_app(access, dispatcher, find_server, LazyConsole(access, CATALOG, pipeline))
    key, record = new_key(access.keyring, "ada", "key", FULL_ACCESS, created_at=access.clock())
    await AccessStore(access.connection).keys.add(record)
    transport = httpx2.ASGITransport(app)
    url = "https://carrel.example"
    async with httpx2.AsyncClient(transport=transport, base_url=url) as client:
        consent = await client.get("/map", follow_redirects=True)
        form = dict(html.fromstring(consent.content).forms[0].form_values())
        decision = {"key": key, "decision": "allow"}
        response = await client.post("/consent", data=form | decision)
        callback = await client.get(response.headers["location"])
        assert callback.headers["location"] == "/map"
        yield client


async def test_the_cookie_is_secure_and_bound_to_its_host(
    browser: httpx2.AsyncClient,
) -> None:
    [cookie] = [cookie for cookie in browser.cookies.jar if cookie.name == COOKIE]
    assert cookie.secure
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    assert cookie.path == "/"
    assert not cookie.domain_specified
    assert (await browser.get("/map")).status_code == 200


async def test_a_session_lasts_30_days_from_sign_in(
    browser: httpx2.AsyncClient, access: Access
) -> None:
    clock = access.clock
    assert isinstance(clock, SettableClock)
    clock.advance(days=29)
    assert (await browser.get("/map")).status_code == 200
    clock.advance(days=1, seconds=1)
    assert (await browser.get("/map")).status_code == 303


async def test_a_visit_does_not_extend_the_session(
    browser: httpx2.AsyncClient, access: Access
) -> None:
    [cookie] = [cookie for cookie in browser.cookies.jar if cookie.name == COOKIE]
    grants = AccessStore(access.connection).grants
    grant_id = str(cookie.value).partition(".")[0]
    grant_before = await grants.get(grant_id)
    await browser.get("/map")
    assert await grants.get(grant_id) == grant_before
    assert grant_before
    assert grant_before.expires_at - grant_before.created_at == timedelta(days=30)
