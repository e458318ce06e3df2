"""The steps of a sign-in with Google, made by an HTTP client instead of a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from pydantic import SecretStr

from shared.core.settings import Settings
from tests.support.fakes.google import CLIENT_ID, CLIENT_SECRET
from tests.support.sign_in_app import SignInApp, parse_hidden_fields

ADA: Final = "ada@example.com"
"""The e-mail address of the only person who may sign in."""
DISCOVERY_PATH, KEYS, TOKEN = "/.well-known/openid-configuration", "/oauth2/v3/certs", "/token"
"""The paths of Google's discovery document, public keys and token endpoint."""


def make_google_settings(settings: Settings) -> Settings:
    """Return settings for signing in with Google, where only Ada is allowed."""
    changes = {
        "google_client_id": CLIENT_ID,
        "google_client_secret": SecretStr(CLIENT_SECRET),
        "allowed_emails": (ADA.upper(),),
    }
    return settings.model_copy(update=changes)


@asynccontextmanager
async def open_sign_in_app(
    settings: Settings,
) -> AsyncIterator[tuple[SignInApp, httpx2.AsyncClient]]:
    """Open the sign-in pages, and a browser (an HTTP client) without cookies."""
    sign_in_app = SignInApp(settings)
    async with sign_in_app.make_client() as browser:
        yield sign_in_app, browser
    await sign_in_app.connection.aclose()


async def press_google_button(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient
) -> httpx2.Response:
    """Press the button that leads to Google, and return the redirect there."""
    page = await browser.get(sign_in_app.make_consent_target())
    return await browser.post("/consent", data={**parse_hidden_fields(page), "decision": "allow"})


async def sign_in_at_google(address: str) -> str:
    """Sign in at Google, and return the path and query of Google's redirect back to Carrel."""
    async with httpx2.AsyncClient() as client:
        response = await client.get(address)
    return response.headers["location"].removeprefix("http://localhost:8080")


async def get_callback_url(sign_in_app: SignInApp, browser: httpx2.AsyncClient) -> str:
    """Go from the consent page to Google, sign in, and return the callback URL without its host."""
    redirect = await press_google_button(sign_in_app, browser)
    return await sign_in_at_google(redirect.headers["location"])


async def sign_in(settings: Settings) -> tuple[httpx2.Response, int]:
    """Sign in with Google, and return the final response and the number of stored grants."""
    async with open_sign_in_app(settings) as (sign_in_app, browser):
        response = await browser.get(await get_callback_url(sign_in_app, browser))
        return response, await sign_in_app.count_grants()
