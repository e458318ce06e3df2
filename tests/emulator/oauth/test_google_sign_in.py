"""Signing in with Google: who comes in, and which ways back do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from functions.gateway.oauth.authorization import parse_code
from functions.gateway.oauth.google import GoogleSignIn
from shared.accounts.grant import Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from tests.support.fakes.google import CLIENT_ID, Account, FakeGoogle
from tests.support.google_sign_in import (
    ADA,
    TOKEN,
    admit_ada,
    open_sign_in_app,
    press_continue,
    sign_in,
    visit_google,
)
from tests.support.sign_in_app import REQUEST, SignInApp, hidden_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Google, with everything in order."""
    with FakeGoogle() as server:
        yield server


@pytest.fixture
def with_google(settings: Settings, google: FakeGoogle) -> Settings:
    """The settings of an owner who lets Ada in."""
    return admit_ada(settings, google)


async def test_who_is_on_the_list_comes_in_as_their_address(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        way = await press_continue(sign_in_app, browser)
        answer = await browser.get(await visit_google(way.headers["location"]))
        assert way.status_code == 303
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("https://claude.example/callback?code=")
        code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
        grant_id = parse_code(sign_in_app.keyring, code, REQUEST.client_id)
        grant = await AccessStore(sign_in_app.access).grants.get(grant_id or "")
    assert grant is not None
    assert grant.user_id == ADA
    assert grant.scopes == FULL_ACCESS
    assert grant.proof == Proof(user_id=ADA, kind="google", email=ADA)


async def test_google_is_asked_for_the_email_and_to_select_an_account(
    with_google: Settings, google: FakeGoogle
) -> None:
    await sign_in(with_google)
    await sign_in(with_google)
    first, second = google.authorization_requests
    expected = {
        "client_id": CLIENT_ID,
        "redirect_uri": "http://localhost:8080/signin/google",
        "response_type": "code",
        "scope": "openid email",
        "code_challenge_method": "S256",
        "prompt": "select_account",
    }
    assert expected.items() <= first.items()
    assert first.keys() - expected.keys() == {"state", "nonce", "code_challenge"}
    assert not {first[name] for name in ("state", "nonce", "code_challenge")} & set(second.values())


async def test_the_page_offers_google_and_no_field_for_a_key(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        page = await browser.get(sign_in_app.consent_path())
    assert "Continue with Google" in page.text
    assert 'name="key"' not in page.text


async def test_with_google_a_key_opens_nothing_on_the_page(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        key, _ = await sign_in_app.make_key()
        form = hidden_fields(await browser.get(sign_in_app.consent_path()))
        answer = await browser.post("/consent", data={**form, "decision": "allow", "key": key})
        assert await sign_in_app.count_grants() == 0
    assert urlsplit(answer.headers["location"]).path == "/o/oauth2/v2/auth"


async def test_deny_tells_the_program_without_asking_google(
    with_google: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        form = hidden_fields(await browser.get(sign_in_app.consent_path()))
        answer = await browser.post("/consent", data={**form, "decision": "deny"})
    assert "error=access_denied" in answer.headers["location"]
    assert google.requests == []


@pytest.mark.parametrize(
    ("email", "claims", "status"),
    [
        ("bob@school.example", {"hd": "School.example"}, 303),
        ("bob@school.example", {}, 403),
        ("bob@school.example", {"hd": "other.example"}, 403),
        ("bob@gmail.com", {"hd": "school.example"}, 403),
        ("bob@not-school.example", {"hd": "school.example"}, 403),
        ("bob@gmail.com", {"hd": "gmail.com"}, 403),
        ("mallory@example.com", {}, 403),
        ("ada@example.com.evil.example", {}, 403),
    ],
)
async def test_of_a_domain_come_in_whom_google_counts_to_it(
    with_google: Settings, google: FakeGoogle, email: str, claims: dict[str, Any], status: int
) -> None:
    google.account = Account(email, claims)
    settings = with_google.model_copy(update={"allowed_domains": ("SCHOOL.example",)})
    answer, grants = await sign_in(settings)
    assert answer.status_code == status
    assert int(status == 303) == grants


async def test_an_address_that_only_looks_like_anothers_is_not_theirs(
    with_google: Settings, google: FakeGoogle
) -> None:
    settings = with_google.model_copy(update={"allowed_domains": ("school.example",)})
    kelvin = "\u212aate@school.example"  # in lower case, it is kate
    google.account = Account(claims={"email": kelvin, "hd": "school.example"})
    answer, grants = await sign_in(settings)
    assert answer.status_code == 401
    assert grants == 0


async def test_who_is_not_on_the_list_reads_which_account_was_refused(
    with_google: Settings, google: FakeGoogle
) -> None:
    google.account = Account("Eve@example.com")
    answer, _ = await sign_in(with_google)
    assert "eve@example.com is not allowed to sign in here" in answer.text
    assert '<a href="/consent?request=' in answer.text


async def test_without_a_list_nobody_signs_in_and_is_told_what_to_set(
    with_google: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(with_google.model_copy(update={"allowed_emails": ()})) as (
        sign_in_app,
        browser,
    ):
        answer = await press_continue(sign_in_app, browser)
    assert answer.status_code == 403
    assert "ALLOWED_EMAILS" in answer.text
    assert google.requests == []


async def test_a_sign_in_that_another_browser_began_is_refused(
    with_google: Settings, google: FakeGoogle
) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        way = await press_continue(sign_in_app, browser)
        back = await visit_google(way.headers["location"])
        async with sign_in_app.client() as stranger:
            without_cookie = await stranger.get(back)
            await stranger.get(sign_in_app.consent_path())
            with_its_own = await stranger.get(back)
        assert await sign_in_app.count_grants() == 0
    assert without_cookie.status_code == 403
    assert with_its_own.status_code == 403
    assert "started in another browser" in with_its_own.text
    assert TOKEN not in google.requests


@pytest.mark.parametrize("state", ["", "a", "a.b.c", "..", "é.é.é"])
async def test_a_state_that_we_did_not_make_is_refused(with_google: Settings, state: str) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        await browser.get(sign_in_app.consent_path())
        answer = await browser.get("/signin/google", params={"state": state, "code": "c"})
    assert answer.status_code in (400, 403)


async def test_the_code_of_another_sign_in_is_refused(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        mine = await visit_google((await press_continue(sign_in_app, browser)).headers["location"])
        async with sign_in_app.client() as other:
            theirs = await visit_google(
                (await press_continue(sign_in_app, other)).headers["location"]
            )
        stolen = httpx2.URL(theirs).params["code"]
        answer = await browser.get(httpx2.URL(mine).copy_set_param("code", stolen))
        assert await sign_in_app.count_grants() == 0
    assert answer.status_code == 401


async def test_coming_back_twice_counts_once(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        back = await visit_google((await press_continue(sign_in_app, browser)).headers["location"])
        first, second = [await browser.get(back) for _ in range(2)]
        assert await sign_in_app.count_grants() == 1
    assert first.status_code == 303
    assert second.status_code == 401


async def test_who_gives_up_at_google_may_try_again(
    with_google: Settings, google: FakeGoogle
) -> None:
    google.account = Account(refusal={"error": "access_denied"})
    answer, grants = await sign_in(with_google)
    assert answer.status_code == 403
    assert grants == 0
    assert "You did not finish signing in with Google." in answer.text
    assert '<a href="/consent?request=' in answer.text


async def test_who_stays_at_google_for_too_long_has_to_start_again(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        back = await visit_google((await press_continue(sign_in_app, browser)).headers["location"])
        sign_in_app.clock.advance(minutes=11)
        answer = await browser.get(back)
    assert answer.status_code == 400
    assert "Start again from the program" in answer.text


async def test_going_and_coming_back_count_as_tries(with_google: Settings) -> None:
    async with open_sign_in_app(with_google) as (sign_in_app, browser):
        sign_in_app.login_limit.max_attempts = 1
        back = await visit_google((await press_continue(sign_in_app, browser)).headers["location"])
        answer = await browser.get(back)
        assert await sign_in_app.count_grants() == 0
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "60"


async def test_an_address_that_can_name_no_user_is_refused(
    with_google: Settings, google: FakeGoogle
) -> None:
    google.account = Account("o'hara@example.com")
    settings = with_google.model_copy(update={"allowed_emails": ("o'hara@example.com",)})
    answer, grants = await sign_in(settings)
    assert answer.status_code == 400
    assert grants == 0


def test_a_refresh_asks_the_lists_as_they_are_now(with_google: Settings) -> None:
    settings = with_google.model_copy(update={"allowed_domains": ("school.example",)})
    sign_in_app = SignInApp(settings)
    google = GoogleSignIn(settings, sign_in_app.keyring, sign_in_app.clock)
    proofs = [
        Proof(user_id=ADA, kind="google", email=ADA),
        Proof(user_id="b", kind="google", email="bob@school.example"),
        Proof(user_id="c", kind="google", email="carol@example.com"),
        Proof(user_id=ADA, kind="key", key_id="k"),
    ]
    assert [google.is_still_allowed(proof) for proof in proofs] == [True, True, False, False]
