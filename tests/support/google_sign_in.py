"""The way over Google and back, as a browser without eyes goes it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx2
from pydantic import SecretStr

from tests.support.fakes.google import CLIENT_ID, CLIENT_SECRET
from tests.support.sign_in_app import SignInApp, hidden_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from tests.support.fakes.google import FakeGoogle

ADA: Final = "ada@example.com"
DISCOVERY, KEYS, TOKEN = "/.well-known/openid-configuration", "/oauth2/v3/certs", "/token"


def letting_in_ada(settings: Settings, google: FakeGoogle) -> Settings:
    """The settings of an owner whose people sign in there, and who has named Ada."""
    by_google = {
        "google_client_id": CLIENT_ID,
        "google_client_secret": SecretStr(CLIENT_SECRET),
        "google_issuer": google.issuer,
        "allowed_emails": (ADA.upper(),),
    }
    return settings.model_copy(update=by_google)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[SignInApp, httpx2.AsyncClient]]:
    """The pages, and a browser that has not seen them."""
    sign_in_app = SignInApp(settings)
    async with sign_in_app.client() as browser:
        yield sign_in_app, browser
    await sign_in_app.access.aclose()


async def leave(sign_in_app: SignInApp, browser: httpx2.AsyncClient) -> httpx2.Response:
    """Press the button that leads to Google."""
    page = await browser.get(sign_in_app.address())
    return await browser.post("/consent", data={**hidden_in(page), "decision": "allow"})


async def at_google(address: str) -> str:
    """Sign in there; return where it sends the browser, below our public address."""
    async with httpx2.AsyncClient() as elsewhere:
        answer = await elsewhere.get(address)
    return answer.headers["location"].removeprefix("http://localhost:8080")


async def sign_in(settings: Settings) -> tuple[httpx2.Response, int]:
    """Go there and come back; return the answer, and how many grants there are."""
    async with opened(settings) as (sign_in_app, browser):
        way = await leave(sign_in_app, browser)
        answer = await browser.get(await at_google(way.headers["location"]))
        return answer, await sign_in_app.grants()
