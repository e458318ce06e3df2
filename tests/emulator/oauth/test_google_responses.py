"""Only Google's own responses are trusted, and an outage of Google is reported.

When a person has signed in, Google's token endpoint returns an ID token, a signed JSON Web Token.
"""

import json
from typing import Any

import pytest

from functions.gateway.oauth import google as google_module
from functions.gateway.oauth.google import MAX_RESPONSE_BYTES, GoogleSignIn, OpenIdProvider
from shared.core.errors import Unavailable
from shared.core.settings import Settings
from tests.support.fakes.google import CLIENT_ID, Account, FakeGoogle
from tests.support.google_sign_in import (
    DISCOVERY_PATH,
    KEYS,
    TOKEN,
    get_callback_url,
    open_sign_in_app,
    press_google_button,
    sign_in,
)
from tests.support.sign_in_app import SignInApp


@pytest.mark.parametrize(
    "claims",
    [
        *({"iss": "https://evil.example"}, {"iss": None}),
        *({"aud": "another-client"}, {"aud": [CLIENT_ID, "another-client"]}, {"aud": None}),
        {"azp": "another-client"},
        *({"exp": 0}, {"exp": "tomorrow"}, {"exp": None}),
        *({"iat": 32_503_680_000}, {"iat": None}),  # the year 3000
        *({"nonce": "of another sign-in"}, {"nonce": None}),
        *({"email_verified": False}, {"email_verified": "true"}, {"email_verified": None}),
        *({"email": None}, {"email": ["ada@example.com"]}),
        {"sub": None},
    ],
)
async def test_a_token_with_a_wrong_claim_is_rejected(
    google_settings: Settings, google: FakeGoogle, claims: dict[str, Any]
) -> None:
    google.account = Account(claims=claims)
    answer, grants = await sign_in(google_settings)
    assert answer.status_code in (401, 403)
    assert grants == 0


@pytest.mark.parametrize(
    "account",
    [
        *(Account(algorithm=algorithm) for algorithm in ("none", "HS256", "RS512")),
        Account(has_unpublished_key=True),
        Account(key_id="unknown"),
        Account(token="no token"),
        Account(token="e30.e30."),  # {}.{} without a signature
        Account(token="bnVsbA.e30.e30"),  # null.{}.{}
    ],
)
async def test_a_token_that_google_did_not_sign_is_rejected(
    google_settings: Settings, google: FakeGoogle, account: Account
) -> None:
    google.account = account
    answer, grants = await sign_in(google_settings)
    assert answer.status_code == 401
    assert grants == 0


@pytest.mark.parametrize(
    ("minutes_behind", "status"),
    [(0.5, 303), (-0.5, 303), (-2, 401), (62, 401)],  # a token is valid for an hour
)
async def test_clocks_may_differ_by_a_minute(
    google_settings: Settings, google: FakeGoogle, minutes_behind: float, status: int
) -> None:
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        google.now = sign_in_app.clock().timestamp() - 60 * minutes_behind
        answer = await browser.get(await get_callback_url(sign_in_app, browser))
    assert answer.status_code == status


@pytest.mark.parametrize("path", [DISCOVERY_PATH, KEYS])
@pytest.mark.parametrize(
    "body", [None, b"<html>down</html>", b"[]", b"{}", b" " * (MAX_RESPONSE_BYTES + 1)]
)
async def test_an_outage_of_google_is_reported_without_details(
    google_settings: Settings, google: FakeGoogle, path: str, body: bytes | None
) -> None:
    if body is None:
        google.statuses[path] = 500
    else:
        google.bodies[path] = body
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        answer = await press_google_button(sign_in_app, browser)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "30"
    assert "Google does not answer as expected" in answer.text
    assert google.issuer not in answer.text


@pytest.mark.parametrize("is_reached", [True, False])
async def test_an_unreachable_or_another_issuer_is_an_outage(
    google_settings: Settings,
    google: FakeGoogle,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_reached: bool,
) -> None:
    document = google.make_discovery_document() | {"issuer": "https://evil.example"}
    google.bodies[DISCOVERY_PATH] = json.dumps(document).encode()
    if not is_reached:
        monkeypatch.setattr(google_module, "ISSUER", "http://127.0.0.1:9")
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        assert (await press_google_button(sign_in_app, browser)).status_code == 503


@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_broken_token_endpoint_is_an_outage(
    google_settings: Settings, google: FakeGoogle, status: int
) -> None:
    google.statuses[TOKEN] = status
    answer, grants = await sign_in(google_settings)
    assert answer.status_code == 503
    assert grants == 0
    assert "GOOGLE_CLIENT_SECRET" in answer.text


async def test_a_slow_google_is_an_outage(google_settings: Settings, google: FakeGoogle) -> None:
    google.delay = 0.5
    sign_in_app = SignInApp(google_settings)
    provider = OpenIdProvider(google.issuer, sign_in_app.clock, timeout=0.1)
    with pytest.raises(Unavailable, match="Google does not answer"):
        await GoogleSignIn(
            google_settings, sign_in_app.keyring, sign_in_app.clock, provider
        ).make_authorization_url("a sealed request", "a browser")


async def test_googles_configuration_is_read_once_an_hour(
    google_settings: Settings, google: FakeGoogle
) -> None:
    """But a new signing key is fetched when it is first used."""
    async with open_sign_in_app(google_settings) as (sign_in_app, browser):
        for _ in range(3):
            await press_google_button(sign_in_app, browser)
        assert google.requests == [DISCOVERY_PATH, KEYS]
        sign_in_app.clock.advance(minutes=61)
        await press_google_button(sign_in_app, browser)
        assert google.requests == [DISCOVERY_PATH, KEYS] * 2

        callback_url = await get_callback_url(sign_in_app, browser)
        google.change_key("key-2")
        assert (await browser.get(callback_url)).status_code == 303
    assert google.requests.count(KEYS) == 3
