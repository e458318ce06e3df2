"""`save_page` queues the HTML that a browser sent, which the job `ingest` reads."""

import secrets
from typing import Any

from shared.core.caller import Caller
from shared.runtime.context import App, Context
from tests.support.knowledge import embed_all, index_all
from tests.support.links import (
    EDITOR,
    OWNER,
    SITE_URL,
    fetch_due_links,
    make_text_page,
    read_only_link,
    serve_site,
)
from tests.support.notes import OTHER_EDITOR
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_error, call_result
from tests.support.web_pages import PROSE, make_article_page

URL = f"{SITE_URL}/essay"
PAGE = make_article_page(URL)


async def save(app: App, caller: Caller = EDITOR, /, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "save_page", caller, **{"url": URL, "page": PAGE} | arguments)


async def read_saved_pages(ctx: Context) -> None:
    """Run the jobs. A page that a browser sent is not fetched."""
    with serve_site() as site:
        report = await fetch_due_links(ctx, site)
        assert site.requests == []
    assert report.failures == []
    await embed_all(ctx)
    await index_all(ctx)


async def test_a_saved_page_is_found_and_its_html_is_deleted(app: App, ctx: Context) -> None:
    saved = await save(app, url=f"{URL}?utm_source=feed#part")
    await read_saved_pages(ctx)
    answer = await call_result(app, "search_kb", EDITOR, query="when should I reef?")
    hit = answer["results"][0]
    assert (hit["title"], hit["address"]) == ("Reefing early", URL)
    assert hit["source_id"] == saved["source_id"]
    [link] = (await read_documents(ctx, "links")).values()
    assert (link["state"], link["page"]) == ("stored", None)


async def test_a_saved_page_and_its_link_are_one_source(app: App, ctx: Context) -> None:
    """A page replaces what was fetched from its address, and the other way round."""
    link = await call_result(app, "save_link", EDITOR, url=URL, tags=["sea"])
    page = await save(app)
    assert page["source_id"] == link["source_id"]
    await read_saved_pages(ctx)
    source = await call_result(app, "get_source", EDITOR, source_id=page["source_id"])
    assert "sea" in source["tags"]

    await save(app, OWNER, page=PAGE.replace("costs a sail", "costs a mast"), replace=True)
    await read_saved_pages(ctx)
    source = await call_result(app, "get_source", EDITOR, source_id=page["source_id"])
    assert "costs a mast" in str(source["chunks"])
    assert len(await read_documents(ctx, "sources")) == 1


async def test_an_editor_replaces_nothing_that_others_saved(app: App, ctx: Context) -> None:
    await save(app)
    error = await call_error(app, "save_page", OTHER_EDITOR, url=URL, page="<p>Mine.")
    assert (error.code, "Someone else" in error.message) == ("FORBIDDEN", True)
    await read_saved_pages(ctx)
    error = await call_error(app, "save_page", OTHER_EDITOR, url=URL, page="<p>Mine.")
    assert (error.code, "only an owner" in error.message) == ("FORBIDDEN", True)


async def test_a_page_that_waits_is_not_replaced(app: App, ctx: Context) -> None:
    await save(app)
    await save(app)
    error = await call_error(app, "save_page", OWNER, url=URL, page="<p>Mine.", replace=True)
    assert (error.code, error.details["state"]) == ("CONFLICT", "waiting")
    await read_saved_pages(ctx)


async def test_an_undone_page_is_gone(app: App, ctx: Context) -> None:
    saved = await save(app)
    await call_result(app, saved["undo"]["tool"], EDITOR, **saved["undo"]["arguments"])
    assert await read_documents(ctx, "links") == {}


async def test_a_forgotten_page_stays_forgotten(app: App, ctx: Context) -> None:
    saved = await save(app)
    await read_saved_pages(ctx)
    await call_result(app, "forget", OWNER, source_id=saved["source_id"])
    assert (await call_error(app, "save_page", OWNER, url=URL, page=PAGE)).code == "CONFLICT"


async def test_a_page_that_has_no_article_fails_with_the_reason(app: App, ctx: Context) -> None:
    await save(app, page="<a href=/>Home</a>")
    with serve_site(essay=make_text_page(PROSE)) as site:
        report = await fetch_due_links(ctx, site)
    [failure] = report.failures
    assert failure.reason.endswith("select its text in the browser, and save that")
    link = await read_only_link(ctx)
    assert (link.state, link.page) == ("failed", None)  # lists do not read the page


async def test_a_page_that_is_too_large_is_refused(app: App, ctx: Context) -> None:
    noise = secrets.token_hex(1_000_000)
    error = await call_error(app, "save_page", EDITOR, url=URL, page=f"<p>{noise}")
    assert "900 kB" in str(error.details["page"])
    assert await read_documents(ctx, "links") == {}
