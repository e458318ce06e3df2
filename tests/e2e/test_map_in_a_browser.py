"""The console's map shows each passage as a point and names the clusters, in Chromium."""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from shared.ai.embedding import Embedder
from tests.support.accessibility import find_violations
from tests.support.browser import Browser, Browsers
from tests.support.drawn_map import fill_with_map
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.hostile_sources import PAYLOADS
from tests.support.themed_passages import THEMES

pytestmark = [pytest.mark.slow]


@dataclass(frozen=True)
class MapSite:
    """A gateway that serves a map, where nobody signs in.

    Attributes:
        url: Its URL.
        points: The data that it serves to the map's script: parallel lists with the `chunk_ids`,
            the coordinates `x` and `y`, and each point's index in `clusters`.
    """

    url: str
    points: dict[str, Any]

    async def open(self, browser: Browser, query: str = "") -> None:
        """Open the map, and wait until it is drawn."""
        await browser.open(f"{self.url}/map{query}")
        await browser.page.locator(".map").wait_for()
        await wait_for_frame(browser)

    async def zoom_to(self, browser: Browser, position: dict[str, int]) -> tuple[float, float]:
        """Show a position of the data in the middle of the map; return where that is in pixels."""
        await browser.page.evaluate(
            "position => { document.querySelector('.map').map.view.position = position }",
            {**position, "zoom": 40},
        )
        await wait_for_frame(browser)
        box = await browser.page.locator("canvas").bounding_box()
        assert box
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    async def zoom_to_passage(self, browser: Browser, chunk_id: str) -> tuple[float, float]:
        """Show a passage in the middle of the map; return where that is in pixels."""
        index = self.points["chunk_ids"].index(chunk_id)
        position = {"x": self.points["x"][index], "y": self.points["y"][index]}
        return await self.zoom_to(browser, position)

    def find_passage(self, source_id: str) -> str:
        """Return the id of a passage of a source."""
        chunk_ids: list[str] = self.points["chunk_ids"]
        return next(chunk_id for chunk_id in chunk_ids if chunk_id.startswith(source_id))


@pytest.fixture(scope="module")
def site(local_embedder: Embedder, log: Path) -> Iterator[MapSite]:
    """A gateway with the map of passages about a few themes, one of them hostile."""
    project = f"map-{uuid.uuid4().hex[:16]}"
    asyncio.run(fill_with_map(project, local_embedder))
    with run_gateway(INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project}, log) as gateway:
        points = httpx2.get(f"{gateway.url}/map/points").json()
        yield MapSite(gateway.url, points)


async def wait_for_frame(browser: Browser) -> None:
    """Wait until the map is drawn with all earlier changes."""
    await browser.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


async def wait_until(browser: Browser, condition: str) -> None:
    """Wait for a condition of `map`. The page's policy forbids Playwright's own wait."""
    await browser.page.evaluate(
        f"""async () => {{
          const map = document.querySelector(".map").map;
          while (!({condition})) await new Promise((done) => requestAnimationFrame(done));
        }}"""
    )


async def evaluate_map(browser: Browser, expression: str) -> Any:
    """Evaluate an expression with the map as `map`."""
    return await browser.page.evaluate(
        f"() => {{ const map = document.querySelector('.map').map; return {expression}; }}"
    )


async def count_colours(browser: Browser, site: MapSite) -> dict[str, int]:
    """Count the colours at the positions of the points, by their names in the style sheet.

    The names are `0` to `9` for clusters, `none` for points without one, and `dim` for points that
    a search does not highlight.
    """
    counts: dict[str, int] = await browser.page.evaluate(
        """(chunkIds) => {
          const canvas = document.querySelector(".map canvas");
          const map = document.querySelector(".map").map;
          const paint = new OffscreenCanvas(1, 1).getContext("2d");
          const names = {};
          for (const name of ["paper", "dim", "none", ...Array(10).keys()]) {
            paint.fillStyle = getComputedStyle(canvas).getPropertyValue(`--map-${name}`).trim();
            paint.fillRect(0, 0, 1, 1);
            names[paint.getImageData(0, 0, 1, 1).data.join()] = String(name);
          }
          const box = canvas.getBoundingClientRect();
          const scale = canvas.width / box.width;
          const counts = {};
          for (const chunkId of chunkIds) {
            const { x, y } = map.positionOf(chunkId);
            const position = [Math.round((x - box.x) * scale), Math.round((y - box.y) * scale)];
            const pixel = canvas.getContext("2d").getImageData(...position, 1, 1).data.join();
            const name = names[pixel] ?? "other";
            counts[name] = (counts[name] ?? 0) + 1;
          }
          return counts;
        }""",
        site.points["chunk_ids"],
    )
    return counts


async def test_points_have_the_colours_of_their_clusters(browser: Browser, site: MapSite) -> None:
    await site.open(browser)
    counts = await count_colours(browser, site)
    colours = [name for name in counts if name.isdigit()]
    assert len(colours) == len(site.points["clusters"])
    assert sum(counts[name] for name in colours) > len(site.points["chunk_ids"]) / 2
    assert "dim" not in counts
    names = {cluster["name"] for cluster in site.points["clusters"]}
    assert await evaluate_map(browser, "map.visibleNames.length") > 0
    assert set(await browser.page.locator("[data-cluster] a").all_inner_texts()) == names
    assert browser.console_errors == []


async def test_a_cluster_keeps_its_colour_over_runs(browser: Browser, site: MapSite) -> None:
    """Another run may order clusters differently, move them, and change their sizes."""
    await site.open(browser)
    colours = await read_cluster_colours(browser, site.points["clusters"])
    later = [
        cluster | {"x": -cluster["x"], "size": 100 - cluster["size"]}
        for cluster in reversed(site.points["clusters"])
    ]
    assert len(set(colours.values())) == len(later)
    assert await read_cluster_colours(browser, later) == colours


async def read_cluster_colours(browser: Browser, clusters: list[dict[str, Any]]) -> dict[str, int]:
    """Return the colour of each cluster, by its id, on a map without points."""
    colours: dict[str, int] = await browser.page.evaluate(
        """(clusters) => {
          const points = new MapPoints({ chunk_ids: [], x: [], y: [], cluster: [], clusters });
          return Object.fromEntries(
            clusters.map(({ cluster_id }, index) => [cluster_id, points.clusterColours[index]]),
          );
        }""",
        clusters,
    )
    return colours


async def test_hovering_over_a_point_shows_the_start_of_its_passage(
    browser: Browser, site: MapSite
) -> None:
    await site.open(browser)
    chunk_id = site.find_passage("bread")
    await browser.page.mouse.move(*await site.zoom_to_passage(browser, chunk_id))
    card = browser.page.locator(".map-card")
    await card.wait_for()
    text = await card.inner_text()
    assert text.startswith("On bread")
    assert any(word in text for word in THEMES["bread"].split())
    await browser.page.mouse.move(1, 1)
    await card.wait_for(state="hidden")


async def test_a_click_opens_a_passage_and_back_restores_the_view(
    browser: Browser, site: MapSite
) -> None:
    await site.open(browser)
    chunk_id = site.find_passage("chess")
    await browser.page.mouse.click(*await site.zoom_to_passage(browser, chunk_id))
    await browser.wait_for_url(f"{site.url}/sources/chess?passage={chunk_id}")
    await browser.page.go_back()
    await browser.page.locator(".map").wait_for()
    assert await evaluate_map(browser, "map.view.zoom") == 40


async def test_a_click_on_a_name_opens_the_cluster(browser: Browser, site: MapSite) -> None:
    await site.open(browser)
    cluster = site.points["clusters"][0]
    position = {"x": cluster["x"], "y": cluster["y"]}
    await browser.page.mouse.click(*await site.zoom_to(browser, position))
    await browser.wait_for_url(f"{site.url}/clusters/{cluster['cluster_id']}")


async def test_the_mouse_drags_and_zooms_the_map(browser: Browser, site: MapSite) -> None:
    await site.open(browser)
    mouse = browser.page.mouse
    position = f"map.positionOf('{site.points['chunk_ids'][0]}')"
    before = await evaluate_map(browser, position)
    await mouse.move(400, 400)
    await mouse.down()
    await mouse.move(440, 430)
    await mouse.up()
    after = await evaluate_map(browser, position)
    assert after["x"] - before["x"] == pytest.approx(40, abs=1)
    assert after["y"] - before["y"] == pytest.approx(30, abs=1)

    # The wheel zooms, and the point under the mouse stays there.
    await mouse.move(after["x"], after["y"])
    await mouse.wheel(0, -300)
    await wait_until(browser, "map.view.zoom > 1.3")
    assert await evaluate_map(browser, position) == pytest.approx(after, abs=1)

    await browser.press("Zoom out")
    await browser.press("Show everything")
    await wait_until(browser, "map.view.zoom === 1")
    assert browser.page.url == f"{site.url}/map"


async def test_keys_move_and_zoom_the_map(browser: Browser, site: MapSite) -> None:
    await browser.page.emulate_media(reduced_motion="reduce")
    await site.open(browser)
    await browser.page.locator("canvas").focus()

    async def press_key(key: str) -> dict[str, float]:
        """Press a key; return the view after it."""
        await browser.page.keyboard.press(key)
        view: dict[str, float] = await evaluate_map(browser, "map.view.position")
        return view

    zoomed_in = await press_key("+")
    assert zoomed_in["zoom"] == pytest.approx(1.6)
    moved_right = await press_key("Shift+ArrowRight")
    assert moved_right["x"] > zoomed_in["x"]
    moved_down = await press_key("Shift+ArrowDown")
    assert moved_down["y"] > moved_right["y"]
    zoomed_out = await press_key("-")
    assert zoomed_out["zoom"] == pytest.approx(1)
    assert await press_key("0") == {"x": zoomed_in["x"], "y": zoomed_in["y"], "zoom": 1}


async def test_arrow_keys_lead_to_passages_and_enter_opens_one(
    browser: Browser, site: MapSite
) -> None:
    await site.open(browser)
    await browser.page.locator("canvas").focus()
    titles = set()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        await browser.page.keyboard.press(key)
        await browser.page.locator(".map-card.pinned").wait_for()
        titles.add(await browser.page.locator(".map-card").inner_text())
    assert len(titles) > 1
    assert await browser.page.locator("[aria-live] .map-card").is_visible()
    await browser.page.keyboard.press("Escape")
    await browser.page.keyboard.press("Enter")  # opens nothing, since no passage is chosen
    await browser.page.keyboard.press("ArrowLeft")
    await browser.page.keyboard.press("Enter")
    await browser.wait_for_url(f"{site.url}/sources/")
    assert browser.console_errors == []


async def test_a_search_highlights_its_passages(browser: Browser, site: MapSite) -> None:
    await site.open(browser)
    await browser.fill("Search what you have read", "queen bees in a hive make honey")
    await browser.press("Search")
    await browser.wait_for_text("stand out")
    highlighted_count = await evaluate_map(browser, "map.litCount")
    assert 0 < highlighted_count < len(site.points["chunk_ids"])
    assert f"{highlighted_count} passage" in await browser.page.locator("#map-status").inner_text()
    await wait_for_frame(browser)
    assert (await count_colours(browser, site))["dim"] > 0
    assert browser.page.url.endswith("/map?q=queen+bees+in+a+hive+make+honey")

    await browser.page.get_by_role("link", name="Show them as a list").click()
    await browser.wait_for_url(f"{site.url}/?q=queen")
    await browser.page.get_by_role("link", name="Show on the map").click()
    await browser.wait_for_text("stand out")
    assert await evaluate_map(browser, "map.litCount") == highlighted_count

    await browser.fill("Search what you have read", "")
    await browser.wait_for_text("The closer in meaning")
    assert await evaluate_map(browser, "map.litCount") == 0


async def test_pages_of_clusters_and_sources_link_to_their_points(
    browser: Browser, site: MapSite
) -> None:
    await browser.open(f"{site.url}/clusters/{site.points['clusters'][0]['cluster_id']}")
    await browser.page.get_by_role("link", name="Show on the map").click()
    await browser.wait_for_text("stand out")
    assert await evaluate_map(browser, "map.litCount") == site.points["cluster"].count(0)

    await browser.open(f"{site.url}/sources/boats")
    await browser.page.get_by_role("link", name="Show on the map").click()
    await browser.wait_for_text("stand out")
    boats = [chunk_id for chunk_id in site.points["chunk_ids"] if chunk_id.startswith("boats")]
    assert await evaluate_map(browser, "map.litCount") == len(boats)


async def test_hovering_over_a_row_of_the_list_highlights_its_cluster(
    browser: Browser, site: MapSite
) -> None:
    await site.open(browser)
    link = browser.page.locator("[data-cluster] a").first
    await link.hover()
    await wait_for_frame(browser)
    assert (await count_colours(browser, site))["dim"] > 0
    await browser.page.mouse.move(1, 1)
    await wait_for_frame(browser)
    assert "dim" not in await count_colours(browser, site)
    await link.focus()
    await wait_for_frame(browser)
    assert (await count_colours(browser, site))["dim"] > 0


async def test_a_tap_on_a_phone_shows_a_passage_before_it_opens(
    browsers: Browsers, site: MapSite
) -> None:
    async with browsers.open_window(width=390, height=844) as browser:
        await site.open(browser)
        assert await browser.page.evaluate("document.documentElement.scrollWidth") == 390
        chunk_id = site.find_passage("bees")
        await browser.page.touchscreen.tap(*await site.zoom_to_passage(browser, chunk_id))
        await browser.press("Open the passage")
        await browser.wait_for_url(f"{site.url}/sources/bees?passage={chunk_id}")


async def test_code_in_titles_and_texts_on_the_map_does_not_run(
    browser: Browser, site: MapSite
) -> None:
    dialogs: list[str] = []
    browser.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await site.open(browser)
    chunk_id = site.find_passage("hostile")
    await browser.page.mouse.move(*await site.zoom_to_passage(browser, chunk_id))
    await browser.page.locator(".map-card").wait_for()
    assert PAYLOADS[1] in await browser.page.locator(".map-card strong").inner_text()
    assert PAYLOADS[0] in await browser.page.locator(".map-card p").inner_text()
    assert await browser.page.locator(".map-card img, .map-card script").count() == 0
    assert dialogs == []
    assert browser.console_errors == []
    assert {url for url in browser.requests if not url.startswith(site.url)} == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_violations_on_the_map(
    browsers: Browsers, site: MapSite, axe: str, scheme: Literal["light", "dark"]
) -> None:
    async with browsers.open_window(scheme=scheme) as browser:
        await site.open(browser, "?q=bread")
        await browser.wait_for_text("stand out")
        chunk_id = site.find_passage("bread")
        await browser.page.mouse.move(*await site.zoom_to_passage(browser, chunk_id))
        await browser.page.locator(".map-card").wait_for()
        assert await find_violations(browser.page, axe) == []


async def test_the_page_lists_clusters_without_scripts(browsers: Browsers, site: MapSite) -> None:
    async with browsers.open_window(scripts=False) as browser:
        await browser.open(f"{site.url}/map")
        await browser.page.locator("noscript .notice").wait_for()
        assert not await browser.page.locator("canvas").is_visible()
        links = browser.page.locator("[data-cluster] a")
        assert await links.count() == len(site.points["clusters"])


async def test_an_unreachable_gateway_is_reported(browser: Browser, site: MapSite) -> None:
    await browser.page.route("**/map/points", lambda route: route.abort())
    await browser.open(f"{site.url}/map")
    await browser.wait_for_text("Carrel cannot be reached.")
    assert await browser.page.locator("[data-cluster]").count() > 0


async def test_an_empty_base_and_a_disabled_tool_are_reported(browser: Browser, log: Path) -> None:
    environment = {"GOOGLE_CLOUD_PROJECT": f"map-{uuid.uuid4().hex[:16]}"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        await browser.open(f"{gateway.url}/map")
        await browser.wait_for_text("There is no map yet.")
        assert not await browser.page.locator("canvas").is_visible()
    environment |= {"DISABLED_TOOLS": '["get_map"]'}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        await browser.open(f"{gateway.url}/map")
        await browser.wait_for_text("Your role or your sign-in does not allow this.")
