"""Make the pictures of the console in `docs/pictures`, from a running Carrel with the sample.

Run `make run`, and in another window `.venv/bin/python -m tests.support.console_pictures`. Another
address and another folder may follow.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from infra.build.discovery import ROOT
from tests.support.browser import Browsers, launch_chromium

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.browser import Browser

DEFAULTS: Final = ("http://localhost:8080", str(ROOT / "docs" / "pictures"))
"""The address of Carrel, and the folder of the pictures."""
_PAGES: Final = {"home": "/", "results": "/?q=why+do+flaky+tests+hurt%3F", "clusters": "/clusters"}
_LOOKS: Final[Sequence[tuple[str, Literal["light", "dark"], int, int]]] = (
    ("light", "light", 1280, 880),
    ("dark", "dark", 1280, 880),
    ("phone", "light", 390, 844),
)


async def make_pictures(url: str, folder: Path) -> None:
    """Make a picture of each page in each look."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await launch_chromium(playwright)
        for look, scheme, width, height in _LOOKS:
            browsers = Browsers(chromium)
            async with browsers.window(scheme=scheme, width=width, height=height) as browser:
                await _make_look(browser, url, folder, look)
        await chromium.close()


async def _make_look(browser: Browser, url: str, folder: Path, look: str) -> None:
    for name, path in _PAGES.items():
        await browser.open(url + path)
        await browser.page.screenshot(path=folder / f"console-{name}-{look}.png")
        if name == "results":
            await browser.page.locator("[data-hit]").nth(1).click()
            await browser.page.wait_for_url("**/sources/**")
            await browser.page.screenshot(path=folder / f"console-reader-{look}.png")


if __name__ == "__main__":
    _given = sys.argv[1:]
    _url, _folder = [*_given, *DEFAULTS[len(_given) :]]
    asyncio.run(make_pictures(_url, Path(_folder)))
