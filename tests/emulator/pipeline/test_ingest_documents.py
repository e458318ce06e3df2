"""Passages of the HTML pages, PDF and EPUB files in a folder are found by a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.jobs.ingest.job import ingest
from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import Out, get_chunk
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.settings import Settings
from shared.runtime.context import Context
from tests.support.epub_files import make_epub, make_nav
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import embed_all, index_all
from tests.support.pdf_files import Annotation, make_pdf
from tests.support.source_files import write_file
from tests.support.web_pages import make_article_page

ANCHORS = "An anchor holds in sand if its chain is five times as long as the water is deep."
KNOTS = "A bowline never slips, and can be untied even after a gale."
TIDES = "The tide turns first along the shore, where the water is shallow."


@pytest.fixture
def settings(project: str, tmp_path: Path) -> Settings:
    """Settings by which ingest reads a folder of the test."""
    return Settings(google_cloud_project=project, ingest_path=str(tmp_path))


async def ingest_folder(ctx: Context) -> None:
    """Ingest the folder without failures, and embed and index its passages."""
    report = await ingest(ctx, make_ample_budget())
    assert report.failures == []
    assert report.note == ""
    await embed_all(ctx)
    await index_all(ctx)


async def find_first_hit(ctx: Context, query: str) -> Out:
    """Return the passage that a search finds first, as `get_chunk` shows it."""
    hit = (await search_kb(In(query=query, limit=1), ctx)).results[0]
    return await get_chunk(ChunkIn(chunk_id=hit.chunk_id), ctx)


async def test_a_page_is_found_with_its_title_and_address(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "saved.html", make_article_page())
    await ingest_folder(ctx)
    chunk = await find_first_hit(ctx, "a reef taken early costs a minute")
    assert chunk.title == "Reefing early"
    assert chunk.author == "Ann Helm, Bob Reef"
    assert chunk.source_url == "https://sailing.example.com/reefing-early"


async def test_a_pdf_is_found_with_its_page_and_highlights(ctx: Context, tmp_path: Path) -> None:
    info = {"Title": "Seamanship", "Author": "Ann Helm", "CreationDate": "D:20190301"}
    pages = [["A title page."], [KNOTS], *([f"{n * n} {ANCHORS}"] for n in range(40, 60))]
    highlight = Annotation("Highlight", 1, (0,), "Practise this.", "D:20240601100000Z")
    data = make_pdf(*pages, info=info, outline=[("Knots", 1)], annotations=[highlight])
    write_file(tmp_path, "seamanship.pdf", data)
    await ingest_folder(ctx)
    chunk = await find_first_hit(ctx, "practise the bowline that never slips")
    assert chunk.title == "Seamanship"
    assert chunk.author == "Ann Helm"
    assert chunk.page == 2
    assert chunk.chapter == "Knots"
    assert chunk.content == f"{KNOTS}\n\nPractise this."
    assert chunk.date == "2024-06-01"


async def test_a_hit_has_the_page_of_the_words_that_matched(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "knots.pdf", make_pdf(["A title page."], ["The preface."], [KNOTS]))
    await ingest_folder(ctx)
    [hit] = (await search_kb(In(query="the bowline that never slips", limit=1), ctx)).results
    assert hit.page == 3
    assert (await find_first_hit(ctx, "bowline")).page == 1  # get_chunk shows the whole passage


async def test_a_book_is_found_with_its_chapter(ctx: Context, tmp_path: Path) -> None:
    documents = {"one.xhtml": f"<p>{ANCHORS}</p>", "two.xhtml": f"<p>{TIDES}</p>"}
    nav = make_nav(("text/one.xhtml", "Anchors"), ("text/two.xhtml", "Tides"))
    write_file(tmp_path, "sails.epub", make_epub(documents, nav=nav))
    await ingest_folder(ctx)
    chunk = await find_first_hit(ctx, "where does the tide turn first?")
    assert chunk.title == "A Handbook of Sails"
    assert chunk.author == "Ann Helm, Bob Reef"
    assert chunk.chapter == "Tides"
    assert chunk.content == TIDES
    assert chunk.date == "2019-03-01"
