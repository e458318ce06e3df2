"""A session of the console begins with sign-in, and its cookie opens the console's pages only."""

from dataclasses import replace
from datetime import timedelta
from http.cookiejar import Cookie
from pathlib import Path

import httpx2
import pytest

from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.revocation import revoke_key, revoke_user
from tests.support.access import CLOUD_SETTINGS, Carrel, MakeKey, run_on_access_store
from tests.support.console_person import SESSION_COOKIE, Person
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.mcp_wire import HEADERS, make_request

TOKEN_LENGTH = 43
"""The length of a form token in characters."""
PRIVATE_PATHS = ("/", "/?q=x", "/sources", "/sources/x", "/map", "/clusters/x", "/passages/x")


def find_session_cookie(person: Person) -> Cookie:
    """Return the cookie with its attributes."""
    [cookie] = [cookie for cookie in person.http.cookies.jar if cookie.name == SESSION_COOKIE]
    return cookie


def prove_identity(person: Person, key: str) -> str:
    """Allow sign-in on the open consent page; return where it sends the browser, with a code."""
    form = {name: value or "" for name, value in person.page.forms[0].form_values()}
    data = {**form, "key": key, "decision": "allow"}
    return str(person.http.post("/consent", data=data).headers["location"])


def test_a_person_signs_in_with_a_key_and_returns_to_the_page(url: str, make_key: MakeKey) -> None:
    person = Person(url).sign_in(make_key("visits.ada"), "/sources?order=title")
    assert person.path == "/sources?order=title"
    assert person.texts(".who a") == ["visits.ada"]
    cookie = find_session_cookie(person)
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    assert cookie.expires is not None


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/sources/%E8%AA%AD", "/sources/%E8%AA%AD"),
        ("/?q=%C3%BC%07%0D%0A", "/?q=%C3%BC%07%0D%0A"),
        ("/sources/50%25%3F", "/sources/50%25%3F"),
        ("/session/new?to=/sources/%E8%AA%AD", "/sources/%E8%AA%AD"),
        ("/session/new?to=/sources/%07%00%7F", "/sources/%07%00%7F"),
        ("/session/new?to=/sources/%0D%0Aset-cookie:x", "/"),
        ("/session/new?to=//evil.example/%C3%BC", "/"),
    ],
)
def test_sign_in_returns_to_an_address_of_any_characters(
    url: str, make_key: MakeKey, path: str, page: str
) -> None:
    person = Person(url).sign_in(make_key("visits.signs"), path)
    assert person.path == page
    assert SESSION_COOKIE in person.http.cookies


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


def test_the_session_cookie_opens_only_the_console(url: str, make_key: MakeKey) -> None:
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


def test_a_session_ends_after_30_days(url: str, make_key: MakeKey, project: str) -> None:
    person = Person(url).sign_in(make_key("visits.old"))
    grant_id = str(find_session_cookie(person).value).partition(".")[0]

    async def end_now(store: AccessStore) -> timedelta:
        """End the session; return how long it would have lasted."""
        grant = await store.grants.get(grant_id)
        assert grant
        now = await store.accounts.get_server_time()
        await store.grants.change(grant_id, lambda current: replace(current, expires_at=now))
        return grant.expires_at - now

    lifetime = run_on_access_store(project, end_now)
    assert timedelta(days=29.9) < lifetime < timedelta(days=30.1)
    assert person.open("/map").texts("h1") == ["Sign in"]


def test_a_person_signs_in_with_google(google_url: str) -> None:
    person = Person(google_url).open("/map").submit("Continue with Google")
    assert person.path == "/map"
    assert person.texts(".who a") == ["ada@example.com"]


def test_revoking_the_key_or_the_user_ends_the_session(
    url: str, make_key: MakeKey, project: str
) -> None:
    key = make_key("visits.revoked")
    person = Person(url).sign_in(key)
    run_on_access_store(project, lambda store: revoke_key(store, key.split("_")[1]))
    assert person.open("/").texts("h1") == ["Sign in"]
    person.sign_in(make_key("visits.revoked"))
    assert person.texts(".who a") == ["visits.revoked"]
    run_on_access_store(project, lambda store: revoke_user(store, "visits.revoked"))
    assert person.open("/").texts("h1") == ["Sign in"]


def test_a_forged_cookie_is_rejected(url: str, make_key: MakeKey) -> None:
    cookie = Person(url).sign_in(make_key("visits.forged")).http.cookies[SESSION_COOKIE]
    grant_id, signature = cookie.split(".")
    for forged in (f"{grant_id}.{signature[::-1]}", f"{grant_id[::-1]}.{signature}", "x" * 4_000):
        assert httpx2.get(f"{url}/", cookies={SESSION_COOKIE: forged}).status_code == 303


def test_a_code_starts_one_session_in_the_browser_that_asked(url: str, make_key: MakeKey) -> None:
    person, other = Person(url).open("/"), Person(url).open("/")
    session_url = prove_identity(person, make_key("visits.code"))
    assert session_url.startswith(f"{url}/session?code=")

    assert other.open(session_url).response.status_code == 403
    assert "another browser" in other.texts("[role=alert]")[0]
    assert SESSION_COOKIE not in other.http.cookies

    assert person.open(session_url).texts(".who a") == ["visits.code"]
    assert person.http.get(session_url).status_code == 401


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil", "x" * 2_000]
)
def test_sign_in_never_redirects_to_another_site(url: str, make_key: MakeKey, target: str) -> None:
    person = Person(url)
    person.follow(person.http.get("/session/new", params={"to": target}))
    session_url = httpx2.URL(prove_identity(person, make_key("visits.target")))
    forged_url = session_url.copy_set_param("state", target)
    assert person.http.get(forged_url).headers["location"] == "/"


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({"origin": "OWN"}, "", 403),
        ({"origin": "OWN"}, "x" * TOKEN_LENGTH, 403),
        ({"origin": "OWN"}, "OTHER", 403),
        ({}, "OWN", 403),
        ({"origin": "null"}, "OWN", 403),
        ({"origin": "https://evil.example"}, "OWN", 403),
        ({"origin": "OWN", "host": "evil.example"}, "OWN", 421),
        ({"origin": "OWN"}, "OWN", 303),
    ],
)
def test_a_form_needs_its_sessions_token_and_the_same_origin(
    url: str, make_key: MakeKey, headers: dict[str, str], token: str, status: int
) -> None:
    """`OWN` stands for the gateway's origin and this session's token, `OTHER` for another's."""
    key = make_key("visits.forms")
    person, other = Person(url).sign_in(key), Person(url).sign_in(key)
    tokens = {
        "OWN": person.page.forms[0].fields["form"],
        "OTHER": other.page.forms[0].fields["form"],
    }
    response = person.http.post(
        "/session/end",
        data={"form": tokens.get(token, token)},
        headers={name: url if value == "OWN" else value for name, value in headers.items()},
    )
    assert response.status_code == status

    is_signed_in = person.open("/").texts(".who a") == ["visits.forms"]
    assert is_signed_in is (status != 303)


def test_public_pages_offer_anonymous_visitors_to_sign_in(
    carrel: Carrel, make_key: MakeKey
) -> None:
    person = Person(carrel.endpoint.removesuffix("/mcp")).open("/sources")
    [link] = person.select("a.who")
    assert link.get("href") == "/session/new?to=%2Fsources"
    person.open(link.get("href")).submit("Sign in", key=make_key("visits.public"))
    assert person.path == "/sources"
    assert person.texts(".who a") == ["visits.public"]


def test_opening_pages_counts_against_the_rate_limit(
    project: str, log: Path, make_key: MakeKey
) -> None:
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, "READS_PER_MINUTE": "2"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        person = Person(gateway.url).sign_in(make_key("visits.often"), "/map")
        assert person.open("/map").response.status_code == 200
        assert person.open("/map").response.status_code == 429
        assert person.texts("[role=alert]")[0].startswith("You have reached the limit")
        assert int(person.response.headers["retry-after"]) > 0
        assert person.texts(".who a") == ["visits.often"]
