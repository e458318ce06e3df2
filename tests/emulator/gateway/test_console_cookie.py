"""The console keeps a person signed in with a secure cookie, for 30 days."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from lxml import html

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
def settings(settings: Settings) -> Settings:
    """Settings of a gateway at a public address."""
    return settings.model_copy(
        update={"public_url": "https://carrel.example", "trusted_proxies": 0}
    )


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


async def test_the_cookie_is_secure_and_bound_to_its_host(browser: httpx2.AsyncClient) -> None:
    [cookie] = [cookie for cookie in browser.cookies.jar if cookie.name == COOKIE]
    assert cookie.secure
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    assert cookie.path == "/"
    assert not cookie.domain_specified


async def test_a_session_lasts_30_days_and_visits_do_not_extend_it(
    browser: httpx2.AsyncClient, clock: SettableClock
) -> None:
    for days in (0, 29):
        clock.advance(days=days)
        assert (await browser.get("/map")).status_code == 200
    clock.advance(days=1, seconds=1)
    assert (await browser.get("/map")).status_code == 303
