"""Sessions of the console: what the cookie opens, for how long, and for whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx2
import pytest

from shared.accounts.repositories.revocation import revoke_key, revoke_user
from tests.e2e.access.conftest import CLOUD, in_access
from tests.support.console_app import parse_page, read_text, read_texts
from tests.support.console_person import SESSION_COOKIE, Person
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.mcp_wire import HEADERS, make_request

if TYPE_CHECKING:
    from pathlib import Path

    from shared.accounts.repositories.access_store import AccessStore
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

PRIVATE_PATHS = ("/", "/?q=x", "/sources", "/sources/x", "/map", "/clusters/x", "/passages/x")


def test_a_person_signs_in_with_a_key_and_returns_to_the_page(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("visits.ada"), "/sources?order=title")
    assert person.path == "/sources?order=title"
    assert person.texts(".who a") == ["visits.ada"]
    [cookie] = [c for c in person.http.cookies.jar if c.name == SESSION_COOKIE]
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    assert cookie.expires is not None


@pytest.mark.parametrize("path", PRIVATE_PATHS)
def test_without_a_session_every_page_asks_to_sign_in(url: str, path: str) -> None:
    response = httpx2.get(url + path)
    assert response.status_code == 303
    assert response.headers["location"].startswith("/consent?request=")
    person = Person(url).open(path)
    assert person.texts("h1") == ["Sign in"]
    assert person.buttons == ["Sign in"]


@pytest.mark.parametrize("path", ["/map/points", "/map/hits?q=x", "/map/passages/x"])
def test_without_a_session_a_script_gets_no_data(url: str, path: str) -> None:
    response = httpx2.get(url + path)
    assert response.status_code == 401
    assert "Sign in" in response.json()["message"]


def test_a_wrong_key_starts_no_session(url: str) -> None:
    person = Person(url).sign_in("carrel_wrong")
    assert "This key is not valid" in person.texts("[role=alert]")[0]
    assert SESSION_COOKIE not in person.http.cookies


def test_the_cookie_opens_the_console_alone(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("visits.only"))
    call = make_request("tools/list")
    assert person.http.post("/mcp", json=call, headers=HEADERS).status_code == 401
    cookie = person.http.cookies[SESSION_COOKIE]
    bearer = {**HEADERS, "authorization": f"Bearer {cookie}"}
    assert person.http.post("/mcp", json=call, headers=bearer).status_code == 401
    form = {"grant_type": "refresh_token", "client_id": "console", "refresh_token": cookie}
    assert person.http.post("/token", data=form).status_code == 401
    parameters = {"client_id": "console", "response_type": "code", "redirect_uri": f"{url}/session"}
    assert person.http.get("/authorize", params=parameters).status_code == 400


def test_signing_out_ends_the_session_everywhere(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("visits.leaving"))
    stolen = person.http.cookies[SESSION_COOKIE]
    person.submit("Sign out")
    assert person.texts("h1") == ["Sign in"]
    assert SESSION_COOKIE not in person.http.cookies
    response = httpx2.get(f"{url}/", cookies={SESSION_COOKIE: stolen})
    assert response.status_code == 303


def test_a_session_ends_after_30_days(url: str, make_key: MakeKey, realm: str) -> None:
    person = Person(url).sign_in(make_key("visits.old"))
    [cookie] = [c for c in person.http.cookies.jar if c.name == SESSION_COOKIE]
    grant_id = str(cookie.value).partition(".")[0]

    async def move_expiry(store: AccessStore) -> timedelta:
        grant = await store.grants.get(grant_id)
        assert grant
        now = await store.accounts.get_server_time()
        await store.grants.change(grant_id, lambda current: replace(current, expires_at=now))
        return grant.expires_at - now

    lifetime = in_access(realm, move_expiry)
    assert timedelta(days=29.9) < lifetime < timedelta(days=30.1)
    assert person.open("/map").texts("h1") == ["Sign in"]


def test_a_person_signs_in_with_google(google_url: str) -> None:
    person = Person(google_url).open("/map").submit("Continue with Google")
    assert person.path == "/map"
    assert person.texts(".who a") == ["ada@example.com"]


def test_revoking_the_key_or_the_user_ends_the_session(
    url: str, make_key: MakeKey, realm: str
) -> None:
    key = make_key("visits.revoked")
    person = Person(url).sign_in(key)
    in_access(realm, lambda store: revoke_key(store, key.split("_")[1]))
    assert person.open("/").texts("h1") == ["Sign in"]
    person.sign_in(make_key("visits.revoked"))
    assert person.texts(".who a") == ["visits.revoked"]
    in_access(realm, lambda store: revoke_user(store, "visits.revoked"))
    assert person.open("/").texts("h1") == ["Sign in"]


@pytest.mark.parametrize("change", ["signature", "grant", "nonsense"])
def test_a_forged_cookie_is_no_session(url: str, make_key: MakeKey, change: str) -> None:
    cookie = Person(url).sign_in(make_key("visits.forged")).http.cookies[SESSION_COOKIE]
    grant_id, signature = cookie.split(".")
    forged = {
        "signature": f"{grant_id}.{signature[::-1]}",
        "grant": f"{grant_id[::-1]}.{signature}",
        "nonsense": "x" * 4_000,
    }
    response = httpx2.get(f"{url}/", cookies={SESSION_COOKIE: forged[change]})
    assert response.status_code == 303


def test_a_code_starts_one_session_in_the_browser_that_asked(url: str, make_key: MakeKey) -> None:
    person, other = Person(url).open("/"), Person(url).open("/")
    form = {name: value or "" for name, value in person.page.forms[0].form_values()}
    answer = person.http.post(
        "/consent", data={**form, "key": make_key("visits.code"), "decision": "allow"}
    )
    arrival = answer.headers["location"]
    assert arrival.startswith(f"{url}/session?code=")
    stolen = other.http.get(arrival)
    assert stolen.status_code == 403
    assert "another browser" in read_texts(parse_page(stolen), "[role=alert]")[0]
    assert SESSION_COOKIE not in other.http.cookies
    assert person.open(arrival).texts(".who a") == ["visits.code"]
    assert person.http.get(arrival).status_code == 401


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil", "x" * 2_000]
)
def test_sign_in_returns_to_no_other_site(url: str, make_key: MakeKey, target: str) -> None:
    person = Person(url)
    person.follow(person.http.get("/session/new", params={"to": target}))
    form = {name: value or "" for name, value in person.page.forms[0].form_values()}
    answer = person.http.post(
        "/consent", data={**form, "key": make_key("visits.target"), "decision": "allow"}
    )
    location = httpx2.URL(answer.headers["location"]).copy_set_param("state", target)
    assert person.http.get(location).headers["location"] == "/"


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({"origin": "OWN"}, "", 403),
        ({"origin": "OWN"}, "x" * 43, 403),
        ({"origin": "OWN"}, "OTHER", 403),
        ({}, "OWN", 403),
        ({"origin": "null"}, "OWN", 403),
        ({"origin": "https://evil.example"}, "OWN", 403),
        ({"origin": "OWN", "host": "evil.example"}, "OWN", 421),
        ({"origin": "OWN"}, "OWN", 303),
    ],
)
def test_a_form_needs_the_token_of_its_session_and_the_own_origin(
    url: str, make_key: MakeKey, headers: dict[str, str], token: str, status: int
) -> None:
    key = make_key("visits.forms")
    person, other = Person(url).sign_in(key), Person(url).sign_in(key)
    for one in (person, other):
        assert one.texts(".who a") == ["visits.forms"], (one.path, read_text(one.page))
    tokens = {"OWN": person, "OTHER": other}
    form = tokens[token].page.forms[0].fields["form"] if token in tokens else token
    response = person.http.post(
        "/session/end",
        data={"form": form},
        headers={name: url if value == "OWN" else value for name, value in headers.items()},
    )
    assert response.status_code == status
    is_signed_in = person.open("/").texts(".who a") == ["visits.forms"]
    assert is_signed_in is (status != 303)


def test_without_signing_in_public_pages_offer_it(carrel: Carrel, make_key: MakeKey) -> None:
    person = Person(carrel.endpoint.removesuffix("/mcp")).open("/sources")
    [link] = person.select("a.who")
    assert link.get("href") == "/session/new?to=%2Fsources"
    person.open(link.get("href")).submit("Sign in", key=make_key("visits.public"))
    assert person.path == "/sources"
    assert person.texts(".who a") == ["visits.public"]


def test_too_many_pages_are_too_many_calls(realm: str, log: Path, make_key: MakeKey) -> None:
    environment = {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD, "READS_PER_MINUTE": "2"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        person = Person(gateway.url).sign_in(make_key("visits.often"), "/map")
        assert person.open("/map").response.status_code == 200
        assert person.open("/map").response.status_code == 429
        assert person.texts("[role=alert]")[0].startswith("You have reached the limit")
        assert int(person.response.headers["retry-after"]) > 0
        assert person.texts(".who a") == ["visits.often"]
