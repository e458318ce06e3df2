"""A person opens an empty Carrel, adds files in a browser, and finds them."""

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.browser import Browser, Browsers
from tests.support.local_machine import Machine
from tests.support.ports import find_free_port

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 60
DROP = """(texts) => {
  const files = new DataTransfer();
  for (const [name, text] of Object.entries(texts)) files.items.add(new File([text], name));
  for (const type of ["dragover", "drop"]) {
    const event = new DragEvent(type, {dataTransfer: files, bubbles: true, cancelable: true});
    document.querySelector("h1").dispatchEvent(event);
  }
}"""
"""A script that drops files onto the heading of the page."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


async def wait_until_found(browser: Browser, url: str, text: str) -> None:
    """Search for a text until it is found."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            await browser.open(f"{url}/?q={text}")
            if await browser.page.locator(".hit").filter(has_text=text).count():
                return


async def test_an_empty_base_leads_to_added_files(
    machine: Machine, browsers: Browsers, tmp_path: Path
) -> None:
    """Files are chosen without scripts, and dropped with them."""
    port = find_free_port()
    machine.start_run(port=port)
    url = f"http://localhost:{port}"
    note = tmp_path / "reef.md"
    note.write_text("Reef the mainsail before you think that you must.")
    async with browsers.open_window(scripts=False) as browser:
        await browser.open(url)
        await browser.page.get_by_role("link", name="your assistant").click()
        await browser.wait_for_text(f'transport http carrel "{url}/mcp?tools=knowledge"')
        await browser.page.go_back()
        await browser.page.get_by_role("link", name="a link, a note or files").click()
        await browser.page.get_by_label("Choose files").set_input_files([note])
        await browser.press("Add the files")
        await browser.wait_for_text("Read 1 file.")
        await wait_until_found(browser, url, "Reef the mainsail")

    async with browsers.open_window() as browser:
        await browser.open(f"{url}/add")
        await browser.page.evaluate(DROP, {"knots.md": "A bowline holds.", "empty.md": ""})
        await browser.wait_for_text("Read 2 files, except for the problems below.")
        await browser.wait_for_text("empty.md: has no text")
        await wait_until_found(browser, url, "A bowline holds.")
        assert browser.console_errors == []


def test_a_cut_connection_leaves_no_files(machine: Machine) -> None:
    port = find_free_port()
    machine.start_run(port=port)
    uploads = machine.state / "uploads"
    part = '--b\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\nReef'
    head = (
        f"POST /add/files HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall((head + part).encode())
        wait_until(lambda: list(uploads.glob("*")) != [])
    wait_until(lambda: list(uploads.glob("*")) == [])
