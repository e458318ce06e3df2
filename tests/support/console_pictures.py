"""Make the pictures of the console in `docs/pictures`, from a running Carrel with the sample.

Run `make run`, and in another window `.venv/bin/python -m tests.support.console_pictures`. Another
address and another folder may follow. It forgets a source, and restores it.

On a laptop nobody has an account. For the pictures of that page alone, run `make run
ARGS=--sign-in`, make a key with `carrel keys create --user USER --name laptop`, and give it to this
script in the environment variable CARREL_KEY.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from infra.build.discovery import ROOT
from tests.support.browser import Browsers, launch_chromium

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.async_api import Page

    from tests.support.browser import Browser

KEY: Final = os.environ.get("CARREL_KEY")
"""The key to sign in with, if people sign in there."""
DEFAULTS: Final = ("http://localhost:8080", str(ROOT / "docs" / "pictures"))
"""The address of Carrel, and the folder of the pictures."""
_PAGES: Final = {"home": "/", "results": "/?q=why+do+flaky+tests+hurt%3F", "map": "/map"}
_LOOKS: Final[Sequence[tuple[str, Literal["light", "dark"], int, int]]] = (
    ("light", "light", 1280, 880),
    ("dark", "dark", 1280, 880),
    ("phone", "light", 390, 844),
)
_TO_WEBP: Final = """async (png) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${png}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.8).split(",")[1];
}"""
"""A script that turns a picture from PNG into WebP, which is a third of its size."""


async def make_pictures(url: str, folder: Path) -> None:
    """Make a picture of each page in each look."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await launch_chromium(playwright)
        browsers = Browsers(chromium)
        async with browsers.open_window() as converter:
            for look, scheme, width, height in _LOOKS:
                async with browsers.open_window(
                    scheme=scheme, width=width, height=height
                ) as browser:
                    pictures = await _photograph_pages(browser, url)
                for name, png in pictures.items():
                    webp = await _convert(converter.page, png)
                    await asyncio.to_thread(_write, folder / f"console-{name}-{look}.webp", webp)
        await chromium.close()


async def _photograph_pages(browser: Browser, url: str) -> dict[str, bytes]:
    if KEY:
        return {"you": await _photograph_account(browser, url, KEY)}
    pictures = {"forgotten": await _photograph_forgotten(browser, url)}
    for name, path in _PAGES.items():
        await browser.open(url + path)
        if name == "map":
            await browser.wait_for_text("The closer in meaning, the closer on the map.")
        pictures[name] = await browser.page.screenshot()
    await browser.open(url + _PAGES["results"])
    await browser.page.locator("[data-hit]").nth(1).click()
    await browser.page.wait_for_url("**/sources/**")
    pictures["reader"] = await browser.page.screenshot()
    return pictures


async def _photograph_account(browser: Browser, url: str, key: str) -> bytes:
    await browser.open(f"{url}/you")
    await browser.fill("Your access key", key)
    await browser.press("Sign in")
    await browser.page.get_by_text("Make a key", exact=True).click()
    return await browser.page.screenshot()


async def _photograph_forgotten(browser: Browser, url: str) -> bytes:
    await browser.open(f"{url}/sources?order=title")
    await browser.page.locator("[data-hit]").first.click()
    await browser.page.get_by_text("Forget", exact=True).click()
    await browser.press("Forget the source")
    await browser.page.get_by_role("link", name="All that is forgotten").click()
    await browser.page.get_by_role("heading", name="Forgotten").wait_for()
    picture = await browser.page.screenshot()
    await browser.page.get_by_role("button", name="Restore").first.click()
    await browser.wait_for_text("Restored")
    return picture


async def _convert(page: Page, png: bytes) -> bytes:
    return base64.b64decode(await page.evaluate(_TO_WEBP, base64.b64encode(png).decode()))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    _given = sys.argv[1:]
    _url, _folder = [*_given, *DEFAULTS[len(_given) :]]
    asyncio.run(make_pictures(_url, Path(_folder)))
