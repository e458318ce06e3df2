"""Users search, read, edit and manage keys in the console, in headless Chromium.

The console is the gateway's website. It works without scripts. Its page of a source is the reader.
"""

import asyncio
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Role
from tests.support.access import CLOUD_SETTINGS, build_key_maker, run_on_access_store
from tests.support.accessibility import find_violations
from tests.support.browser import Browser, Browsers
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.hostile_sources import HOSTILE, MARKDOWN, PAYLOADS, WIDE
from tests.support.knowledge import BAKING, SAILING, fill_project
from tests.support.web_sites import make_site, serve_app

pytestmark = [pytest.mark.slow]

SCROLL_WIDTH = "document.documentElement.scrollWidth"
"""A script that returns the width of the page, which exceeds the window's if the page scrolls."""
IS_IN_VIEW = """element => {
  const {top, bottom} = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}"""
"""A script that returns whether an element is visible without scrolling."""
PATHS = (
    "/",
    "/?q=bread",
    "/?tag=food",
    "/sources",
    "/sources/baking",
    "/sources/markdown",
    "/map",
    "/you",
    "/forgotten",
    "/save",
    "/add",
    "/connect",
    "/sources?q=bread",
    "/nothing",
    "/sources/unknown",
)


@dataclass(frozen=True)
class Console:
    """A gateway that requires sign-in.

    Attributes:
        url: Its URL.
        key: The key of the user who signs in, by default an owner.
        reader_key: The key of a reader.
        project: The Google Cloud project of its database.
    """

    url: str
    key: str
    reader_key: str
    project: str

    async def sign_in(self, browser: Browser, path: str = "/") -> None:
        """Sign in on the way to a page."""
        await browser.open(self.url + path)
        await browser.fill("Your access key", self.key)
        await browser.press("Sign in")
        await browser.wait_for_url(self.url + path)

    async def make_key(self, browser: Browser, name: str) -> str:
        """Make a key on the page of the account, and return its text, which is shown."""
        await browser.open(f"{self.url}/you")
        await browser.page.get_by_text("Make a key", exact=True).click()
        await browser.fill("Name", name)
        await browser.press("Continue")
        await browser.fill("Your access key", self.key)
        await browser.press("Make the key")
        await browser.wait_for_text("It is not shown again.")
        return await browser.page.locator(".secret").inner_text()


@pytest.fixture(scope="module")
def console(local_embedder: LocalEmbedder, log: Path) -> Iterator[Console]:
    """A gateway with hostile and harmless sources."""
    project = f"console-{uuid.uuid4().hex[:16]}"
    asyncio.run(fill_project(project, local_embedder, BAKING, SAILING, WIDE, HOSTILE, MARKDOWN))
    make_key = build_key_maker(project)
    key, reader_key = make_key("ada"), make_key("rex")
    run_on_access_store(project, lambda store: store.accounts.set_role("ada", Role.OWNER))
    with run_gateway(
        INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log
    ) as gateway:
        yield Console(gateway.url, key, reader_key, project)


async def test_a_user_searches_reads_and_edits_without_scripts(
    browsers: Browsers, console: Console
) -> None:
    async with browsers.open_window(scripts=False) as browser:
        await console.sign_in(browser)
        await browser.fill("Search what you have read", "how do I keep a starter alive?")
        await browser.press("Search")
        await browser.page.locator(".hit [data-hit]").first.click()
        await browser.wait_for_text("A sourdough starter needs flour and water every day")

        await browser.page.get_by_text("Edit", exact=True).click()
        await browser.fill("Tags, one on each line; a comma is part of a tag", "food\nsourdough")
        await browser.press("Save")
        await browser.wait_for_text("Changed the tags")
        assert await browser.page.locator(".source .tag").all_inner_texts() == ["food", "sourdough"]

        await browser.page.get_by_text("Add a note", exact=True).click()
        await browser.fill("Your thought about this passage", "Feed it on Sundays.")
        await browser.press("Save the note")
        await browser.wait_for_text("Saved. The note can be read by")
        notice = browser.page.get_by_role("status")
        assert await notice.evaluate(IS_IN_VIEW)
        assert "Feed it on Sundays." in await browser.page.locator(".open .note").inner_text()

        await browser.page.get_by_text("Forget this passage", exact=True).click()
        await browser.press("Forget the passage")
        await browser.wait_for_text("Forgot a passage of")
        assert await browser.page.locator(".passage").count() == 2
        await browser.press("Undo")
        await browser.wait_for_text("Restored a passage of")
        assert await browser.page.locator(".passage").count() == 3

        await browser.page.locator(".note a").click()
        await browser.page.get_by_text("Edit", exact=True).click()
        await browser.fill("Text", "Feed it on Mondays.")
        await browser.press("Save")
        await browser.wait_for_text("Changed the title and text.")

        await browser.page.get_by_text("Forget", exact=True).click()
        await browser.press("Forget the source")
        await browser.page.get_by_role("link", name="All that is forgotten").click()
        await browser.press("Restore Feed it on Mondays.")
        await browser.wait_for_text("Restored “Feed it on Mondays.”")
        assert await browser.page.locator(".row").count() == 0

        await browser.press("Sign out")
        await browser.wait_for_text("Your access key")
        assert browser.console_errors == []


async def test_a_passages_tag_is_corrected_in_four_clicks(
    browsers: Browsers, console: Console
) -> None:
    async with browsers.open_window(scripts=False) as browser:
        await console.sign_in(browser)
        await browser.fill("Search what you have read", "how long do I knead the dough?")
        await browser.press("Search")
        await browser.page.locator(".hit [data-hit]").first.click()
        await browser.page.get_by_text("Edit tags", exact=True).click()
        await browser.fill(
            "Tags of this passage, one on each line; a comma is part of a tag", "kneading\nhands"
        )
        await browser.press("Save the tags")
        await browser.wait_for_text("Changed the tags")
        tags = browser.page.locator(".open .tag")
        assert await tags.all_inner_texts() == ["kneading", "hands"]

        await browser.page.get_by_text("Edit tags", exact=True).click()
        await browser.wait_for_text("which says: dough")
        await browser.press("Undo")
        await browser.wait_for_text("Changed the tags")
        assert await tags.all_inner_texts() == ["dough"]
        await browser.page.get_by_role("link", name="Edit tags of passage").last.click()
        label = "Tags of this passage, one on each line; a comma is part of a tag"
        assert await browser.page.get_by_label(label).is_visible()


async def test_a_reader_sees_no_forms_that_change_a_source(
    browser: Browser, console: Console
) -> None:
    await replace(console, key=console.reader_key).sign_in(browser, "/?q=bread")
    await browser.page.locator(".hit [data-hit]").first.click()
    await browser.page.locator(".passage.open").wait_for()
    assert await browser.page.locator("main form, main summary").count() == 0
    await browser.open(f"{console.url}/forgotten")
    await browser.wait_for_text("Your role or your sign-in does not allow this.")
    await browser.page.get_by_role("link", name="Back to search").click()
    await browser.wait_for_text("Search what you have read")


async def test_after_a_conflict_the_message_and_the_form_are_in_view(
    browsers: Browsers, console: Console
) -> None:
    async with browsers.open_window(height=640) as browser:
        await console.sign_in(browser, "/sources/sailing")
        await browser.page.get_by_role("link", name="Related").last.click()
        await browser.page.get_by_text("Edit", exact=True).click()
        other_tab = Browser(await browser.page.context.new_page())
        await other_tab.open(browser.page.url)
        await other_tab.page.get_by_text("Edit", exact=True).click()
        for tab, title in ((other_tab, "Sailing at night"), (browser, "Sailing by day")):
            await tab.fill("Title", title)
            await tab.press("Save")

        await browser.wait_for_text("Somebody changed this since you opened the page")
        assert await browser.page.get_by_role("alert").evaluate(IS_IN_VIEW)
        title_field = browser.page.get_by_label("Title")
        assert await title_field.evaluate(IS_IN_VIEW)
        assert await title_field.input_value() == "Sailing by day"


async def test_the_keyboard_leads_from_the_search_box_to_a_passage(
    browser: Browser, console: Console
) -> None:
    await console.sign_in(browser)
    assert await browser.page.evaluate("document.activeElement.id") == "q"
    await browser.page.keyboard.type("bread")
    await browser.page.keyboard.press("Enter")
    await browser.wait_for_url(f"{console.url}/?q=bread")

    keyboard = browser.page.keyboard
    await keyboard.press("/")  # returns to the search box
    assert await browser.page.evaluate("document.activeElement.id") == "q"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown"):
        await keyboard.press(key)
    second = browser.page.locator(".hit [data-hit]").nth(1)
    assert await second.evaluate("link => link === document.activeElement")
    await keyboard.press("Enter")
    await browser.wait_for_url(f"{console.url}/sources/")
    assert browser.console_errors == []


async def test_a_passage_is_corrected_copied_and_left_for_the_next(
    browser: Browser, console: Console
) -> None:
    await browser.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await console.sign_in(browser, "/?q=bread")
    await browser.page.locator(".hit [data-hit]").first.click()
    passage = browser.page.locator(".passage.open")
    await passage.get_by_role("button", name="as a quotation").click()
    await passage.get_by_text("Copied").wait_for()
    quotation = await browser.page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"“.+”\nIda Loaf, Bread at Home\b.*", quotation, re.DOTALL)

    await browser.page.get_by_text("Add a note", exact=True).click()
    await browser.fill("Your thought about this passage", "It is rye.")
    await browser.page.get_by_label("It corrects the passage").check()
    await browser.press("Save the note")
    await browser.wait_for_text("Saved. The note can be read by")
    assert "Correction" in await passage.locator(".note").inner_text()

    before = await passage.get_attribute("aria-label")
    await passage.get_by_role("link", name=re.compile("Next|Previous")).first.click()
    await browser.page.wait_for_url(re.compile("passage="))
    await browser.page.wait_for_load_state()
    assert await passage.get_attribute("aria-label") != before
    await passage.get_by_role("link", name="Edit the source").click()
    assert await browser.page.get_by_label("Title").is_visible()


async def test_going_back_does_not_show_a_new_key_again(browser: Browser, console: Console) -> None:
    await console.sign_in(browser, "/you")
    await browser.page.get_by_text("Make a key", exact=True).click()
    await browser.fill("Name", "Backup script")
    await browser.page.get_by_label("It may").select_option(
        "search, read, and save notes and tasks"
    )
    await browser.page.get_by_label("It is valid").select_option("a year")
    await browser.press("Continue")
    await browser.wait_for_text("Make the key “Backup script”")
    await browser.fill("Your access key", console.key)
    await browser.press("Make the key")
    await browser.wait_for_text("It is not shown again.")
    key = await browser.page.locator(".secret").inner_text()
    assert key.startswith("carrel_")

    await browser.page.get_by_role("link", name="I have copied it").click()
    await browser.wait_for_text("Backup script")
    assert key not in await browser.page.content()
    await browser.page.go_back()
    await browser.wait_for_text("Carrel")
    assert key not in await browser.page.content()

    await browser.open(f"{console.url}/you")
    row = browser.page.locator(".row").filter(has_text="Backup script")
    await row.get_by_role("button", name="Revoke").click()
    await browser.wait_for_text("Revoked the key “Backup script”")


async def test_dates_follow_the_locale(browsers: Browsers, console: Console) -> None:
    async with browsers.open_window(locale="de-DE") as browser:
        await console.sign_in(browser, "/sources/baking")
        [day, *_] = await browser.page.locator("header time").all_inner_texts()
    assert re.fullmatch(r"\d\d\.\d\d\.\d{4}", day)


async def test_code_in_a_source_does_not_run(browser: Browser, console: Console) -> None:
    dialogs: list[str] = []
    browser.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await console.sign_in(browser)
    paths = ["/", "/?q=hostile+passage", "/sources", "/sources/hostile"]
    paths.append("/sources/markdown")
    paths += [f"/?q={quote(payload)}&tag={quote(payload)}" for payload in PAYLOADS]
    for path in paths:
        await browser.open(console.url + path)
        for summary in await browser.page.locator("summary").all():
            await summary.click()
        assert (await browser.page.title()).endswith(" · Carrel")
    assert {url for url in browser.requests if not url.startswith(console.url)} == set()
    assert dialogs == []
    assert browser.console_errors == []
    for source_id in ("hostile", "markdown"):
        await browser.open(f"{console.url}/sources/{source_id}")
        links = await browser.page.locator("a").evaluate_all("links => links.map(l => l.protocol)")
        assert set(links) <= {"http:", "https:", "mailto:"}


async def test_other_sites_cannot_frame_a_page(browser: Browser, console: Console) -> None:
    await console.sign_in(browser)
    frame = f'<iframe src="{console.url}/sources/baking"></iframe>'
    async with serve_app(lambda _: make_site(frame)) as evil:
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
    async with serve_app(lambda _: make_site(form)) as evil:
        await browser.open(evil.replace("127.0.0.1", "localhost"))
        await browser.press("A prize")
        await browser.page.wait_for_url(f"{console.url}/**")
    assert await browser.open(f"{console.url}/sources/sailing") == 200


@pytest.mark.parametrize("width", [320, 360, 1024, 1280])
async def test_no_page_scrolls_sideways(browsers: Browsers, console: Console, width: int) -> None:
    async with browsers.open_window(width=width) as browser:
        await console.sign_in(browser)
        for path in (*PATHS, "/?q=wide+passage", "/sources/wide", "/sources/hostile"):
            await browser.open(console.url + path)
            for summary in await browser.page.locator("summary").all():
                await summary.click()
            assert await browser.page.evaluate(SCROLL_WIDTH) == width, path
        await console.make_key(browser, f"Width {width}")
        assert await browser.page.evaluate(SCROLL_WIDTH) == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_violations(
    browsers: Browsers, console: Console, axe: str, scheme: Literal["light", "dark"]
) -> None:
    violations: dict[str, Any] = {}
    async with browsers.open_window(scheme=scheme) as browser:
        await browser.open(console.url)
        violations["sign in"] = await find_violations(browser.page, axe)
        await console.sign_in(browser)
        for path in PATHS:
            await browser.open(console.url + path)
            for summary in await browser.page.locator("summary").all():
                await summary.click()
            violations[path] = await find_violations(browser.page, axe)
        await browser.open(f"{console.url}/?q=bread")
        await browser.page.locator(".hit [data-hit]").first.click()
        await browser.page.locator(".passage.open").wait_for()
        violations["opened passage"] = await find_violations(browser.page, axe)
        await console.make_key(browser, "Axe")
        violations["new key"] = await find_violations(browser.page, axe)
    assert {path: problems for path, problems in violations.items() if problems} == {}
