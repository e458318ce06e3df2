"""The console in headless Chromium."""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import pytest

from shared.core.caller import Role
from shared.knowledge.source import Section, Source
from tests.e2e.access.conftest import CLOUD, in_access, key_maker
from tests.support.accessibility import find_violations
from tests.support.gateway_process import INLINE, run_gateway
from tests.support.knowledge import BAKING, SAILING, fill_project
from tests.support.web_sites import page, serving
from tests.unit.console.test_escaping import PAYLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from tests.support.browser import Browser, Browsers

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HOSTILE = Source(
    source_id="hostile",
    title=PAYLOADS[1],
    author=PAYLOADS[3],
    category="articles",
    tags=tuple(payload.strip() for payload in PAYLOADS if "\n" not in payload),
    source_url="javascript:document.title='run'",
    readwise_url="https://readwise.io/open/1\"onmouseover='alert(1)'",
    sections=tuple(
        Section(text=f"A hostile passage: {payload}", highlight_url=payload) for payload in PAYLOADS
    ),
)
WIDE = Source(
    source_id="wide",
    title="W" * 180,
    author="X" * 180,
    tags=("Y" * 100,),
    sections=(Section(text=f"A wide passage {'Z' * 500}"),),
)
PAGES = (
    "/",
    "/?q=bread",
    "/?tag=food",
    "/sources",
    "/sources/baking",
    "/map",
    "/you",
    "/sources/unknown",
)


@dataclass(frozen=True)
class Console:
    """A gateway that requires sign-in.

    Attributes:
        url: Its URL.
        key: The key of its owner.
    """

    url: str
    key: str

    async def sign_in(self, browser: Browser, path: str = "/") -> None:
        """Sign in on the way to a page."""
        await browser.open(self.url + path)
        await browser.fill("Your access key", self.key)
        await browser.press("Sign in")
        await browser.arrive(self.url + path)


@pytest.fixture(scope="module")
def console(local_embedder: LocalEmbedder, log: Path) -> Iterator[Console]:
    """A gateway with hostile and harmless sources."""
    project = f"console-{uuid.uuid4().hex[:16]}"
    asyncio.run(fill_project(project, local_embedder, BAKING, SAILING, WIDE, HOSTILE))
    key = key_maker(project)("ada")
    in_access(project, lambda store: store.accounts.set_role("ada", Role.OWNER))
    with run_gateway(INLINE, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD}, log) as gateway:
        yield Console(gateway.url, key)


async def test_one_searches_reads_corrects_and_leaves_without_scripts(
    browsers: Browsers, console: Console
) -> None:
    async with browsers.window(scripts=False) as browser:
        await console.sign_in(browser)
        await browser.fill("Search what you have read", "how do I keep a starter alive?")
        await browser.press("Search")
        await browser.page.locator(".hit [data-hit]").first.click()
        await browser.wait_for_text("A sourdough starter needs flour and water every day")
        await browser.page.get_by_text("Edit", exact=True).click()
        await browser.fill("Tags, one on each line", "food\nsourdough")
        await browser.press("Save")
        await browser.wait_for_text("Changed the tags")
        assert await browser.page.locator(".source .tag").all_inner_texts() == ["food", "sourdough"]
        await browser.page.get_by_text("Add a note", exact=True).click()
        await browser.fill("Your thought about this passage", "Feed it on Sundays.")
        await browser.press("Save the note")
        await browser.wait_for_text("Saved. The note can be read by")
        assert "Feed it on Sundays." in await browser.page.locator("#related").inner_text()
        await browser.page.get_by_text("Forget this passage", exact=True).click()
        await browser.press("Forget the passage")
        await browser.wait_for_text("Forgot a passage of")
        assert await browser.page.locator(".passage").count() == 2
        await browser.press("Undo")
        await browser.wait_for_text("Restored a passage of")
        assert await browser.page.locator(".passage").count() == 3
        await browser.press("Sign out")
        await browser.wait_for_text("Your access key")
        assert browser.console_errors == []


async def test_keys_lead_from_the_box_to_the_reader(browser: Browser, console: Console) -> None:
    await console.sign_in(browser)
    assert await browser.page.evaluate("document.activeElement.id") == "q"
    await browser.page.keyboard.type("bread")
    await browser.page.keyboard.press("Enter")
    await browser.arrive(f"{console.url}/?q=bread")
    keyboard = browser.page.keyboard
    await keyboard.press("/")
    assert await browser.page.evaluate("document.activeElement.id") == "q"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown"):
        await keyboard.press(key)
    second = browser.page.locator(".hit [data-hit]").nth(1)
    assert await second.evaluate("link => link === document.activeElement")
    await keyboard.press("Enter")
    await browser.arrive(f"{console.url}/sources/")
    assert browser.console_errors == []


async def test_numbers_and_dates_follow_the_locale(browsers: Browsers, console: Console) -> None:
    async with browsers.window(locale="de-DE") as browser:
        await console.sign_in(browser, "/sources/baking")
        [day, *_] = await browser.page.locator("header time").all_inner_texts()
    assert re.fullmatch(r"\d\d\.\d\d\.\d{4}", day)


async def test_nothing_runs_that_a_source_contains(browser: Browser, console: Console) -> None:
    dialogs: list[str] = []
    browser.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await console.sign_in(browser)
    paths = ["/", "/?q=hostile+passage", "/sources", "/sources/hostile"]
    paths += [f"/?q={quote(payload)}&tag={quote(payload)}" for payload in PAYLOADS]
    for path in paths:
        await browser.open(console.url + path)
        for summary in await browser.page.locator("summary").all():
            await summary.click()
        assert (await browser.page.title()).endswith(" · Carrel")
    assert {url for url in browser.requests if not url.startswith(console.url)} == set()
    assert dialogs == []
    assert browser.console_errors == []
    await browser.open(f"{console.url}/sources/hostile")
    links = await browser.page.locator("a").evaluate_all("links => links.map(l => l.protocol)")
    assert set(links) <= {"http:", "https:"}


async def test_other_sites_cannot_frame_a_page(browser: Browser, console: Console) -> None:
    await console.sign_in(browser)
    frame = f'<iframe src="{console.url}/sources/baking"></iframe>'
    async with serving(lambda _: page(frame)) as evil:
        await browser.open(evil)
        assert await browser.page.frame_locator("iframe").get_by_role("button").count() == 0
    assert any("frame-ancestors" in complaint for complaint in browser.console_errors)


async def test_a_form_that_another_site_submits_changes_nothing(
    browser: Browser, console: Console
) -> None:
    await console.sign_in(browser, "/sources/sailing")
    token = await browser.page.locator("[name=form]").first.get_attribute("value")
    inputs = f'<input name="form" value="{token}"><input name="action" value="forget">'
    form = f'<form method="post" action="{console.url}/sources/sailing">{inputs}<button>A prize'
    async with serving(lambda _: page(form)) as evil:
        await browser.open(evil.replace("127.0.0.1", "localhost"))
        await browser.press("A prize")
        await browser.page.wait_for_url(f"{console.url}/**")
    assert await browser.open(f"{console.url}/sources/sailing") == 200


@pytest.mark.parametrize("width", [320, 390, 1024, 1280])
async def test_no_page_scrolls_sideways(browsers: Browsers, console: Console, width: int) -> None:
    async with browsers.window(width=width) as browser:
        await console.sign_in(browser)
        for path in (*PAGES, "/?q=wide+passage", "/sources/wide", "/sources/hostile"):
            await browser.open(console.url + path)
            for summary in await browser.page.locator("summary").all():
                await summary.click()
            scroll_width = await browser.page.evaluate("document.documentElement.scrollWidth")
            assert (path, scroll_width) == (path, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(
    browsers: Browsers, console: Console, axe: str, scheme: Literal["light", "dark"]
) -> None:
    violations: dict[str, Any] = {}
    async with browsers.window(scheme=scheme) as browser:
        await browser.open(console.url)
        violations["sign in"] = await find_violations(browser.page, axe)
        await console.sign_in(browser)
        for path in PAGES:
            await browser.open(console.url + path)
            for summary in await browser.page.locator("summary").all():
                await summary.click()
            violations[path] = await find_violations(browser.page, axe)
        await browser.open(f"{console.url}/?q=bread")
        await browser.page.locator(".hit [data-hit]").first.click()
        await browser.page.locator(".passage.open").wait_for()
        violations["opened passage"] = await find_violations(browser.page, axe)
    assert {path: problems for path, problems in violations.items() if problems} == {}
