"""The map's script, alone in headless Chromium, handles clicks, drags and the edge of the map."""

from typing import Any, Final, Literal

import pytest
from jinja2 import Environment, FileSystemLoader

from functions.gateway.apps.pages import MAP_SCRIPTS
from infra.build.discovery import ROOT
from tests.support.browser import Browser, Browsers

pytestmark = [pytest.mark.slow]

CONSOLE: Final = ROOT / "functions" / "gateway" / "console"
CLUSTERS: Final = [
    {"cluster_id": "west", "name": "West", "size": 1, "x": 0, "y": 0},
    {"cluster_id": "east", "name": "East", "size": 1, "x": 1_000, "y": 1_000},
]
DATA: Final = {
    "clusters": CLUSTERS,
    "chunk_ids": ["west", "lonely", "east"],
    "x": [0, 500, 1_000],
    "y": [0, 500, 1_000],
    "cluster": [0, -1, 1],
}
"""Two clusters of one point each, in the corners, and a point without a cluster in the middle."""
UNNAMED: Final = {
    "clusters": [],
    "chunk_ids": ["first", "last"],
    "x": [0, 1_000],
    "y": [0, 1_000],
    "cluster": [-1, -1],
}
"""Two points in opposite corners, and no names."""
START_SCRIPT: Final = """(data) => {
  window.opened = [];
  const host = {
    describe: async () => ({ title: "", text: "" }),
    open: (chunkId) => opened.push(chunkId),
    openCluster() {},
  };
  window.map = new PassageMap(document.querySelector(".map"), data, host);
}"""
"""A script that starts a map with some data, and records clicked passages in `opened`."""
NEXT_FRAME: Final = """new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))"""
"""A promise that is fulfilled after some frames, when the map is drawn."""


async def start(browser: Browser, data: dict[str, Any] = DATA) -> None:
    """Show a page with nothing but a map."""
    templates = Environment(loader=FileSystemLoader(CONSOLE / "templates"), autoescape=True)
    element = templates.get_template("map_parts.html").make_module().passage_map()  # type: ignore[attr-defined]
    await browser.page.set_content(f"<!doctype html><body>{element}</body>")
    await browser.page.add_style_tag(path=CONSOLE / "static" / "map.css")
    for script in MAP_SCRIPTS:
        await browser.page.add_script_tag(path=CONSOLE / "static" / script)
    await browser.page.evaluate(START_SCRIPT, data)
    await browser.page.evaluate(NEXT_FRAME)


async def read_view(browser: Browser) -> dict[str, float]:
    view: dict[str, float] = await browser.page.evaluate("map.view.position")
    return view


async def find_position(browser: Browser, chunk_id: str) -> tuple[float, float]:
    """Return where a passage is drawn, in pixels of the window."""
    position = await browser.page.evaluate("(id) => map.positionOf(id)", chunk_id)
    return position["x"], position["y"]


async def test_an_unknown_cluster_has_no_passages(browser: Browser) -> None:
    await start(browser)
    passages = "['west', 'deleted'].map((id) => map.passagesOf(id))"
    assert await browser.page.evaluate(passages) == [["west"], []]


async def test_only_the_main_button_drags(browser: Browser) -> None:
    await start(browser)
    before = await read_view(browser)
    mouse = browser.page.mouse

    async def drag(button: Literal["left", "middle", "right"]) -> None:
        await mouse.move(300, 300)
        await mouse.down(button=button)
        await mouse.move(360, 330, steps=4)
        await mouse.up(button=button)

    await drag("right")
    assert await read_view(browser) == before
    await drag("middle")
    assert await read_view(browser) == before
    await drag("left")
    assert await read_view(browser) != before


async def test_a_trembling_click_is_not_a_drag(browser: Browser) -> None:
    """Only the distance from where the button was pressed counts, not the length of the path."""
    await start(browser)
    before = await read_view(browser)
    x, y = await find_position(browser, "lonely")
    mouse = browser.page.mouse
    await mouse.move(x, y)
    await mouse.down()
    for _ in range(6):
        await mouse.move(x + 2, y)
        await mouse.move(x, y)
    await mouse.up()
    assert await read_view(browser) == before
    assert await browser.page.evaluate("opened") == ["lonely"]


async def test_a_touch_may_move_further_than_a_mouse_without_dragging(browsers: Browsers) -> None:
    async with browsers.open_window(width=390, height=844) as browser:
        await start(browser)
        has_moved = await browser.page.evaluate(
            """() => {
              const canvas = document.querySelector("canvas");
              canvas.setPointerCapture = () => {};
              const before = map.view.x;
              const send = (type, clientX, pointerType) => canvas.dispatchEvent(new PointerEvent(
                type, { pointerId: 7, pointerType, clientX, clientY: 200, button: 0 }));
              return ["touch", "mouse"].map((pointerType) => {
                send("pointerdown", 100, pointerType);
                send("pointermove", 108, pointerType);
                send("pointerup", 108, pointerType);
                return map.view.x !== before;
              });
            }"""
        )
        assert has_moved == [False, True]  # by touch, by mouse


async def test_a_drag_during_an_animation_does_not_jump_to_its_end(browser: Browser) -> None:
    await start(browser)
    zoom = await browser.page.evaluate(
        """() => {
          map.view.zoomBy(8);
          map.view.panBy(1, 1, false);
          return map.view.zoom;
        }"""
    )
    assert zoom < 2  # far from 8, because the animation has hardly begun


async def test_two_zoom_steps_during_an_animation_add_up(browser: Browser) -> None:
    await start(browser)
    await browser.page.evaluate("() => { map.view.zoomBy(2); map.view.zoomBy(2); }")
    await browser.page.wait_for_function("map.view.zoom === 4")


async def test_a_click_anywhere_on_a_large_dot_hits_it(browser: Browser) -> None:
    await start(browser)
    await browser.page.evaluate("() => { map.view.position = { x: 500, y: 500, zoom: 40 }; }")
    await browser.page.evaluate("map.light(['lonely'], { ranked: true })")
    await browser.page.evaluate(NEXT_FRAME)
    x, y = await find_position(browser, "lonely")
    await browser.page.mouse.click(x + 15, y)  # near the edge of the dot
    assert await browser.page.evaluate("opened") == ["lonely"]


async def test_the_picture_follows_the_browsers_zoom(browser: Browser) -> None:
    """With twice the device pixels on half the width, the canvas has as many pixels as before."""
    await start(browser, UNNAMED)
    devtools = await browser.page.context.new_cdp_session(browser.page)
    canvas = browser.page.locator("canvas")
    for ratio, width in ((1, 800), (2, 400)):
        metrics = {"deviceScaleFactor": ratio, "width": width, "height": 700, "mobile": False}
        await devtools.send("Emulation.setDeviceMetricsOverride", metrics)
        style = f"width: {width}px; height: {600 // ratio}px"
        await canvas.evaluate("(canvas, style) => { canvas.style = style; }", style)
        await browser.page.evaluate(NEXT_FRAME)
        assert await canvas.evaluate("canvas => [devicePixelRatio, canvas.width]") == [ratio, 800]
        is_drawn = await canvas.evaluate(
            """canvas => {
              const box = canvas.getBoundingClientRect();
              const { x, y } = map.positionOf("first");
              const pixel = (left, top) => canvas.getContext("2d").getImageData(
                Math.round(left * devicePixelRatio), Math.round(top * devicePixelRatio), 1, 1);
              return pixel(x - box.x, y - box.y).data.join() !== pixel(1, 1).data.join();
            }"""
        )
        assert is_drawn


async def test_no_dot_is_drawn_beyond_the_margin_of_the_picture(browser: Browser) -> None:
    """A dot beyond the margin would overwrite pixels of other rows.

    The script wraps the functions that draw, and moves the first point out of the map step by step.
    """
    await start(browser, UNNAMED)
    excess = await browser.page.evaluate(
        """async () => {
          const halves = new WeakMap();
          const { makeStamps, stamp } = DotRaster.prototype;
          DotRaster.prototype.makeStamps = function (radius, rim, ...rest) {
            const stamps = makeStamps.call(this, radius, rim, ...rest);
            for (const made of stamps) halves.set(made, Math.ceil(radius + rim));
            return stamps;
          };
          let edge = Infinity; // of the stamps of a frame
          DotRaster.prototype.stamp = function (made, x, y) {
            edge = Math.min(edge, x - halves.get(made), y - halves.get(made));
            stamp.call(this, made, x, y);
          };
          let margin = 0;
          const { putImageData } = CanvasRenderingContext2D.prototype;
          CanvasRenderingContext2D.prototype.putImageData = function (image, x, y) {
            margin = -x;
            putImageData.call(this, image, x, y);
          };
          map.light(["first"], { ranked: true });
          map.view.position = { x: 0, y: 0, zoom: 80 };
          const { width, height } = document.querySelector("canvas").getBoundingClientRect();
          let excess = -Infinity;
          for (let outside = 0; outside < 24; outside++) {
            map.view.position = { x: 0, y: 0, zoom: 80 };
            map.view.panBy(width / 2 + outside, height / 2 + outside, false);
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            excess = Math.max(excess, -edge - margin);
          }
          return excess;
        }"""
    )
    assert excess <= 0


async def test_no_name_covers_a_point_on_a_phone(browsers: Browsers) -> None:
    """The names of both clusters would cover points in the middle of them."""
    offsets = range(0, 500, 50)
    spread = [(x, y) for x in offsets for y in offsets]
    data = {
        "clusters": [
            {"cluster_id": name, "name": f"{name} of a hundred", "size": 100, "x": x, "y": 225}
            for name, x in (("west", 225), ("east", 1_225))
        ],
        "chunk_ids": [f"{start}-{index}" for start in (0, 1_000) for index in range(100)],
        "x": [start + x for start in (0, 1_000) for x, _ in spread],
        "y": [y for _ in range(2) for _, y in spread],
        "cluster": [*[0] * 100, *[1] * 100],
    }
    async with browsers.open_window(width=390, height=844) as browser:
        await start(browser, data)
        names, covered = await browser.page.evaluate(
            f"""async (chunkIds) => {{
              const {{ listVisible }} = ClusterNames.prototype;
              let names = [];
              ClusterNames.prototype.listVisible = function (distance) {{
                return (names = listVisible.call(this, distance));
              }};
              map.refreshColours();
              await {NEXT_FRAME};
              const box = document.querySelector("canvas").getBoundingClientRect();
              const isCovered = (id) => {{
                const {{ x, y }} = map.positionOf(id);
                return names.some(({{ left, top, width, height }}) =>
                  x - box.x > left && x - box.x < left + width &&
                  y - box.y > top && y - box.y < top + height);
              }};
              return [names.length, chunkIds.filter(isCovered)];
            }}""",
            data["chunk_ids"],
        )
    assert (names, covered) == (2, [])
