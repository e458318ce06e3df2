"""A file of links lists them, and their pages are fetched only once somebody asks for them."""

import asyncio
import itertools
import time
from collections import Counter
from pathlib import Path

import pytest

from functions.jobs.ingest.links.page import FETCH_RULES
from functions.jobs.ingest.links.queue import fetch_links
from shared.core.safe_fetch import Endpoint, SafeFetch
from shared.links.model import Link
from shared.links.repository import SavedLinks
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Report
from tests.support.clock import SettableClock
from tests.support.followed_folder import ingest_cleanly, run_ingest
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import embed_all, index_all
from tests.support.links import (
    EDITOR,
    ESSAY,
    OWNER,
    SITE_URL,
    fetch_due_links,
    make_text_page,
    serve_site,
)
from tests.support.public_web_server import PublicWebServer
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

SECONDS = 1_717_173_713
HEADER = "title,url,time_added,tags,status\n"


def write_list(folder: Path, *names: str, site: str = SITE_URL) -> Path:
    """Write Pocket's table of pages, each saved a second after the one before."""
    rows = (
        f"Page {name},{site}/{name},{SECONDS + number},tag {name}|all,unread\n"
        for number, name in enumerate(names)
    )
    return write_file(folder, "pocket.csv", HEADER + "".join(rows))


async def read_states(ctx: Context) -> dict[str, str]:
    """Return the state of each link by the last part of its address."""
    links = await SavedLinks(ctx.database).load_all()
    return {link.url.rpartition("/")[2]: link.state.value for link in links}


async def read_link(ctx: Context, name: str) -> Link:
    """Return the link whose address ends with this name."""
    links = await SavedLinks(ctx.database).load_all()
    return next(link for link in links if link.url.endswith(f"/{name}"))


async def test_links_are_listed_and_no_page_is_fetched(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    """Reading the list again adds what is new, and a shorter one takes nothing back."""
    write_file(tmp_path, "note.md", "Reef early.")
    write_list(tmp_path, "a", "b")
    with serve_site() as site:
        report = await ingest_cleanly(ctx, tmp_path)
        assert report.counts["links listed"] == 2
        assert report.note.startswith(
            "New links: 2 of Pocket. They are not fetched; to fetch them:"
        )
        assert "carrel links fetch" in report.note
        assert (await ingest_cleanly(ctx, tmp_path)).counts["links listed"] == 0
        write_list(tmp_path, "b", "c")
        assert (await ingest_cleanly(ctx, tmp_path)).counts["links listed"] == 1
        (tmp_path / "pocket.csv").unlink()
        await ingest_cleanly(ctx, tmp_path)
        assert not (await fetch_due_links(ctx, site)).counts
        assert site.requests == []
    assert await read_states(ctx) == dict.fromkeys("abc", "listed")
    assert len(await read_chunks(ctx)) == 1
    assert "links" not in await call_result(app, "get_recent", EDITOR)


async def test_a_note_on_a_link_stays(app: App, ctx: Context, tmp_path: Path) -> None:
    """It is found at once, read once, and kept when the file is gone, as the link is."""
    for number in range(4):
        write_file(tmp_path, f"note{number}.md", f"Reef {number} early.")
    page = (
        f'<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><A HREF="{SITE_URL}/a">A</A><DD>Tar it.</DL>'
    )
    path = write_file(tmp_path, "bookmarks.html", page)
    assert (await ingest_cleanly(ctx, tmp_path)).counts["links listed"] == 1
    before = await read_chunks(ctx)
    await ingest_cleanly(ctx, tmp_path)
    path.unlink()
    await ingest_cleanly(ctx, tmp_path)
    assert await read_chunks(ctx) == before
    assert await read_states(ctx) == {"a": "listed"}
    await embed_all(ctx)
    await index_all(ctx)
    hit, *_ = (await call_result(app, "search_kb", EDITOR, query="tar it"))["results"]
    assert (hit["title"], hit["snippet"]) == ("A", "Tar it.")


async def test_links_that_are_known_stay_as_they_are(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    """Whether saved, stored, failed, forgotten, or stored so long ago that no record is left."""
    names = ("saved", "stored", "failed", "forgotten", "old")
    source_ids = {}
    with serve_site(**dict.fromkeys(("stored", "forgotten", "old"), make_text_page(ESSAY))) as site:
        for name in names[1:]:
            out = await call_result(app, "save_link", EDITOR, url=f"{SITE_URL}/{name}")
            source_ids[name] = out["source_id"]
        await fetch_due_links(ctx, site)
    await call_result(app, "forget", OWNER, source_id=source_ids["forgotten"])
    await call_result(app, "save_link", EDITOR, url=f"{SITE_URL}/saved")
    links = SavedLinks(ctx.database)
    for name in ("forgotten", "old"):
        await ctx.database.commit([(await links.get(source_ids[name])).build_deletion_write()])
    before = await read_documents(ctx, "links")

    report = await run_ingest(ctx, write_list(tmp_path, *names), frozenset())
    assert report == Report()
    assert await read_documents(ctx, "links") == before


async def test_a_fetched_page_has_what_its_list_says(
    app: App, ctx: Context, tmp_path: Path, clock: SettableClock
) -> None:
    """It keeps its folder when it is fetched again, after the record of the link is gone."""
    clock.now = clock()
    await ingest_cleanly(ctx, write_list(tmp_path, "a", "b", "c"))
    links = SavedLinks(ctx.database)
    assert await links.count_listed() == 3
    assert len(await links.request_listed(clock(), "UNREAD", "all", limit=2)) == 2
    assert await read_states(ctx) == {"a": "listed", "b": "waiting", "c": "waiting"}
    pages = dict.fromkeys("abc", make_text_page("# Flats\n\nMud stores carbon for ages."))
    with serve_site(**pages) as site:
        await fetch_due_links(ctx, site)
        await embed_all(ctx)
        await index_all(ctx)
        filters = {"tags": ["tag c"]}
        answer = await call_result(app, "search_kb", EDITOR, query="mud carbon", filters=filters)
        [hit] = answer["results"]
        assert (hit["title"], hit["date"], hit["folder"]) == (
            *("Page c", "saved 2024-05-31"),
            "unread",
        )
        assert await links.drop_listed() == 1
        stored = await links.get(hit["source_id"])
        await ctx.database.commit([stored.build_deletion_write()])
        await call_result(app, "save_link", EDITOR, url=f"{SITE_URL}/c")
        await fetch_due_links(ctx, site)
    source = (await read_documents(ctx, "sources"))[hit["source_id"]]
    assert (source["folder"], source["title"]) == ("unread", "Page c")
    assert await read_states(ctx) == {"b": "stored", "c": "stored"}


@pytest.mark.parametrize("arguments", [{}, {"page": "<p>As it was seen.</p>"}])
async def test_a_listed_link_that_is_saved_and_taken_back_is_listed_again(
    app: App, ctx: Context, tmp_path: Path, arguments: dict[str, str]
) -> None:
    """Also if a browser sent its page."""
    await ingest_cleanly(ctx, write_list(tmp_path, "a"))
    listed = await read_documents(ctx, "links")
    url = f"{SITE_URL}/a"
    await call_result(app, "save_page" if arguments else "save_link", EDITOR, url=url, **arguments)
    link = await read_link(ctx, "a")
    assert (link.state, link.title, link.folder) == ("waiting", "Page a", "unread")
    assert (link.saved_by, link.list_name) == (EDITOR.user_id, "Pocket")
    await call_result(app, "save_link", EDITOR, url=url, cancel=True)
    [(source_id, fields)] = (await read_documents(ctx, "links")).items()
    assert {source_id: fields | {"saved_by": ""}} == listed


class AllHosts:
    """Resolves every host to a server, and records when."""

    def __init__(self, server: PublicWebServer) -> None:
        self.times: dict[str, list[float]] = {}
        self._server = server

    async def resolve(self, host: str, _port: int) -> list[Endpoint]:
        """Resolve every host to the server."""
        self.times.setdefault(host, []).append(time.monotonic())
        return [self._server.endpoint]


async def test_each_host_is_asked_with_pauses_and_others_meanwhile(
    ctx: Context, tmp_path: Path
) -> None:
    rows = "".join(f"x,http://{host}.example/{name},,,\n" for host in "ab" for name in "cde")
    await ingest_cleanly(ctx, write_file(tmp_path, "pocket.csv", HEADER + rows))
    await SavedLinks(ctx.database).request_listed(ctx.clock())
    report = Report()
    with PublicWebServer(None, make_text_page(ESSAY)) as server:
        site = AllHosts(server)
        fetch = SafeFetch(FETCH_RULES, site.resolve)
        await fetch_links(ctx, make_ample_budget(), report, fetch, pause=0.2)
    assert report.counts["read"] == 6
    for times in site.times.values():
        assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(times))
    assert site.times["b.example"][0] < site.times["a.example"][-1]


async def test_a_run_out_of_time_leaves_the_rest_to_the_next(ctx: Context, tmp_path: Path) -> None:
    """A page that fails is tried once in a run, and reported once."""
    await ingest_cleanly(ctx, write_list(tmp_path, *map(str, range(9))))
    await SavedLinks(ctx.database).request_listed(ctx.clock())
    pages = {str(number): make_text_page(f"Page {number} has words.") for number in range(8)}
    count = 0

    def advance(items: int) -> None:
        nonlocal count
        count += items

    class BriefBudget(Budget):
        @property
        def spent(self) -> bool:
            return count >= 3

    with serve_site(**pages) as site:
        report = Report()
        fetch = SafeFetch(FETCH_RULES, AllHosts(site).resolve)
        await fetch_links(ctx, BriefBudget(0, advance), report, fetch, pause=0)
        assert (report.counts["read"] + len(report.failures), report.finished) == (3, False)
        report = await fetch_due_links(ctx, site)
        assert Counter(request.target for request in site.requests).most_common(1)[0][1] == 1
        assert len(site.requests) == 9
    assert Counter((await read_states(ctx)).values()) == {"stored": 8, "failed": 1}


async def test_a_cancelled_list_is_completed_by_the_next_run(ctx: Context, tmp_path: Path) -> None:
    path = write_list(tmp_path, *map(str, range(2_000)))
    reading = asyncio.create_task(ingest_cleanly(ctx, path))
    for _ in range(10_000):
        if await SavedLinks(ctx.database).count_listed():
            break
    reading.cancel()
    await asyncio.wait([reading])
    assert 0 < await SavedLinks(ctx.database).count_listed() < 2_000
    await ingest_cleanly(ctx, path)
    assert await SavedLinks(ctx.database).count_listed() == 2_000
