"""Users allow or deny a client's request on the consent page, in headless Chromium."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette

from functions.gateway.oauth import google as google_module
from shared.core.settings import Settings
from tests.support.accessibility import find_violations
from tests.support.browser import Browser, Browsers
from tests.support.certificates import write_certificate
from tests.support.fakes.google import FakeGoogle
from tests.support.google_sign_in import make_google_settings
from tests.support.sign_in_app import SignInApp, make_authorization_request, parse_hidden_fields
from tests.support.web_sites import make_redirecting_site, make_site, serve_app

pytestmark = [pytest.mark.slow]

ARRIVAL_PAGE = make_site("<h1>Arrived</h1>")
LONG_REQUEST = make_authorization_request(
    client_name="W" * 200, redirect_uri=f"https://{'a' * 60}.example.com/cb"
)
"""A request with a long client name, a long address and all scopes."""


@asynccontextmanager
async def serve_sign_in(settings: Settings) -> AsyncIterator[SignInApp]:
    """Serve the sign-in pages at their public URL."""
    apps: list[SignInApp] = []  # the app is made when its URL is known

    def make_app(url: str) -> Starlette:
        apps.append(SignInApp(settings.model_copy(update={"public_url": url})))
        return apps[0].app

    async with serve_app(make_app):
        yield apps[0]
    await apps[0].connection.aclose()


@pytest.fixture
async def sign_in_app(settings: Settings) -> AsyncIterator[SignInApp]:
    """The sign-in pages, where people sign in with a key."""
    async with serve_sign_in(settings) as app:
        yield app


@pytest.fixture
async def client() -> AsyncIterator[str]:
    """The URL of a client that receives the redirect."""
    async with serve_app(lambda _: ARRIVAL_PAGE) as url:
        yield url


def parse_query_parameters(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


async def open_consent_page(browser: Browser, app: SignInApp, redirect_uri: str) -> None:
    """Open the consent page for a request of a client with this redirect URI."""
    request = make_authorization_request(redirect_uri=redirect_uri)
    assert await browser.open(app.make_consent_url(request)) == 200


async def test_a_pasted_key_gives_the_client_its_code(
    browsers: Browsers, sign_in_app: SignInApp, client: str
) -> None:
    key, _ = await sign_in_app.make_key()
    async with browsers.open_window(scripts=False) as browser:
        await open_consent_page(browser, sign_in_app, f"{client}/cb")
        await browser.fill("Your access key", key)
        await browser.press("Allow")
        answer = parse_query_parameters(await browser.wait_for_url(f"{client}/cb?"))
        assert browser.console_errors == []
    assert answer.keys() == {"code", "state", "iss"}
    assert await sign_in_app.count_grants() == 1


async def test_the_enter_key_allows_the_request(
    browser: Browser, sign_in_app: SignInApp, client: str
) -> None:
    key, _ = await sign_in_app.make_key()
    await open_consent_page(browser, sign_in_app, f"{client}/cb")
    await browser.fill("Your access key", key)
    await browser.page.keyboard.press("Enter")
    assert "code" in parse_query_parameters(await browser.wait_for_url(f"{client}/cb?"))


async def test_a_client_at_localhost_gets_its_code(
    browser: Browser, sign_in_app: SignInApp, client: str
) -> None:
    key, _ = await sign_in_app.make_key()
    client_by_name = client.replace("127.0.0.1", "localhost")
    await open_consent_page(browser, sign_in_app, f"{client_by_name}/cb")
    await browser.fill("Your access key", key)
    await browser.press("Allow")
    await browser.wait_for_url(f"{client_by_name}/cb?code=")
    assert browser.console_errors == []


async def test_a_client_may_redirect_the_browser_again(
    browsers: Browsers, sign_in_app: SignInApp, tmp_path: Path
) -> None:
    key, _ = await sign_in_app.make_key()
    certificate = tmp_path / "certificate.pem"
    write_certificate(certificate)
    async with (
        serve_app(lambda _: ARRIVAL_PAGE, certificate=certificate) as home,
        serve_app(lambda _: make_redirecting_site(f"{home}/done"), certificate=certificate) as site,
        browsers.open_window() as browser,
    ):
        await open_consent_page(browser, sign_in_app, f"{site}/cb")
        await browser.fill("Your access key", key)
        await browser.press("Allow")
        await browser.wait_for_url(f"{home}/done")
        assert browser.console_errors == []


async def test_an_app_is_opened_by_its_own_scheme(browser: Browser, sign_in_app: SignInApp) -> None:
    key, _ = await sign_in_app.make_key()
    await open_consent_page(browser, sign_in_app, "cursor://anysphere/cb")
    await browser.fill("Your access key", key)
    async with browser.page.expect_event("requestfailed") as failed:  # there is no such app here
        await browser.press("Allow")
    assert (await failed.value).url.startswith("cursor://anysphere/cb?code=")
    assert browser.console_errors == []


async def test_an_invalid_key_can_be_corrected(
    browser: Browser, sign_in_app: SignInApp, client: str
) -> None:
    key, _ = await sign_in_app.make_key()
    await open_consent_page(browser, sign_in_app, f"{client}/cb")
    await browser.fill("Your access key", "carrel_wrong")
    await browser.press("Allow")
    await browser.wait_for_text("This key is not valid")
    field = browser.page.get_by_label("Your access key")
    assert await field.input_value() == ""
    assert await field.evaluate("field => field === document.activeElement")
    assert await browser.page.locator("#error").get_attribute("role") == "alert"

    await browser.fill("Your access key", key)
    await browser.press("Allow")
    await browser.wait_for_url(f"{client}/cb?code=")


async def test_without_a_key_the_browser_sends_nothing(
    browser: Browser, sign_in_app: SignInApp
) -> None:
    await browser.open(sign_in_app.make_consent_url())
    await browser.press("Allow")
    assert browser.requests == [sign_in_app.make_consent_url()]
    assert sign_in_app.sign_in_limit.attempts == []


async def test_deny_needs_no_key_and_returns_to_the_client(
    browser: Browser, sign_in_app: SignInApp, client: str
) -> None:
    await open_consent_page(browser, sign_in_app, f"{client}/cb")
    await browser.press("Deny")
    answer = parse_query_parameters(await browser.wait_for_url(f"{client}/cb?"))
    assert answer["error"] == ["access_denied"]
    assert await sign_in_app.count_grants() == 0


async def test_other_sites_cannot_frame_the_page(browser: Browser, sign_in_app: SignInApp) -> None:
    frame = f'<iframe src="{sign_in_app.make_consent_url()}"></iframe>'
    async with serve_app(lambda _: make_site(frame)) as evil:
        await browser.open(evil)
    assert await browser.page.frame_locator("iframe").get_by_role("button").count() == 0
    assert any("frame-ancestors 'none'" in error for error in browser.console_errors)


async def test_a_form_that_another_site_submits_is_rejected(
    browser: Browser, sign_in_app: SignInApp
) -> None:
    key, _ = await sign_in_app.make_key()
    async with sign_in_app.make_client() as attacker:
        page = await attacker.get(sign_in_app.make_consent_target())
    fields = {**parse_hidden_fields(page), "decision": "allow", "key": key}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    action = f"{sign_in_app.settings.public_url}/consent"
    form = f'<form method="post" action="{action}">{inputs}<button>A prize</button></form>'
    await browser.open(sign_in_app.make_consent_url())
    async with serve_app(lambda _: make_site(form)) as evil:
        await browser.open(evil.replace("127.0.0.1", "localhost"))
        await browser.press("A prize")
        await browser.wait_for_text("Your answer was not accepted")
    assert await sign_in_app.count_grants() == 0


async def test_a_malicious_client_name_is_shown_as_text(
    browser: Browser, sign_in_app: SignInApp
) -> None:
    name = '</title><script>document.title = ""</script><img src="/x">\u202e' + "x" * 10_000
    address = sign_in_app.make_consent_url(make_authorization_request(client_name=name))
    assert await browser.open(address) == 200
    assert (await browser.page.title()).startswith("</title><script>document.title")
    assert browser.requests == [address]
    assert browser.console_errors == []
    assert "claude.example" in await browser.read_text()
    assert await browser.page.get_by_role("button", name="Deny").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_violations(
    browsers: Browsers, sign_in_app: SignInApp, axe: str, scheme: Literal["light", "dark"]
) -> None:
    async with browsers.open_window(scheme=scheme) as browser:
        await browser.open(sign_in_app.make_consent_url())
        await browser.fill("Your access key", "wrong")
        await browser.press("Allow")
        await browser.wait_for_text("This key is not valid")
        assert await find_violations(browser.page, axe) == []


@pytest.mark.parametrize(("width", "height"), [(320, 640), (390, 844), (1024, 800), (1280, 800)])
async def test_the_page_fits_each_screen_width(
    browsers: Browsers, sign_in_app: SignInApp, width: int, height: int
) -> None:
    async with browsers.open_window(width=width, height=height) as browser:
        await browser.open(sign_in_app.make_consent_url(LONG_REQUEST))
        assert await browser.page.evaluate("document.documentElement.scrollWidth") == width


async def test_buttons_are_visible_without_scrolling_on_a_laptop(
    browsers: Browsers, sign_in_app: SignInApp
) -> None:
    async with browsers.open_window(width=1280, height=800) as browser:
        await browser.open(sign_in_app.make_consent_url(LONG_REQUEST))
        await assert_in_view(browser, "Allow", "Deny")
        await browser.fill("Your access key", "carrel_wrong")
        await browser.press("Allow")
        await browser.wait_for_text("This key is not valid")
        await assert_in_view(browser, "Allow", "Deny")


async def assert_in_view(browser: Browser, *buttons: str) -> None:
    """Assert that these buttons are visible without scrolling."""
    size = browser.page.viewport_size
    assert size
    for name in buttons:
        box = await browser.page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box, name
        assert 0 <= box["y"] <= size["height"] - box["height"], name
        assert 0 <= box["x"] <= size["width"] - box["width"], name


async def test_the_page_works_with_screen_reader_and_keyboard(
    browser: Browser, sign_in_app: SignInApp
) -> None:
    await browser.open(sign_in_app.make_consent_url())
    assert await browser.page.locator("html").get_attribute("lang") == "en"
    snapshot = await browser.page.locator("main").aria_snapshot()
    assert 'heading "Claude asks for access to Carrel" [level=1]' in snapshot
    assert 'textbox "Your access key"' in snapshot
    focus_order = []
    for _ in range(3):
        await browser.page.keyboard.press("Tab")
        focus_order.append(await browser.page.evaluate("document.activeElement.innerText"))
    assert focus_order == ["", "Allow", "Deny"]  # the field of the key has no text


async def test_google_sign_in_gives_the_client_its_code(
    browsers: Browsers, settings: Settings, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeGoogle() as google:
        monkeypatch.setattr(google_module, "ISSUER", google.issuer)
        async with (
            serve_sign_in(make_google_settings(settings)) as sign_in_app,
            browsers.open_window(scripts=False) as browser,
        ):
            await open_consent_page(browser, sign_in_app, f"{client}/cb")
            await browser.press("Continue with Google")
            answer = parse_query_parameters(await browser.wait_for_url(f"{client}/cb?"))
            assert browser.console_errors == []
            assert await sign_in_app.count_grants() == 1
    assert answer.keys() == {"code", "state", "iss"}
