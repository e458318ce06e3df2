"""The consent page describes a program truthfully and safely, whatever the program claims."""

import re
from html import unescape

import httpx2
import pytest

from functions.gateway.oauth.consent_page import MAX_NAME_LENGTH, sanitize_name
from shared.core.caller import Scope
from shared.core.settings import Settings
from tests.support.sign_in_app import SignInApp, make_authorization_request


async def load_page(
    settings: Settings, path: str = "", **request_fields: object
) -> httpx2.Response:
    """Load a path, or the consent page for an authorization request with these fields."""
    sign_in_app = SignInApp(settings)
    async with sign_in_app.make_client() as browser:
        return await browser.get(
            path or sign_in_app.make_consent_target(make_authorization_request(**request_fields))
        )


def read_visible_text(page: httpx2.Response) -> str:
    """Return the visible text of a page."""
    body = page.text.partition("</head>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def parse_content_policy(page: httpx2.Response) -> dict[str, str]:
    """Return the directives of a page's content security policy."""
    parts = page.headers["content-security-policy"].split("; ")
    return dict(part.split(" ", 1) for part in parts)


async def test_the_page_names_program_destination_and_scopes(settings: Settings) -> None:
    page = await load_page(settings)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    words = read_visible_text(page)
    assert "Claude asks for access to Carrel" in words
    assert "Access goes to claude.example If you do not know this site, press Deny." in words
    assert "chose this name itself, and it has not been verified" in words
    assert "search and read everything that you can read" in words
    assert "create, change and delete data on your behalf" in words

    page = await load_page(
        settings,
        scopes=frozenset({Scope.READ}),
        client_id="https://claude.example/oauth/client.json",
    )
    words = read_visible_text(page)
    assert "search and read everything that you can read" in words
    assert "create, change" not in words
    assert "claude.example gives this name to the program." in words
    assert "it has not been verified" not in words

    for name in (None, "", "\u200b"):
        page = await load_page(settings, client_name=name)
        assert "An unnamed program asks for access" in read_visible_text(page)


@pytest.mark.parametrize(
    ("redirect_uri", "words", "source"),
    [
        (
            "http://127.0.0.1:3334/cb",
            "a program on this computer 127.0.0.1, port 3334",
            "http://127.0.0.1:3334",
        ),
        ("http://localhost/cb", "a program on this computer localhost", "http://localhost"),
        ("http://[::1]:99/cb", "a program on this computer ::1, port 99", "http:"),
        (
            "cursor://anysphere/cb",
            "an app on this device It opens links that begin with cursor:",
            "cursor:",
        ),
        *(
            (f"https://{host}/cb", f"{host} If you do not know", f"https://{host}")
            for host in (
                *("claude.example", "claude.example:8443", "localhost.evil.example"),
                "xn--pple-43d.example",
            )
        ),
    ],
)
async def test_destination_is_described_for_people_and_allowed_for_the_form(
    settings: Settings, redirect_uri: str, words: str, source: str
) -> None:
    page = await load_page(settings, redirect_uri=redirect_uri)
    assert f"Access goes to {words}" in read_visible_text(page)
    assert parse_content_policy(page)["form-action"] == f"'self' https: {source}"


async def test_unsafe_redirect_uri_gets_no_page(settings: Settings) -> None:
    page = await load_page(settings, redirect_uri="https://claude.example@evil.example/")
    assert page.status_code == 400
    assert "an address that is not allowed" in read_visible_text(page)
    assert "form-action 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</title></style><img src=x onerror=alert(1)>",
        "\"'><b>",
        "{{ 7 * 7 }}{% raw %}",
    ],
)
async def test_client_name_is_escaped(settings: Settings, name: str) -> None:
    page = await load_page(settings, client_name=name)
    [heading] = re.findall("<h1><bdi>([^<>]*)</bdi> asks for access to Carrel</h1>", page.text)
    assert unescape(heading) == name
    assert not re.search(r"<(script|img|b)\b", page.text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Claude", "Claude"),
        ("  Claude \n\t Code ", "Claude Code"),
        ("\u202eedualC\u202c", "edualC"),
        ("Cla\u200bude", "Cla ude"),
        ("\u2066evil\u2069", "evil"),
        ("Käse & チーズ", "Käse & チーズ"),
        ("Z" + "\u0335" * 50, "Z\u0335\u0335"),
        ("x" * 10_000, "x" * MAX_NAME_LENGTH + "…"),
        ("\x00\x1b[31m", "[31m"),
        ("\u202e", ""),
        ("\ud800", ""),
    ],
)
def test_client_name_cannot_distort_the_page(name: str, expected: str) -> None:
    assert sanitize_name(name) == expected


@pytest.mark.parametrize("path", ["", "/consent", "/consent?request=forged"])
async def test_every_page_forbids_scripts_frames_caches_and_sniffing(
    settings: Settings, path: str
) -> None:
    page = await load_page(settings, path)
    assert "`" not in page.text
    policy = parse_content_policy(page)

    assert policy.pop("default-src") == "'none'"
    assert policy.pop("base-uri") == "'none'"
    assert policy.pop("frame-ancestors") == "'none'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy.pop("style-src"))
    assert list(policy) == ["form-action"]
    assert {
        "cache-control": "no-store",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }.items() <= dict(page.headers).items()


@pytest.mark.parametrize(
    ("url", "name", "secure"),
    [
        ("https://carrel.example", "__Host-carrel", ["Secure"]),
        ("http://localhost:8080", "carrel", []),
    ],
)
async def test_a_cookie_over_https_is_bound_to_its_host(
    settings: Settings, url: str, name: str, secure: list[str]
) -> None:
    """Two open pages share it."""
    sign_in_app = SignInApp(settings.model_copy(update={"public_url": url}))
    async with sign_in_app.make_client() as browser:
        first, second = [await browser.get(sign_in_app.make_consent_target()) for _ in range(2)]
    assert second.headers["set-cookie"] == first.headers["set-cookie"]
    cookie, *attributes = first.headers["set-cookie"].split("; ")
    assert cookie.partition("=")[0] == name
    assert attributes == ["HttpOnly", "Path=/", "SameSite=lax", *secure]


@pytest.mark.parametrize("cookie", ["", "short", "a" * 44, '"; Domain=evil.example'])
async def test_an_invalid_csrf_cookie_is_replaced(settings: Settings, cookie: str) -> None:
    sign_in_app = SignInApp(settings)
    async with sign_in_app.make_client() as browser:
        page = await browser.get(
            sign_in_app.make_consent_target(), headers={"cookie": f"carrel={cookie}"}
        )
    value = page.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", value)
    assert value != cookie
