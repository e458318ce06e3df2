"""Makes the pictures of the console in `docs/pictures`, from a running Carrel with the sample.

Install the development tools (`make check` does), run `make run`, and in another window
`.venv/bin/python -m tests.support.console_pictures [URL [FOLDER]]`. The script forgets a source and
restores it. Until the next clustering, the map lacks the source's passages, so delete `.carrel`
before you make pictures again.

The page of one's account needs a sign-in. For its pictures alone, run `make run ARGS=--sign-in`,
make a key with `carrel keys create --user USER --name laptop`, and set the environment variable
CARREL_KEY to the key.
"""

import asyncio
import base64
import os
import sys
from itertools import product
from pathlib import Path
from typing import Final, Literal, NamedTuple

from playwright.async_api import Page

from infra.build.discovery import ROOT
from tests.support.browser import Browser, Browsers, launch_chromium

KEY: Final = os.environ.get("CARREL_KEY", "")
"""The key to sign in with. Without a key, the script photographs the pages without an account."""
DEFAULTS: Final = ("http://localhost:8080", str(ROOT / "docs" / "pictures"))
"""The default URL of Carrel, and the default folder of the pictures."""
_PAGES: Final = {
    "home": "/",
    "results": "/?q=why+do+flaky+tests+hurt%3F",
    "sources": "/sources",
    "map": "/map",
    "add": "/add",
}
"""The path of each page, by the name of its picture."""


class Look(NamedTuple):
    """A way to show a page; the size of the window is in CSS pixels."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


_LOOKS: Final = (
    Look("light", "light", width=1280, height=880),
    Look("dark", "dark", width=1280, height=880),
    Look("phone", "light", width=390, height=844),
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
            steps = [_photograph_account] if KEY else [_photograph_pages, _photograph_forgotten]
            for photograph, look in product(steps, _LOOKS):
                async with browsers.open_window(
                    scheme=look.scheme, width=look.width, height=look.height
                ) as browser:
                    pictures = await photograph(browser, url)
                for name, png in pictures.items():
                    webp = await _convert_to_webp(converter.page, png)
                    path = folder / f"console-{name}-{look.name}.webp"
                    await asyncio.to_thread(_write, path, webp)
        if not KEY:
            async with (
                browsers.open_window(width=1280, height=720) as converter,
                browsers.open_window(scheme="light", width=800, height=830) as browser,
            ):
                png = await _photograph_transcript(converter.page, browser, url)
                webp = await _convert_to_webp(converter.page, png)
                await asyncio.to_thread(_write, folder / "transcript.webp", webp)
        await chromium.close()


async def _photograph_pages(browser: Browser, url: str) -> dict[str, bytes]:
    pictures = {}
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


async def _photograph_transcript(converter: Page, browser: Browser, url: str) -> bytes:
    """Return a picture of the conversation in `transcript.html` and the passage that it quotes."""
    await browser.open(f"{url}/?q=automatic+retry+of+flaky+tests")
    await browser.page.locator("[data-hit]", has_text="Patient Test Suite").first.click()
    await browser.page.wait_for_url("**/sources/**")
    console = base64.b64encode(await browser.page.screenshot()).decode()
    await converter.goto((ROOT / "docs" / "pictures" / "transcript.html").as_uri())
    await converter.evaluate(
        "(png) => { const image = document.getElementById('console');"
        " image.src = `data:image/png;base64,${png}`; return image.decode(); }",
        console,
    )
    return await converter.screenshot()


async def _photograph_account(browser: Browser, url: str) -> dict[str, bytes]:
    await browser.open(f"{url}/you")
    await browser.fill("Your access key", KEY)
    await browser.press("Sign in")
    await browser.page.get_by_text("Make a key", exact=True).click()
    return {"you": await browser.page.screenshot()}


async def _photograph_forgotten(browser: Browser, url: str) -> dict[str, bytes]:
    await browser.open(f"{url}/sources?order=title")
    await browser.page.locator("[data-hit]").first.click()
    await browser.page.get_by_text("Forget", exact=True).click()
    await browser.press("Forget the source")
    await browser.page.get_by_role("link", name="All that is forgotten").click()
    await browser.page.get_by_role("heading", name="Forgotten").wait_for()
    picture = await browser.page.screenshot()
    await browser.page.get_by_role("button", name="Restore").first.click()
    await browser.wait_for_text("Restored")
    return {"forgotten": picture}


async def _convert_to_webp(page: Page, png: bytes) -> bytes:
    return base64.b64decode(await page.evaluate(_TO_WEBP, base64.b64encode(png).decode()))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    _arguments = sys.argv[1:]
    _url, _folder = [*_arguments, *DEFAULTS[len(_arguments) :]]
    asyncio.run(make_pictures(_url, Path(_folder)))
