"""The consent page, where a person allows or denies what a program requests.

Without Google, a person proves with a key who they are. The program gets a code only with that
proof, and only at the redirect URI of its request.
"""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from functions.gateway.oauth.authorization import parse_code
from shared.accounts.grant import Grant
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.settings import Settings
from tests.support.sign_in_app import (
    REQUEST,
    USER,
    SignInApp,
    make_authorization_request,
    parse_hidden_fields,
)

REDIRECT_URI = "https://claude.example/callback"
"""The redirect URI of `REQUEST`."""


@pytest.fixture
async def sign_in_app(settings: Settings) -> AsyncIterator[SignInApp]:
    """The sign-in pages, where people sign in with a key."""
    app = SignInApp(settings)
    yield app
    await app.connection.aclose()


@pytest.fixture
async def browser(sign_in_app: SignInApp) -> AsyncIterator[httpx2.AsyncClient]:
    """A person's browser."""
    async with sign_in_app.make_client() as client:
        yield client


async def load_form(browser: httpx2.AsyncClient, address: str) -> dict[str, str]:
    """Load a consent page, and return its fields as the Allow button sends them."""
    page = await browser.get(address)
    assert page.status_code == 200
    return {**parse_hidden_fields(page), "decision": "allow"}


@pytest.fixture
async def form(browser: httpx2.AsyncClient, sign_in_app: SignInApp) -> dict[str, str]:
    """The fields of the page for `REQUEST`, as the Allow button sends them, without a key."""
    return await load_form(browser, sign_in_app.make_consent_target())


async def submit(
    browser: httpx2.AsyncClient, form: dict[str, str], headers: dict[str, str] | None = None
) -> httpx2.Response:
    """Post a form."""
    return await browser.post("/consent", data=form, headers=headers)


async def load_grant(sign_in_app: SignInApp, answer: httpx2.Response) -> Grant:
    """Return the grant whose code a redirect sends."""
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    grant_id = parse_code(sign_in_app.keyring, code, REQUEST.client_id)
    grant = await AccessStore(sign_in_app.connection).grants.get(grant_id or "")
    assert grant
    return grant


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key": " "},
        {"key": "0"},
        {"key": "carrel_0123456789ab_" + "A" * 43 + "A" * 8},  # has the form of a real key
        {"user_id": USER},
        {"email": USER, "kind": "google"},
        {"proof": "true", "approved": "1"},
    ],
)
async def test_no_code_is_issued_without_a_proof(
    sign_in_app: SignInApp,
    browser: httpx2.AsyncClient,
    form: dict[str, str],
    changes: dict[str, str],
) -> None:
    await sign_in_app.make_key()
    answer = await submit(browser, form | changes)
    assert answer.status_code == 401
    assert "location" not in answer.headers
    assert await sign_in_app.count_grants() == 0


async def test_a_key_grants_its_user_the_requested_scopes(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    key, key_id = await sign_in_app.make_key()
    answer = await submit(browser, form | {"key": f" {key}\n"})
    assert answer.status_code == 303
    address, _, query = answer.headers["location"].partition("?")
    parameters = parse_qs(query)
    assert address == REDIRECT_URI
    assert parameters["state"] == ["client's own"]
    assert parameters["iss"] == [sign_in_app.settings.public_url]
    grant = await load_grant(sign_in_app, answer)
    assert (grant.user_id, grant.scopes, grant.proof.key_id) == (USER, FULL_ACCESS, key_id)


async def test_a_key_grants_no_more_than_its_scopes(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    key, _ = await sign_in_app.make_key(frozenset({Scope.READ}))
    writing = make_authorization_request(scopes=frozenset({Scope.WRITE}))
    address = sign_in_app.make_consent_target(writing)
    answer = await submit(browser, await load_form(browser, address) | {"key": key})
    assert answer.status_code == 403
    assert "has none of the scopes that the program requests" in answer.text
    assert await sign_in_app.count_grants() == 0

    grant = await load_grant(sign_in_app, await submit(browser, form | {"key": key}))
    assert grant.scopes == frozenset({Scope.READ})


async def test_the_page_accepts_a_valid_key_after_a_wrong_one(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    """It explains a wrong key as plain text, where backticks would be visible, and quotes none."""
    key, key_id = await sign_in_app.make_key()
    error_page = await submit(browser, form | {"key": "carrel_secret_typo"})
    assert error_page.status_code == 401
    assert "This key is not valid" in error_page.text
    assert "create another one with .venv/bin/carrel keys create." in error_page.text
    assert "`" not in error_page.text
    assert "secret_typo" not in error_page.text

    second_form = {**parse_hidden_fields(error_page), "decision": "allow", "key": key}
    assert (await submit(browser, second_form)).status_code == 303
    await AccessStore(sign_in_app.connection).keys.revoke(key_id, sign_in_app.clock())
    assert (await submit(browser, second_form)).status_code == 401
    assert await sign_in_app.count_grants() == 1


async def test_deny_needs_no_key_and_informs_the_client(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    answer = await submit(browser, form | {"decision": "deny"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}?error=access_denied&")
    assert await sign_in_app.count_grants() == 0
    assert sign_in_app.sign_in_limit.attempts == []


async def test_attempts_are_limited_by_address(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    sign_in_app.sign_in_limit.max_attempts = 1
    key, _ = await sign_in_app.make_key()
    assert (await submit(browser, form | {"key": "wrong"})).status_code == 401
    answer = await submit(browser, form | {"key": key})
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "60"
    assert "Too many attempts. Wait a minute." in answer.text
    assert sign_in_app.sign_in_limit.attempts == ["127.0.0.1"] * 2
    assert await sign_in_app.count_grants() == 0


async def test_a_form_from_another_browser_is_rejected(
    sign_in_app: SignInApp, form: dict[str, str]
) -> None:
    key, _ = await sign_in_app.make_key()
    form |= {"key": key}
    async with sign_in_app.make_client() as other_browser:
        without_cookie = await submit(other_browser, form)
        await load_form(other_browser, sign_in_app.make_consent_target())
        with_other_cookie = await submit(other_browser, form)
    assert without_cookie.status_code == 403
    assert with_other_cookie.status_code == 403
    assert await sign_in_app.count_grants() == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:8081"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_form_that_another_site_sent_is_rejected(
    sign_in_app: SignInApp,
    browser: httpx2.AsyncClient,
    form: dict[str, str],
    headers: dict[str, str],
) -> None:
    form |= {"key": (await sign_in_app.make_key())[0]}
    assert (await submit(browser, form, headers)).status_code == 403
    assert await sign_in_app.count_grants() == 0
    for origin in ("http://localhost:8080", "http://127.0.0.1:8080"):
        own = {
            "origin": origin,
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded;charset=UTF-8",
        }
        assert (await submit(browser, form, own)).status_code == 303


async def test_a_form_is_valid_only_whole_and_for_its_own_request(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    form |= {"key": (await sign_in_app.make_key())[0]}
    other = make_authorization_request(redirect_uri="https://evil.example/")
    for changes, status in (
        ({"request": sign_in_app.seal_request(other)}, 403),
        ({"form": ""}, 403),
        ({"request": ""}, 403),
        ({"decision": ""}, 400),
    ):
        assert (await submit(browser, form | changes)).status_code == status
        without = {name: value for name, value in (form | changes).items() if value}
        assert (await submit(browser, without)).status_code == status
    assert await sign_in_app.count_grants() == 0


async def test_an_expired_request_says_to_start_again(
    sign_in_app: SignInApp, browser: httpx2.AsyncClient
) -> None:
    key, _ = await sign_in_app.make_key()
    address = sign_in_app.make_consent_target()
    form = await load_form(browser, address) | {"key": key}
    sign_in_app.clock.advance(minutes=11)
    for answer in (await browser.get(address), await submit(browser, form)):
        assert answer.status_code == 400
        assert "Start again from the program" in answer.text
    assert await sign_in_app.count_grants() == 0


@pytest.mark.parametrize("query", ["", "?request=", "?request=x.y", "?request=a&request=b"])
async def test_the_page_without_a_request_says_where_to_start(
    browser: httpx2.AsyncClient, query: str
) -> None:
    answer = await browser.get(f"/consent{query}")
    assert answer.status_code == 400
    assert "the program" in answer.text
