"""Measures how smoothly the map of the console moves, in headless Chromium without a GPU.

Usage: python -m benchmarks.map_frames [POINTS]

The points are generated around the centres of clusters. Each frame redraws all of them. The time is
that from frame to frame: at least 16.7 ms, since the browser draws 60 a second.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader

from benchmarks.measurement import print_table
from functions.gateway.apps.pages import MAP_SCRIPTS
from infra.build.discovery import ROOT
from tests.support.browser import launch_chromium

if TYPE_CHECKING:
    from playwright.async_api import Page

POINT_COUNT: Final = 20_000
COLUMN_COUNT: Final = 12
"""Clusters are in this many columns and rows."""
FRAME_COUNT: Final = 200
_CONSOLE: Final = ROOT / "functions" / "gateway" / "console"
_MOVEMENTS: Final = {
    "drag": "map.view.panBy(9 * Math.sin(frame / 9), 9 * Math.cos(frame / 7), false)",
    "zoom": "map.view.zoomBy(frame % 60 < 30 ? 1.05 : 1 / 1.05, { animated: false })",
}
_MEASURE: Final = """async ([data, frames, movement]) => {
  const element = document.querySelector(".map");
  const host = { describe: async () => ({ title: "", text: "" }), open() {}, openCluster() {} };
  const map = element.map ?? new PassageMap(element, data, host);
  const move = new Function("map", "frame", movement);
  const times = [];
  for (let frame = 0; frame <= frames; frame++) {
    move(map, frame);
    times.push(await new Promise(requestAnimationFrame));
  }
  return times.slice(1).map((time, index) => time - times[index]);
}"""


def make_map(points: int) -> dict[str, Any]:
    """Make a map with a grid of clusters of the same size."""
    generator = random.Random(7)  # noqa: S311 - no secret
    side = 10_000 / COLUMN_COUNT
    centres = [
        (round((column + 0.5) * side), round((row + 0.5) * side))
        for row in range(COLUMN_COUNT)
        for column in range(COLUMN_COUNT)
    ]
    clusters = [index % len(centres) for index in range(points)]

    def scatter(axis: int) -> list[int]:
        offsets = (round(generator.gauss(0, side / 5)) for _ in clusters)
        return [
            min(max(centres[cluster][axis] + offset, 0), 10_000)
            for cluster, offset in zip(clusters, offsets, strict=True)
        ]

    return {
        "clusters": [
            {
                "cluster_id": f"c{index}",
                "name": f"Cluster number {index}",
                "size": 1,
                "x": x,
                "y": y,
            }
            for index, (x, y) in enumerate(centres)
        ],
        "chunk_ids": [f"chunk-{index}" for index in range(points)],
        "x": scatter(0),
        "y": scatter(1),
        "cluster": clusters,
    }


async def open_map_page(page: Page) -> None:
    """Open a page with nothing but the map."""
    templates = Environment(loader=FileSystemLoader(_CONSOLE / "templates"), autoescape=True)
    element = templates.get_template("map_parts.html").make_module().passage_map()  # type: ignore[attr-defined]
    await page.set_content(f"<!doctype html><body>{element}</body>")
    await page.add_style_tag(path=_CONSOLE / "static" / "map.css")
    for script in MAP_SCRIPTS:
        await page.add_script_tag(path=_CONSOLE / "static" / script)


async def measure(points: int) -> None:
    """Print the median and the 95th percentile of the time from frame to frame."""
    from playwright.async_api import async_playwright

    rows = []
    async with async_playwright() as playwright:
        chromium = await launch_chromium(playwright)
        for ratio in (1, 2):
            page = await chromium.new_page(
                viewport={"width": 800, "height": 880}, device_scale_factor=ratio
            )
            await open_map_page(page)
            for name, movement in _MOVEMENTS.items():
                arguments = [make_map(points), FRAME_COUNT, movement]
                times = sorted(await page.evaluate(_MEASURE, arguments))
                median, slow = times[len(times) // 2], times[int(len(times) * 0.95)]
                rows.append([f"{name}, {ratio}x", f"{median:.1f}", f"{slow:.1f}"])
            await page.close()
        await chromium.close()
    print_table(f"{points:,} points, milliseconds a frame", ["", "median", "95 %"], rows)


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else POINT_COUNT))
