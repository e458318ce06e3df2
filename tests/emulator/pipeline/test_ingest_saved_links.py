"""The job `ingest` fetches the pages of saved links, and reports why a page cannot be stored.

The tool `save_link` stores a link that waits for the job. A link whose page cannot be fetched is
retried later, and becomes a dead letter after the last try.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from functions.jobs.ingest.job import JOB, count, ingest
from functions.jobs.ingest.links.page import FETCH_RULES
from shared.core.deferral import MAX_TRIES
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.links.model import FETCHED_LINKS, LinkState
from shared.links.repository import SavedLinks
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.jobs import make_ample_budget, make_spent_budget
from tests.support.knowledge import embed_all, index_all
from tests.support.links import (
    EDITOR,
    ESSAY,
    OWNER,
    SITE_URL,
    fetch_due_links,
    make_text_page,
    read_only_link,
    serve_site,
)
from tests.support.pdf_files import make_pdf
from tests.support.public_web_server import Page
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result
from tests.support.web_pages import make_article_page

URL = f"{SITE_URL}/essay"
BUSY_PAGE = make_text_page("Later.", status=503)


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings without an origin."""
    return Settings(google_cloud_project=project)


async def save_link(app: App, url: str = URL, **arguments: Any) -> str:
    """Save a link; return the id of its source."""
    out = await call_result(app, "save_link", EDITOR, url=url, **arguments)
    return str(out["source_id"])


async def list_recent_links(app: App) -> list[dict[str, Any]]:
    """Return the links that `get_recent` lists."""
    out = await call_result(app, "get_recent", EDITOR)
    return list(out.get("links", []))


MANUAL = make_pdf(
    ["A title page."],
    ["A bowline never slips, and can be untied even after a gale."],
    info={"Title": "Seamanship", "Author": "Ann Helm", "CreationDate": "D:20190301"},
)


async def test_saved_pages_are_found_by_a_search(app: App, ctx: Context) -> None:
    """A page that cannot be stored loses only itself, and a stored one is listed as such."""
    source_id = await save_link(app, title="Reefs", tags=["sea"])
    await save_link(app, f"{SITE_URL}/broken")
    await save_link(app, f"{SITE_URL}/manual")
    page = make_text_page(make_article_page(), kind="text/html; charset=utf-8")
    manual = Page(MANUAL, headers={"Content-Type": "application/pdf"})
    with serve_site(essay=page, manual=manual, broken=make_text_page(" ")) as site:
        report = await fetch_due_links(ctx, site)
        assert len(site.requests) == 3
    assert report.counts["read"] == 2
    assert [failure.name for failure in report.failures] == [f"{SITE_URL}/broken"]
    assert report.finished
    await embed_all(ctx)
    await index_all(ctx)

    filters = {"tags": ["sea"]}
    answer = await call_result(app, "search_kb", EDITOR, query="reef early", filters=filters)
    hit = answer["results"][0]
    assert (hit["title"], hit["author"]) == ("Reefs", "Ann Helm, Bob Reef")
    assert (hit["date"], hit["source_id"]) == ("published 2024-05-31", source_id)
    source = await call_result(app, "get_source", EDITOR, source_id=source_id)
    assert (source["source_url"], source["category"]) == (URL, "articles")
    assert source["edited"] == ["title", "tags"]

    query = "can a bowline be untied after a gale?"
    answer = await call_result(app, "search_kb", EDITOR, query=query, detail="full", limit=1)
    hit = answer["results"][0]
    assert (hit["title"], hit["page"]) == ("Seamanship", 2)
    assert hit["address"] == f"{SITE_URL}/manual#page=2"
    states = {link["url"]: link["state"] for link in await list_recent_links(app)}
    assert states == {URL: "stored", f"{SITE_URL}/manual": "stored", f"{SITE_URL}/broken": "failed"}


async def test_a_link_whose_page_is_stored_is_kept_for_some_time(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """A link that is saved again is kept until its page is stored again."""
    clock.now = clock()
    for name in ("essay", "other"):
        await save_link(app, f"{SITE_URL}/{name}")
    with serve_site(essay=make_text_page(ESSAY), other=make_text_page("Knots hold.")) as site:
        await fetch_due_links(ctx, site)
    await save_link(app, f"{SITE_URL}/other")
    links = await read_documents(ctx, "links")
    times = {link["url"]: link["purge_at"] for link in links.values()}
    stored_until = clock() + FETCHED_LINKS.duration
    assert times == {f"{SITE_URL}/essay": stored_until, f"{SITE_URL}/other": None}


async def test_a_link_that_failed_once_is_stored_without_a_trace(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await save_link(app)
    with serve_site(essay=BUSY_PAGE) as site:
        await fetch_due_links(ctx, site)
    assert [link.url for link in await SavedLinks(ctx.database).list_tried(10)] == [URL]
    clock.now += timedelta(hours=1)
    with serve_site(essay=make_text_page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    assert (await read_only_link(ctx)).state is LinkState.STORED
    assert await SavedLinks(ctx.database).list_tried(10) == []


async def test_a_failed_link_waits_longer_each_time(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    await save_link(app)
    pauses = []
    with serve_site(essay=BUSY_PAGE) as site:
        for _ in range(MAX_TRIES):
            report = await fetch_due_links(ctx, site)
            assert [failure.name for failure in report.failures] == [URL]
            link = await read_only_link(ctx)
            pauses.append(link.due_at and link.due_at - clock())
            assert len(site.requests) == link.tries
            await fetch_due_links(ctx, site)  # before the link is due
            assert len(site.requests) == link.tries
            clock.now += timedelta(hours=1)

    assert pauses == [*(timedelta(minutes=minutes) for minutes in (2, 4, 8, 16)), None]
    [failed] = await list_recent_links(app)
    assert failed["state"] == "failed"
    assert failed["error"] == "cannot be fetched: its server answers 503"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (make_text_page("Gone.", status=410), "cannot be fetched: its server answers 410"),
        (make_text_page("Who are you?", status=403), "cannot be fetched: its server answers 403"),
        (make_text_page("<svg/>", kind="image/svg+xml"), "is in a format that is not read"),
        (make_text_page(" "), "has no text"),
        (Page(b"%PDF-1.7 no more", headers={"Content-Type": "application/pdf"}), "is damaged"),
        (Page(status=301, headers={"Location": "http://127.0.0.1/"}), "is not the address of"),
        (make_text_page("a" * (FETCH_RULES.max_bytes + 1)), "is larger than 10 MB: download it"),
        (
            Page(b"a" * 65_536, headers={"Content-Type": "text/plain"}, is_endless=True),
            "is larger than 10 MB: download it",
        ),
    ],
    ids=["gone", "forbidden", "kind", "empty", "damaged", "private", "large", "endless"],
)
async def test_a_permanent_error_is_not_retried(
    app: App, ctx: Context, page: Page, reason: str
) -> None:
    await save_link(app)
    with serve_site(essay=page) as site:
        await fetch_due_links(ctx, site)
    [failed] = await list_recent_links(app)
    assert failed["state"] == "failed"
    assert failed["url"] == URL
    assert reason in failed["error"]
    link = await read_only_link(ctx)
    assert link.tries == 1
    assert link.due_at is None
    assert await read_chunks(ctx) == {}


@pytest.mark.parametrize("is_saved_again", [False, True])
async def test_dead_letters_are_listed_and_retried(
    app: App, ctx: Context, *, is_saved_again: bool
) -> None:
    """By a command, or because somebody saves the link again. Earlier failures do not count."""
    await save_link(app)
    with serve_site() as site:
        await fetch_due_links(ctx, site)
    assert JOB.dead_letters is not None
    [letter] = await JOB.dead_letters.load(ctx, 10)
    assert letter.name == URL
    assert "404" in letter.reason
    if is_saved_again:
        await save_link(app)
    else:
        assert await JOB.dead_letters.retry(ctx) == 1
    assert await JOB.dead_letters.load(ctx, 10) == []
    assert (await read_only_link(ctx)).tries == 0
    with serve_site(essay=make_text_page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    assert (await read_only_link(ctx)).state is LinkState.STORED


async def test_a_page_that_becomes_empty_keeps_its_stored_text(app: App, ctx: Context) -> None:
    """An unchanged page writes no passage."""
    await save_link(app)
    with serve_site(essay=make_text_page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        before = await read_documents(ctx, "sources"), await read_documents(ctx, "chunks")
        await save_link(app)
        await fetch_due_links(ctx, site)
        assert (
            await read_documents(ctx, "sources"),
            await read_documents(ctx, "chunks"),
        ) == before
        await save_link(app)
        site.pages["/essay"] = make_text_page("")
        report = await fetch_due_links(ctx, site)
    assert [failure.reason for failure in report.failures] == ["has no text"]
    assert len(await read_chunks(ctx)) == 1


async def test_a_page_forgotten_while_its_link_waits_is_not_fetched(app: App, ctx: Context) -> None:
    source_id = await save_link(app)
    with serve_site(essay=make_text_page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        await save_link(app)
        await call_result(app, "forget", OWNER, source_id=source_id)
        [failure] = (await fetch_due_links(ctx, site)).failures
        assert len(site.requests) == 1
    assert failure.reason.endswith(f"carrel forget --restore {source_id}")
    assert await read_documents(ctx, "sources") == {}


async def test_the_job_refuses_a_page_that_is_not_public(app: App, ctx: Context) -> None:
    """The job runs here without the fetcher of tests, which resolves their host to this machine."""
    await save_link(app)
    [failure] = (await ingest(ctx, make_ample_budget())).failures
    assert failure.reason == "has a host that does not exist: check the address"


async def test_waiting_links_are_counted_as_work_for_the_job(app: App, ctx: Context) -> None:
    with pytest.raises(InvalidInput, match="no link is waiting"):
        await ingest(ctx, make_ample_budget())
    await save_link(app)
    assert await count(ctx) == 1
    assert not (await ingest(ctx, make_spent_budget())).finished
    assert (await read_only_link(ctx)).state is LinkState.WAITING


async def test_a_link_cancelled_during_its_fetch_is_deleted(app: App, ctx: Context) -> None:
    await save_link(app)
    with serve_site(essay=make_text_page(ESSAY)) as site:
        site.gate.clear()  # holds the answer back
        fetching = asyncio.create_task(fetch_due_links(ctx, site))
        await asyncio.to_thread(site.arrived.wait)
        await save_link(app, cancel=True)
        site.gate.set()
        await fetching
    assert await read_documents(ctx, "links") == {}
