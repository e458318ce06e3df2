"""The app of `list_clusters` shows a map of the passages in a chat, in headless Chromium.

The host of the app is a page with the official client.
"""

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

from shared.ai.embedding import Embedder
from tests.support.accessibility import find_violations
from tests.support.app_host import AppHost, serve_host
from tests.support.browser import Browser, Browsers
from tests.support.drawn_map import fill_with_map
from tests.support.gateway_process import INLINE_MAIN, run_gateway

pytestmark = [pytest.mark.slow]

READ_BACKGROUND: Final = """async canvas => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return [...canvas.getContext("2d").getImageData(1, 1, 1, 1).data].slice(0, 3);
}"""
"""A script that returns the background of the map as red, green and blue, after the next frame."""


@dataclass(frozen=True)
class Chat:
    """A gateway where nobody signs in, and the origin of the page that talks to it."""

    origin: str
    endpoint: str

    async def show_map(
        self, browser: Browser, limit: int = 20, theme: Literal["light", "dark"] = "light"
    ) -> AppHost:
        """Show the map in the page."""
        host = await AppHost.open(browser, self.origin)
        await host.connect(self.endpoint)
        resource = await host.show_app(
            "list_clusters", {"limit": limit}, hostContext={"theme": theme, "locale": "en"}
        )
        assert len(resource["text"].encode()) < 150_000
        return host


@pytest.fixture(scope="module")
async def chat(local_embedder: Embedder, log: Path) -> AsyncIterator[Chat]:
    """A gateway with the map of passages about a few themes, one of them hostile."""
    project = f"map-app-{uuid.uuid4().hex[:16]}"
    await fill_with_map(project, local_embedder)
    async with serve_host() as origin:
        environment = {"GOOGLE_CLOUD_PROJECT": project, "ALLOWED_ORIGINS": json.dumps([origin])}
        with run_gateway(INLINE_MAIN, environment, log) as gateway:
            yield Chat(origin, gateway.endpoint)


async def test_a_point_and_a_cluster_lead_to_passages(browser: Browser, chat: Chat) -> None:
    host = await chat.show_map(browser)
    await host.app.get_by_text("The closer in meaning").wait_for()
    element = host.app.locator(".map")
    # Zoom in on a passage, and move it into the middle of the map.
    chunk_id = await element.evaluate(
        """element => {
          const { map } = element;
          const cluster = document.querySelector("[data-cluster]").dataset.cluster;
          const [chunkId] = map.passagesOf(cluster);
          const box = element.querySelector("canvas").getBoundingClientRect();
          const { x, y } = map.positionOf(chunkId);
          map.view.zoomBy(60, { x: x - box.x, y: y - box.y, animated: false });
          return chunkId;
        }"""
    )
    await element.evaluate(
        """(element, chunkId) => {
          const box = element.querySelector("canvas").getBoundingClientRect();
          const { x, y } = element.map.positionOf(chunkId);
          element.map.view.panBy(x - box.x - box.width / 2, y - box.y - box.height / 2, false);
        }""",
        chunk_id,
    )

    await element.locator("canvas").hover()
    await element.locator(".map-card p").wait_for()
    text = await element.locator(".map-card p").inner_text()
    await element.locator("canvas").click()
    article = host.app.get_by_role("article")
    assert text[:40] in await article.inner_text()

    await host.app.get_by_role("button", name="Back").click()
    cluster = host.app.locator(".clusters .row").first
    name = await cluster.get_by_role("button").inner_text()
    assert await cluster.locator(".swatch").evaluate("dot => dot.style.background.length") > 0
    await cluster.get_by_role("button").click()
    await host.app.get_by_role("heading", name=name).wait_for()
    await host.app.locator(".rows:not(.clusters) button").first.wait_for()

    methods = await host.assert_messages_match_the_schemas()
    assert methods.count("tools/call") >= 3
    assert browser.console_errors == []


async def test_the_map_has_the_colors_of_the_theme(browser: Browser, chat: Chat) -> None:
    host = await chat.show_map(browser, theme="dark")
    await host.app.get_by_text("The closer in meaning").wait_for()
    canvas = host.app.locator("canvas")
    assert await canvas.evaluate(READ_BACKGROUND) == [0x1B, 0x21, 0x1E]
    await host.call_function("setContext", {"theme": "light"})
    await host.app.locator("html[style*=light]").wait_for()
    assert await canvas.evaluate(READ_BACKGROUND) == [255, 255, 255]


async def test_a_button_loads_more_clusters(browser: Browser, chat: Chat) -> None:
    host = await chat.show_map(browser, limit=1)
    await host.app.get_by_role("button", name="More clusters").click()
    second = host.app.locator(".clusters .row").nth(1)
    assert await second.locator(".swatch").evaluate("dot => dot.style.background.length") > 0


async def test_the_map_reports_a_refusal_of_the_host(browser: Browser, chat: Chat) -> None:
    host = await AppHost.open(browser, chat.origin)
    await host.connect(chat.endpoint)
    await host.refuse_requests("The user said no.")
    await host.show_app("list_clusters", {})
    await host.app.get_by_text("Loading the map did not work: The user said no.").wait_for()
    assert await host.app.locator(".clusters .row").count() > 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [280, 1024])
async def test_the_map_fits_its_frame_and_axe_finds_no_violations(
    browsers: Browsers, chat: Chat, axe: str, theme: Literal["light", "dark"], width: int
) -> None:
    async with browsers.open_window(width=width) as browser:
        host = await chat.show_map(browser, theme=theme)
        await host.app.get_by_text("The closer in meaning").wait_for()
        frame = browser.page.frames[1]
        assert await find_violations(frame, axe) == []
        excess = "document.documentElement.scrollWidth - window.innerWidth"
        assert await frame.evaluate(excess) <= 0
