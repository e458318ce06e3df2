"""The app of `search_kb` shows hits and passages in a chat, in headless Chromium.

An MCP App is a page that a chat client, its host, shows in a frame for the result of a tool. Here,
the host is a page with the official client and the official bridge to the frame.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Role
from tests.support.access import CLOUD_SETTINGS, build_key_maker, run_on_access_store
from tests.support.accessibility import find_violations
from tests.support.app_host import AppHost, serve_host
from tests.support.browser import Browser, Browsers
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.hostile_sources import HOSTILE, PAYLOADS, WIDE
from tests.support.knowledge import BAKING, SAILING, fill_project
from tests.support.mcp_wire import make_call, post

pytestmark = [pytest.mark.slow]

QUESTION = {"query": "how do I keep a starter alive?"}
STARTER = "A sourdough starter needs flour and water every day, or it starves."
# The host's style variables, with colours that the app itself does not use.
HOST_COLORS = {
    "--color-background-primary": "rgb(1, 2, 3)",
    "--color-background-secondary": "rgb(4, 5, 6)",
    "--color-text-primary": "rgb(250, 251, 252)",
    "--color-text-secondary": "rgb(200, 201, 202)",
    "--color-border-primary": "rgb(100, 101, 102)",
}


@dataclass(frozen=True)
class Chat:
    """A gateway that requires sign-in, and the origin of the page that talks to it.

    Attributes:
        origin: The page's origin.
        endpoint: The gateway's MCP endpoint.
        owner_key: The key of the owner.
        reader_key: The key of a user who may only read.
    """

    origin: str
    endpoint: str
    owner_key: str
    reader_key: str

    async def open(
        self, browser: Browser, *, key: str | None = None, mode: str = "auto"
    ) -> AppHost:
        """Open the page and connect its client, by default as the owner."""
        host = await AppHost.open(browser, self.origin)
        await host.connect(self.endpoint, key or self.owner_key, mode)
        return host

    def call_tool(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool as the owner, from outside the page."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {self.owner_key}"}
        response = post(self.endpoint, make_call(tool, arguments), headers)
        result: dict[str, Any] = response.json()["result"]["structuredContent"]
        return result


@pytest.fixture(scope="module")
async def chat(local_embedder: LocalEmbedder, log: Path) -> AsyncIterator[Chat]:
    """A gateway with hostile and harmless sources, which allows the page's origin."""
    project = f"apps-{uuid.uuid4().hex[:16]}"
    await fill_project(project, local_embedder, BAKING, SAILING, WIDE, HOSTILE)
    make_key = build_key_maker(project)
    owner_key, reader_key = await asyncio.to_thread(lambda: (make_key("ada"), make_key("rob")))
    run_on_access_store(project, lambda store: store.accounts.set_role("ada", Role.OWNER))
    async with serve_host() as origin:
        environment = {"GOOGLE_CLOUD_PROJECT": project, "ALLOWED_ORIGINS": json.dumps([origin])}
        with run_gateway(INLINE_MAIN, {**CLOUD_SETTINGS, **environment}, log) as gateway:
            yield Chat(origin, gateway.endpoint, owner_key, reader_key)


def list_app_requests(browser: Browser, chat: Chat) -> list[str]:
    """Return the addresses that the app requested, without those of the host and its client."""
    other_addresses = (f"{chat.origin}/", chat.endpoint, "about:srcdoc")
    return [url for url in browser.requests if not url.startswith(other_addresses)]


@pytest.mark.parametrize(("mode", "error_count"), [("auto", 0), ("legacy", 1)])
async def test_a_user_reads_a_hit_saves_a_note_and_opens_the_origin(
    browser: Browser, chat: Chat, mode: str, error_count: int
) -> None:
    """A legacy client also tries to open a stream, which the gateway rejects with status 405."""
    host = await chat.open(browser, mode=mode)
    resource = await host.show_app("search_kb", QUESTION)
    assert len(resource["text"].encode()) < 150_000
    hit = host.app.locator(".hit").first
    assert STARTER in await hit.inner_text()
    assert "Ida Loaf" in await hit.inner_text()
    assert "Starters, page 12" in await hit.inner_text()
    assert await hit.locator("mark").all_inner_texts() == ["starter"]
    assert "Found by meaning and words" in await hit.inner_text()
    await hit.get_by_role("button", name="Bread at Home").click()
    article = host.app.get_by_role("article")
    assert STARTER in await article.inner_text()
    related = host.app.get_by_role("complementary")
    assert "Bake the bread" in await related.inner_text()

    await article.get_by_role("button", name="Open at the origin").click()
    await article.get_by_role("button", name="Discuss in the chat").click()
    thought = f"Feed it on Sundays, {mode}."
    await article.get_by_text("Add a note").click()
    await article.get_by_label("Your thought about this passage").fill(thought)
    await article.get_by_role("button", name="Save the note").click()
    await host.app.get_by_text("Saved. The note can be read by").wait_for()
    assert thought in await related.inner_text()
    [chunk_id] = set(await find_chunk_ids(host))
    passage = await asyncio.to_thread(chat.call_tool, "get_chunk", chunk_id=chunk_id)
    assert [note["text"] for note in passage["notes"]] == [thought]
    await host.app.get_by_role("button", name="Undo").click()
    await host.app.get_by_text("The note is gone.").wait_for()
    passage = await asyncio.to_thread(chat.call_tool, "get_chunk", chunk_id=chunk_id)
    assert passage["notes"] == []

    assert await host.read_variable("opened") == ["https://example.com/bread"]
    [message] = await host.read_variable("sent")
    assert chunk_id in message["content"][0]["text"]
    assert "Bread at Home" not in message["content"][0]["text"]
    await host.call_function("tearDown")
    assert set(await host.assert_messages_match_the_schemas()) >= {
        *("ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed"),
        *("ui/notifications/tool-input", "ui/notifications/tool-result", "tools/call"),
        *("ui/open-link", "ui/message", "ui/resource-teardown"),
    }
    assert list_app_requests(browser, chat) == []
    assert len(browser.console_errors) == error_count
    assert all("405" in error for error in browser.console_errors)


async def find_chunk_ids(host: AppHost) -> list[str]:
    """Return the ids of the passages that the app read."""
    messages = [record["message"] for record in await host.read_variable("messages")]
    calls = [message["params"] for message in messages if message.get("method") == "tools/call"]
    return [params["arguments"]["chunk_id"] for params in calls if params["name"] == "get_chunk"]


async def test_the_keyboard_opens_a_passage_and_returns(browser: Browser, chat: Chat) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", QUESTION)
    titles = host.app.locator(".hit button")
    await titles.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        await browser.page.keyboard.press(key)
    back = host.app.get_by_role("button", name="Back")
    await host.app.get_by_role("article").wait_for()
    assert await back.evaluate("button => button === document.activeElement")

    # A related passage opens above the first one, and Escape returns from each.
    await host.app.locator("aside button").first.click()
    await host.app.get_by_role("article").wait_for()
    await browser.page.keyboard.press("Escape")
    await host.app.get_by_role("article").wait_for()
    await browser.page.keyboard.press("Escape")
    assert await titles.nth(1).evaluate("title => title === document.activeElement")


async def test_a_button_loads_more_passages(browser: Browser, chat: Chat) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", {"filters": {"tags": ["food"]}, "limit": 1})
    assert await host.app.locator(".hit").count() == 1
    await host.app.get_by_role("button", name="More passages").click()
    second = host.app.locator(".hit").nth(1)
    await second.wait_for()
    assert await second.locator("button").evaluate("title => title === document.activeElement")


async def test_a_refusal_of_the_host_is_explained(browser: Browser, chat: Chat) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", QUESTION)
    await host.refuse_requests("The user said no.")
    await host.app.locator(".hit button").first.click()
    await host.app.get_by_text("Reading this did not work: The user said no.").wait_for()

    await host.refuse_requests(None)  # accept requests again
    await host.app.get_by_role("button", name="Try again").click()
    article = host.app.get_by_role("article")
    await article.get_by_text("Add a note").click()
    thought = article.get_by_label("Your thought about this passage")
    await thought.fill("Not lost.")
    await host.refuse_requests("The user said no.")
    for button, message in {
        "Open at the origin": "Opening https://example.com/bread did not work: The user said no.",
        "Discuss in the chat": "Sending the message did not work: It was refused.",
        "Save the note": "Saving the note did not work: The user said no.",
    }.items():
        await article.get_by_role("button", name=button).click()
        await article.get_by_text(message).wait_for()
    assert await thought.input_value() == "Not lost."
    assert browser.console_errors == []


async def test_a_reader_gets_a_reason_when_saving_a_note_is_refused(
    browser: Browser, chat: Chat
) -> None:
    host = await chat.open(browser, key=chat.reader_key)
    await host.show_app("search_kb", QUESTION)
    await host.app.locator(".hit button").first.click()
    await host.app.get_by_text("Add a note").click()
    await host.app.get_by_label("Your thought about this passage").fill("Mine.")
    await host.app.get_by_role("button", name="Save the note").click()
    await host.app.get_by_text("save_note needs the role editor").wait_for()


async def test_a_failed_or_cancelled_search_says_so(browser: Browser, chat: Chat) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", {"query": "x", "filters": {"period": "never"}})
    await host.app.get_by_text("The search did not work:").wait_for()
    await host.show_app(
        "search_kb", QUESTION, result={"content": [{"type": "text", "text": "Prose."}]}
    )
    await host.app.get_by_text("The search did not work: Prose.").wait_for()
    await host.show_app("search_kb", QUESTION, cancelled="The user stopped it.")
    await host.app.get_by_text("The search was cancelled: The user stopped it.").wait_for()


async def post_to_app(browser: Browser, method: str, **params: Any) -> None:
    """Send a notification of the host to the app, past the official bridge."""
    message = {"jsonrpc": "2.0", "method": f"ui/notifications/{method}", "params": params}
    script = "(message) => document.querySelector('iframe').contentWindow.postMessage(message, '*')"
    await browser.page.evaluate(script, message)


async def test_late_notifications_do_not_replace_the_hits(browser: Browser, chat: Chat) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", QUESTION)
    status = host.app.locator("section > [role=status]")
    await host.app.locator(".hit").first.wait_for()
    status_before = await status.inner_text()
    await post_to_app(browser, "tool-input", arguments=QUESTION)
    await post_to_app(browser, "tool-cancelled", reason="Too late.")
    await post_to_app(browser, "host-context-changed", theme="dark")
    await host.app.locator("html[style*=dark]").wait_for()
    assert await status.inner_text() == status_before


@pytest.mark.parametrize("matches", [True, False])
async def test_an_empty_result_says_that_nothing_was_found(
    browser: Browser, chat: Chat, *, matches: bool
) -> None:
    host = await chat.open(browser)
    content = {"query": "x", "matches": matches, "results": []}
    result = {"content": [], "structuredContent": content}
    await host.show_app("search_kb", {"query": "x"}, result=result)
    await host.app.get_by_text("No passages were found.").wait_for()


async def test_a_result_of_an_unknown_call_can_load_more_passages(
    browser: Browser, chat: Chat
) -> None:
    host = await chat.open(browser)
    hits = await asyncio.to_thread(chat.call_tool, "search_kb", **QUESTION)
    content = hits | {"next_cursor": "c"}
    result = {"content": [], "structuredContent": content, "_meta": {"carrel/app": QUESTION}}
    await host.show_app("search_kb", None, result=result)
    await host.app.get_by_role("button", name="More passages").click()
    await host.app.get_by_text("Loading more did not work").wait_for()
    messages = [record["message"] for record in await host.read_variable("messages")]
    [page] = [message["params"] for message in messages if message.get("method") == "tools/call"]
    assert page["arguments"] == {**QUESTION, "cursor": "c"}


async def test_code_in_a_source_does_not_run(browser: Browser, chat: Chat) -> None:
    dialogs: list[str] = []
    browser.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    host = await chat.open(browser)
    await host.show_app("search_kb", {"query": "a hostile passage", "limit": 50})
    count = await host.app.locator(".hit").count()
    assert count >= len(PAYLOADS)
    for index in range(count):
        await host.app.locator(".hit button").nth(index).click()
        article = host.app.get_by_role("article")
        await article.wait_for()
        for button in await article.get_by_role("button", name="Open at the origin").all():
            await button.click()
        await host.app.get_by_role("button", name="Back").click()
    elements = host.app.locator("script, a, img, iframe, svg, base, meta[http-equiv]")
    assert await elements.count() == 2  # the script of the app, and the policy of the host
    opened = await host.read_variable("opened")
    assert opened
    assert {url.partition(":")[0] for url in opened} <= {"http", "https"}
    assert list_app_requests(browser, chat) == []
    assert dialogs == []
    assert browser.console_errors == []


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_code_in_a_result_does_not_run(browser: Browser, chat: Chat, payload: str) -> None:
    """Each text of a hit is a payload, as if an attacker controlled the tool."""
    names = ("chunk_id", "source_id", "title", "author", "snippet", "chapter", "date", "page")
    hit: dict[str, Any] = dict.fromkeys(names, payload)
    hit |= {"tags": [payload], "matched_terms": [payload], "found_by": [payload]}
    hit |= {"cluster": payload}
    texts = {"query": payload, "message": payload, "next_cursor": payload}
    content = {"matches": True, "results": [hit], "clusters": {payload: payload}, **texts}
    result = {"content": [], "structuredContent": content}
    host = await chat.open(browser)
    await host.show_app("search_kb", {"query": payload}, result=result)
    await host.app.locator(".hit button").click()
    await host.app.get_by_text("Reading this did not work").wait_for()
    assert await host.app.locator("script").count() == 1
    assert list_app_requests(browser, chat) == []
    assert browser.console_errors == []


async def read_color(host: AppHost, name: str) -> str:
    """Return a computed colour of the app's page, such as its `backgroundColor`."""
    color: str = await host.app.locator("body").evaluate(
        "(body, name) => getComputedStyle(body)[name]", name
    )
    return color


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_app_uses_the_theme_of_the_host(
    browsers: Browsers, chat: Chat, scheme: Literal["light", "dark"]
) -> None:
    """The theme of the operating system counts only where the host names none."""
    light, dark = "rgb(244, 242, 236)", "rgb(18, 22, 20)"
    async with browsers.open_window(scheme=scheme) as browser:
        host = await chat.open(browser)
        await host.show_app("search_kb", QUESTION, hostContext={"theme": "dark"})
        assert await read_color(host, "backgroundColor") == dark
        await host.call_function("setContext", {"theme": "light"})
        await host.app.locator("html[style*=light]").wait_for()
        assert await read_color(host, "backgroundColor") == light
        styles = {"variables": {**HOST_COLORS, "--font-sans": "Georgia"}}
        await host.call_function("setContext", {"theme": "light", "styles": styles})
        await host.app.locator("body[style*=Georgia]").wait_for()
        assert await read_color(host, "backgroundColor") == "rgb(1, 2, 3)"
        assert await read_color(host, "color") == "rgb(250, 251, 252)"


@pytest.mark.parametrize("width", [280, 390, 1024])
async def test_the_app_fits_its_frame(browsers: Browsers, chat: Chat, width: int) -> None:
    async with browsers.open_window(width=width) as browser:
        host = await chat.open(browser)
        await host.show_app("search_kb", {"query": "a wide passage or a hostile one", "limit": 50})
        await assert_fits(host)
        await host.app.get_by_role("button", name=WIDE.title).first.click()
        await host.app.get_by_role("article").wait_for()
        await host.app.get_by_text("Add a note").click()
        await assert_fits(host)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_no_violations(
    browser: Browser, chat: Chat, axe: str, theme: Literal["light", "dark"]
) -> None:
    host = await chat.open(browser)
    await host.show_app("search_kb", QUESTION, hostContext={"theme": theme})
    await host.app.locator(".hit").first.wait_for()
    assert await find_violations(browser.page.frames[1], axe) == []
    await host.app.locator(".hit button").first.click()
    await host.app.get_by_role("article").wait_for()
    await host.app.get_by_text("Add a note").click()
    assert await find_violations(browser.page.frames[1], axe) == []


async def assert_fits(host: AppHost) -> None:
    """Wait until the frame is as high as the page of the app; assert that it is as wide."""
    page = host.app.locator("html")
    await host.browser.page.wait_for_function(
        "() => { const frame = document.querySelector('iframe');"
        " return messages.at(-1).message.params?.height === frame.clientHeight }"
    )
    excess = await page.evaluate("(page) => page.scrollWidth - window.innerWidth")
    assert excess <= 0
