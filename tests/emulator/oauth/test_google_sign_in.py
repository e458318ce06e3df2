"""Sign-in with Google lets only allowed people in, and only by a callback of their own browser.

The consent page sends the browser to Google, where the person signs in. Google then redirects the
browser to the callback URL, with a code and the state of this sign-in.
"""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from functions.gateway.oauth.authorization import parse_code
from functions.gateway.oauth.google import GoogleSignIn
from shared.accounts.grant import Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.fakes.google import CLIENT_ID, Account, FakeGoogle
from tests.support.google_sign_in import (
    ADA,
    TOKEN,
    get_callback_url,
    open_sign_in_app,
    press_google_button,
    sign_in,
    sign_in_at_google,
)
from tests.support.sign_in_app import REQUEST, SignInApp, parse_hidden_fields


async def test_an_allowed_person_signs_in_with_their_email(
    google_settings: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        redirect = await press_google_button(sign_in_app, browser)
        callback_url = await sign_in_at_google(redirect.headers["location"])
        answer = await browser.get(callback_url)
        assert redirect.status_code == answer.status_code == 303
        assert answer.headers["location"].startswith("https://claude.example/callback?code=")
        code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
        grant_id = parse_code(sign_in_app.keyring, code, REQUEST.client_id)
        grant = await AccessStore(sign_in_app.connection).grants.get(grant_id or "")
        assert (await browser.get(callback_url)).status_code == 401  # it is valid once
        assert await sign_in_app.count_grants() == 1
    assert grant
    assert (grant.user_id, grant.scopes) == (ADA, FULL_ACCESS)
    assert grant.proof == Proof(user_id=ADA, kind="google", email=ADA)

    await sign_in(google_settings)
    first, second = google.authorization_requests
    constant_parameters = {
        "client_id": CLIENT_ID,
        "redirect_uri": "http://localhost:8080/signin/google",
        "response_type": "code",
        "scope": "openid email",
        "code_challenge_method": "S256",
        "prompt": "select_account",
    }
    random_parameters = {"state", "nonce", "code_challenge"}
    assert constant_parameters.items() <= first.items()
    assert first.keys() - constant_parameters.keys() == random_parameters
    for name in random_parameters:
        assert first[name] != second[name]


async def test_the_page_offers_google_and_ignores_a_key(
    google_settings: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        page = await browser.get(sign_in_app.make_consent_target())
        assert "Continue with Google" in page.text
        assert 'name="key"' not in page.text
        form = parse_hidden_fields(page)
        denied = await browser.post("/consent", data={**form, "decision": "deny"})
        assert "error=access_denied" in denied.headers["location"]
        assert google.requests == []
        key, _ = await sign_in_app.make_key()
        answer = await browser.post("/consent", data={**form, "decision": "allow", "key": key})
        assert await sign_in_app.count_grants() == 0
    assert urlsplit(answer.headers["location"]).path == "/o/oauth2/v2/auth"


@pytest.mark.parametrize(
    ("email", "claims", "status"),
    [
        ("bob@school.example", {"hd": "School.example"}, 303),  # hd: Google's hosted domain
        ("bob@school.example", {}, 403),
        ("bob@school.example", {"hd": "other.example"}, 403),
        ("bob@gmail.com", {"hd": "school.example"}, 403),
        ("bob@not-school.example", {"hd": "school.example"}, 403),
        ("bob@gmail.com", {"hd": "gmail.com"}, 403),
        ("mallory@example.com", {}, 403),
        ("ada@example.com.evil.example", {}, 403),
        ("o'hara@school.example", {"hd": "school.example"}, 400),  # no user has such an id
        ("\u212aate@school.example", {"hd": "school.example"}, 401),  # in lower case, it is kate
    ],
)
async def test_only_google_accounts_of_an_allowed_domain_sign_in(
    google_settings: Settings, google: FakeGoogle, email: str, claims: dict[str, Any], status: int
) -> None:
    google.account = Account(email, {"email": email, **claims})
    settings = google_settings.model_copy(update={"allowed_domains": ("SCHOOL.example",)})
    answer, grants = await sign_in(settings)
    assert answer.status_code == status
    assert grants == int(status == 303)
    if status == 403:
        assert f"{email} is not allowed to sign in here" in answer.text
        assert '<a href="/consent?request=' in answer.text


async def test_the_page_says_what_to_set_if_nobody_may_sign_in(
    google_settings: Settings, google: FakeGoogle
) -> None:
    settings = google_settings.model_copy(update={"allowed_emails": ()})
    async with open_sign_in_app(settings) as (sign_in_app, browser):
        answer = await press_google_button(sign_in_app, browser)
    assert answer.status_code == 403
    assert "ALLOWED_EMAILS" in answer.text
    assert google.requests == []


async def test_a_sign_in_that_another_browser_began_is_rejected(
    google_settings: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        callback_url = await get_callback_url(sign_in_app, browser)
        async with sign_in_app.make_client() as stranger:
            without_cookie = await stranger.get(callback_url)
            await stranger.get(sign_in_app.make_consent_target())
            with_other_cookie = await stranger.get(callback_url)
        assert await sign_in_app.count_grants() == 0
    assert without_cookie.status_code == 403
    assert with_other_cookie.status_code == 403
    assert "started in another browser" in with_other_cookie.text
    assert TOKEN not in google.requests


@pytest.mark.parametrize("state", ["", "a", "a.b.c", "..", "é.é.é"])
async def test_a_forged_state_is_rejected(google_settings: Settings, state: str) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        await browser.get(sign_in_app.make_consent_target())
        answer = await browser.get("/signin/google", params={"state": state, "code": "c"})
    assert answer.status_code in (400, 403)


async def test_the_code_of_another_sign_in_is_rejected(google_settings: Settings) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        callback_url = await get_callback_url(sign_in_app, browser)
        async with sign_in_app.make_client() as other_browser:
            other_callback_url = await get_callback_url(sign_in_app, other_browser)
        stolen_code = httpx2.URL(other_callback_url).params["code"]
        answer = await browser.get(httpx2.URL(callback_url).copy_set_param("code", stolen_code))
        assert await sign_in_app.count_grants() == 0
    assert answer.status_code == 401


async def test_a_cancelled_google_sign_in_can_be_repeated(
    google_settings: Settings, google: FakeGoogle
) -> None:
    google.account = Account(refusal={"error": "access_denied"})
    answer, grants = await sign_in(google_settings)
    assert answer.status_code == 403
    assert grants == 0
    assert "You did not finish signing in with Google." in answer.text
    assert '<a href="/consent?request=' in answer.text


async def test_a_late_callback_and_one_attempt_too_many_are_rejected(
    google_settings: Settings,
) -> None:
    """Redirects and callbacks count as attempts."""
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        sign_in_app.sign_in_limit.max_attempts = 1
        callback_url = await get_callback_url(sign_in_app, browser)
        answer = await browser.get(callback_url)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")

        sign_in_app.clock.advance(minutes=11)
        answer = await browser.get(callback_url)
        assert answer.status_code == 400
        assert "Start again from the program" in answer.text
        assert await sign_in_app.count_grants() == 0


def test_a_refresh_checks_the_current_lists(google_settings: Settings) -> None:
    settings = google_settings.model_copy(update={"allowed_domains": ("school.example",)})
    sign_in_app = SignInApp(settings)
    google = GoogleSignIn(settings, sign_in_app.keyring, sign_in_app.clock)
    for email, is_allowed in (
        (ADA, True),
        ("bob@school.example", True),
        ("carol@example.com", False),
    ):
        proof = Proof(user_id="b", kind="google", email=email)
        assert google.is_still_allowed(proof) is is_allowed
    assert not google.is_still_allowed(Proof(user_id=ADA, kind="key", key_id="k"))
