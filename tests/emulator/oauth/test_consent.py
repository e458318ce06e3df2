"""Deciding on the consent page: nobody gets in without a proof, and never elsewhere than asked."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from functions.gateway.oauth.authorization import grant_of_code
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import EVERYTHING, Scope
from tests.support.sign_in_app import ASKED, USER, Doorway, asking, hidden_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx2

    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio

BACK = "https://claude.example/callback"


@pytest.fixture
async def doorway(settings: Settings) -> AsyncIterator[Doorway]:
    """The pages, where people sign in by key."""
    opened = Doorway(settings)
    yield opened
    await opened.access.aclose()


@pytest.fixture
async def browser(doorway: Doorway) -> AsyncIterator[httpx2.AsyncClient]:
    """A person's browser."""
    async with doorway.client() as client:
        yield client


async def form_in(browser: httpx2.AsyncClient, address: str) -> dict[str, str]:
    """Look at the page, and return its form as it would be sent by Allow."""
    page = await browser.get(address)
    assert 200 == page.status_code
    return {**hidden_in(page), "decision": "allow"}


async def send(
    browser: httpx2.AsyncClient, form: dict[str, str], **headers: str
) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await browser.post("/consent", data=form, headers=named)


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"key": ""},
        {"key": " "},
        {"key": "carrel_"},
        {"key": "0"},
        {"key": "carrel_0123456789ab_" + "A" * 43 + "A" * 8},
        {"user_id": USER},
        {"email": USER, "kind": "google"},
        {"proof": "true", "approved": "1"},
    ],
)
async def test_nobody_gets_a_code_without_a_proof(
    doorway: Doorway, browser: httpx2.AsyncClient, shown: dict[str, str]
) -> None:
    await doorway.make_key()
    answer = await send(browser, await form_in(browser, doorway.address()) | shown)
    assert 401 == answer.status_code
    assert "location" not in answer.headers
    assert 0 == await doorway.grants()


async def test_a_key_lets_its_user_in_with_what_was_asked(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, key_id = await doorway.make_key()
    answer = await send(browser, await form_in(browser, doorway.address()) | {"key": key})
    assert 303 == answer.status_code
    where, _, query = answer.headers["location"].partition("?")
    told = parse_qs(query)
    assert BACK == where
    assert (["client's own"], [doorway.settings.public_url]) == (told["state"], told["iss"])
    grant_id = grant_of_code(doorway.keyring, told["code"][0], ASKED.client_id)
    assert grant_id is not None
    grant = await AccessStore(doorway.access).grants.get(grant_id)
    assert grant is not None
    assert (USER, EVERYTHING, key_id) == (grant.user_id, grant.scopes, grant.proof.key_id)


async def test_a_key_with_blanks_around_it_is_the_same_key(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    answer = await send(browser, await form_in(browser, doorway.address()) | {"key": f" {key}\n"})
    assert 303 == answer.status_code


async def test_a_key_hands_on_no_more_than_it_allows(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key(frozenset({Scope.READ}))
    answer = await send(browser, await form_in(browser, doorway.address()) | {"key": key})
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    grant_id = grant_of_code(doorway.keyring, code, ASKED.client_id)
    grant = await AccessStore(doorway.access).grants.get(grant_id or "")
    assert grant is not None
    assert frozenset({Scope.READ}) == grant.scopes


async def test_a_key_that_allows_nothing_of_it_is_told_so(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key(frozenset({Scope.READ}))
    address = doorway.address(asking(scopes=frozenset({Scope.WRITE})))
    answer = await send(browser, await form_in(browser, address) | {"key": key})
    assert 403 == answer.status_code
    assert "allows nothing of what the program asks for" in answer.text
    assert 0 == await doorway.grants()


async def test_a_wrong_key_is_never_shown_again(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    answer = await send(
        browser, await form_in(browser, doorway.address()) | {"key": "carrel_secret_typo"}
    )
    assert 401 == answer.status_code
    assert "secret_typo" not in answer.text


async def test_a_wrong_key_is_said_in_plain_words(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    """The page shows the message as it is: marks of code would show as backticks."""
    answer = await send(browser, await form_in(browser, doorway.address()) | {"key": "carrel_typo"})
    assert "This key is not valid" in answer.text
    assert "make another one with carrel keys create." in answer.text
    assert "`" not in answer.text


async def test_after_a_wrong_key_the_same_page_takes_the_right_one(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    again = await send(browser, await form_in(browser, doorway.address()) | {"key": "wrong"})
    form = {**hidden_in(again), "decision": "allow", "key": key}
    assert 303 == (await send(browser, form)).status_code


async def test_a_revoked_key_lets_nobody_in(doorway: Doorway, browser: httpx2.AsyncClient) -> None:
    key, key_id = await doorway.make_key()
    await AccessStore(doorway.access).keys.revoke(key_id, doorway.clock())
    answer = await send(browser, await form_in(browser, doorway.address()) | {"key": key})
    assert (401, 0) == (answer.status_code, await doorway.grants())


async def test_deny_needs_no_key_and_tells_the_program(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    form = await form_in(browser, doorway.address())
    answer = await send(browser, form | {"decision": "deny"})
    assert 303 == answer.status_code
    assert answer.headers["location"].startswith(f"{BACK}?error=access_denied&")
    assert (0, []) == (await doorway.grants(), doorway.tries.seen)


async def test_an_answer_that_is_neither_is_none(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address())
    answer = await send(browser, form | {"decision": "", "key": key})
    assert (400, 0) == (answer.status_code, await doorway.grants())


async def test_tries_are_counted_by_address_and_limited(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    doorway.tries.most = 1
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address())
    assert 401 == (await send(browser, form | {"key": "wrong"})).status_code
    answer = await send(browser, form | {"key": key})
    assert (429, "60") == (answer.status_code, answer.headers["retry-after"])
    assert "Too many tries. Wait a minute." in answer.text
    assert ["127.0.0.1"] * 2 == doorway.tries.seen
    assert 0 == await doorway.grants()


async def test_a_form_from_another_browser_is_refused(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address()) | {"key": key}
    async with doorway.client() as other:
        without_cookie = await send(other, form)
        await form_in(other, doorway.address())
        with_its_own = await send(other, form)
    assert (403, 403) == (without_cookie.status_code, with_its_own.status_code)
    assert 0 == await doorway.grants()


async def test_a_form_counts_for_the_request_that_it_was_made_for(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address())
    other = doorway.sealed(asking(redirect_uri="https://evil.example/"))
    answer = await send(browser, form | {"key": key, "request": other})
    assert (403, 0) == (answer.status_code, await doorway.grants())


@pytest.mark.parametrize("field", ["form", "request"])
async def test_a_form_without_its_fields_is_refused(
    doorway: Doorway, browser: httpx2.AsyncClient, field: str
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address()) | {"key": key}
    del form[field]
    assert (403, 0) == ((await send(browser, form)).status_code, await doorway.grants())


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:8081"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
async def test_a_form_that_another_site_sent_is_refused(
    doorway: Doorway, browser: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address()) | {"key": key}
    assert 403 == (await send(browser, form, **headers)).status_code
    assert 0 == await doorway.grants()


@pytest.mark.parametrize("origin", ["http://localhost:8080", "http://127.0.0.1:8080"])
async def test_a_form_from_the_page_itself_is_taken(
    doorway: Doorway, browser: httpx2.AsyncClient, origin: str
) -> None:
    key, _ = await doorway.make_key()
    form = await form_in(browser, doorway.address()) | {"key": key}
    answer = await send(browser, form, origin=origin, sec_fetch_site="same-origin")
    assert 303 == answer.status_code


async def test_a_form_may_name_its_character_set(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    form = await form_in(browser, doorway.address()) | {"decision": "deny"}
    named = "application/x-www-form-urlencoded;charset=UTF-8"
    assert 303 == (await send(browser, form, content_type=named)).status_code


async def test_a_request_that_waited_too_long_says_to_start_again(
    doorway: Doorway, browser: httpx2.AsyncClient
) -> None:
    key, _ = await doorway.make_key()
    address = doorway.address()
    form = await form_in(browser, address) | {"key": key}
    doorway.clock.advance(minutes=11)
    for answer in (await browser.get(address), await send(browser, form)):
        assert 400 == answer.status_code
        assert "Start again from the program" in answer.text
    assert 0 == await doorway.grants()


@pytest.mark.parametrize("query", ["", "?request=", "?request=x.y", "?request=a&request=b"])
async def test_the_page_without_a_request_says_where_to_start(
    browser: httpx2.AsyncClient, query: str
) -> None:
    answer = await browser.get(f"/consent{query}")
    assert 400 == answer.status_code
    assert "the program" in answer.text
