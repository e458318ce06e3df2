"""People save pages from Chromium, with the bookmarklet and with the extension."""

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from mcp import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from infra.build.discovery import ROOT
from shared.ai.local_embedding import LocalEmbedder
from shared.core.ids import parse_source_id
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.browser import Browser, open_browser_with_extension
from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.jobs import make_job_context
from tests.support.knowledge import embed_all, index_all
from tests.support.links import fetch_due_links, serve_site
from tests.support.web_pages import PROSE
from tests.support.web_sites import serve_app

pytestmark = [pytest.mark.slow]

SITE = "http://news.example"
"""The address under which the browser reaches the site of these tests."""
QUOTE = "Nobody ever lost a mast by reefing early."
IN_SHADOW_ROOT = (
    "The second reef goes in at twenty knots, whatever the crew of the other boat does."
)
PAGE = f"""<!doctype html><html lang="en"><head><title>Reefing early</title>
<link rel="canonical" href="{SITE}/essay"></head><body><nav><a href="/">Home</a></nav>
<article><h1>Reefing early</h1><p>{PROSE}</p><p id="quote">{QUOTE}</p>
<p>&lt;img src=x onerror=alert(1)&gt; is a text here.</p>
<reef-advice></reef-advice></article>
<script>
customElements.define("reef-advice", class extends HTMLElement {{
  connectedCallback() {{
    this.attachShadow({{mode: "open"}}).innerHTML = "<p>{IN_SHADOW_ROOT}</p>";
  }}
}});
</script></body></html>"""
"""A page for who is signed in, of which a script writes a part into a shadow root."""


def make_private_site(_url: str) -> Starlette:
    """Make a site that shows the page only with the cookie of a person."""

    async def answer(request: Request) -> Response:
        is_signed_in = request.cookies.get("session") == "ada"
        return HTMLResponse(PAGE if is_signed_in else "<p>Sign in first.")

    return Starlette(routes=[Route("/{path:path}", answer)])


@pytest.fixture
def project() -> str:
    """A project with an empty knowledge base."""
    return f"saving-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def laptop(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway where nobody signs in."""
    with run_gateway(INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project}, log) as gateway:
        yield gateway


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """The extension, which may use the two sites: a test can press no button of the browser."""
    folder = tmp_path / "extension"
    shutil.copytree(ROOT / "extension", folder)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["host_permissions"] = [f"{SITE}/*", "http://127.0.0.1/*"]
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return folder


def test_the_extension_asks_for_one_address_only() -> None:
    manifest = json.loads((ROOT / "extension" / "manifest.json").read_text("utf-8"))
    assert set(manifest["permissions"]) == {"activeTab", "scripting", "storage"}
    assert "host_permissions" not in manifest
    assert "content_scripts" not in manifest


async def test_a_private_page_is_saved_as_it_is_seen_and_found(
    laptop: RunningGateway,
    project: str,
    extension: Path,
    tmp_path: Path,
    local_embedder: LocalEmbedder,
) -> None:
    async with serve_app(make_private_site) as site_url:
        resolve = f"--host-resolver-rules=MAP news.example:80 {urlsplit(site_url).netloc}"
        async with open_browser_with_extension(extension, tmp_path / "profile", resolve) as (
            context,
            extension_url,
        ):
            console = Browser(await context.new_page())
            await console.open(f"{laptop.url}/you")
            await console.page.get_by_text("Make a key", exact=True).click()
            await console.fill("Name", "Chromium")
            await console.press("Continue")
            key = await console.page.locator("[data-secret]").inner_text()

            options = Browser(await context.new_page())
            await options.open(f"{extension_url}/options.html")
            await options.fill("Address of your Carrel", f"{laptop.url}/")
            await options.fill("Key that may only save pages", key)
            await options.press("Keep")
            await options.wait_for_text("Kept.")

            await context.add_cookies([{"name": "session", "value": "ada", "url": SITE}])
            site, popup = await context.new_page(), Browser(await context.new_page())
            await site.goto(f"{SITE}/essay")
            await site.evaluate(
                "getSelection().selectAllChildren(document.getElementById('quote'))"
            )
            await popup.open(f"{extension_url}/popup.html")
            await site.bring_to_front()  # the popup saves the page of the active tab
            await popup.page.reload()
            await popup.wait_for_text("Reefing early")
            assert await popup.page.get_by_role("textbox").input_value() == QUOTE
            await popup.press("Save page")
            await popup.wait_for_text("Saved.")
            assert popup.console_errors == []

            source_id = await read_and_search(laptop, project, local_embedder)
            await site.bring_to_front()
            await popup.page.reload()
            await popup.wait_for_text("Reefing early")
            await popup.press("Save page")
            await popup.wait_for_text("The selection was saved, but not the page.")
            await popup.press("Replace what is stored")
            await popup.wait_for_text("Saved.")
            dialogs: list[str] = []
            console.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
            await console.open(f"{laptop.url}/sources/{source_id}")
            await console.wait_for_text(IN_SHADOW_ROOT)
            assert (dialogs, console.console_errors) == ([], [])


async def read_and_search(laptop: RunningGateway, project: str, embedder: LocalEmbedder) -> str:
    """Run the jobs, find the page and the note, and return the id of the page's source."""
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    ctx = make_job_context(app)
    with serve_site() as site:
        await fetch_due_links(ctx, site)
        assert site.requests == []
    await embed_all(ctx)
    await index_all(ctx)
    await app.aclose()
    async with Client(laptop.endpoint) as client:
        result = await client.call_tool("search_kb", {"query": "when does the second reef go in?"})
        hit = (result.structured_content or {})["results"][0]
        assert (hit["title"], hit["address"]) == ("Reefing early", f"{SITE}/essay")
        assert IN_SHADOW_ROOT in str(hit)
        notes = await client.call_tool("list_sources", {"category": "note"})
        assert [note["title"] for note in (notes.structured_content or {})["sources"]] == [
            hit["title"]
        ]
    return parse_source_id(hit["chunk_id"])


async def test_the_bookmarklet_fills_in_the_form(laptop: RunningGateway, browser: Browser) -> None:
    await browser.open(f"{laptop.url}/save")
    link = browser.page.get_by_role("link", name="Save to Carrel")
    bookmarklet = str(await link.get_attribute("href")).removeprefix("javascript:")
    page = f"<title>A site</title><p id=quote>{QUOTE} &amp; more + 100 %</p>"
    await browser.page.route(
        f"{SITE}/**", lambda route: route.fulfill(body=page, content_type="text/html")
    )
    await browser.open(f"{SITE}/essay?a=b&c=d#part")
    await browser.page.evaluate("getSelection().selectAllChildren(quote)")
    async with browser.page.context.expect_page() as opened:
        await browser.page.evaluate(bookmarklet)
    form = Browser(await opened.value)
    await form.wait_for_url(f"{laptop.url}/save")
    assert form.page.url == f"{laptop.url}/save"
    fields = [
        await field.input_value()
        for field in await form.page.locator("#save :is(input:not([type=hidden]), textarea)").all()
    ]
    assert fields == [f"{SITE}/essay?a=b&c=d#part", f"{QUOTE} & more + 100 %", "A site"]
    await form.press("Save")
    await form.wait_for_text("Saved. The note can be read by")
    assert form.console_errors == []
