"""The console keeps a person signed in with a secure cookie, for 30 days."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from functions.gateway.access import Access
from shared.core.settings import Settings
from tests.support.clock import SettableClock
from tests.support.console_app import answer_with, open_signed_in_console

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
    async with open_signed_in_console(access, answer_with()) as client:
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
