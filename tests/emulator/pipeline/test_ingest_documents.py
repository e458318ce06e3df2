"""Passages of documents, and of the exports of reading applications, are found by a search."""

from pathlib import Path
from typing import Any

import pytest

from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.runtime.context import Context
from tests.support.epub_files import make_epub, make_nav
from tests.support.ingest_runs import run_ingest
from tests.support.knowledge import embed_all, index_all
from tests.support.pdf_files import Annotation, make_pdf
from tests.support.source_files import make_readwise_book, write_export, write_file
from tests.support.web_pages import make_article_page

ANCHORS = "An anchor holds in sand if its chain is five times as long as the water is deep."
KNOTS = "A bowline never slips, and can be untied even after a gale."
TIDES = "The tide turns first along the shore, where the water is shallow."
MANUAL = make_pdf(
    ["A title page."],
    [KNOTS],
    *([f"{number * number} {ANCHORS}"] for number in range(40, 60)),
    info={"Title": "Seamanship", "Author": "Ann Helm", "CreationDate": "D:20190301"},
    outline=[("Knots", 1)],
    annotations=[Annotation("Highlight", 1, (0,), "Practise this.", "D:20240601100000Z")],
)
BOOK = make_epub(
    {"one.xhtml": f"<p>{ANCHORS}</p>", "two.xhtml": f"<p>{TIDES}</p>"},
    nav=make_nav(("text/one.xhtml", "Anchors"), ("text/two.xhtml", "Tides")),
)
CSV = """\ufeffHighlight,Book Title,Book Author,Amazon Book ID,Note,Color,Tags,Location Type,\
Location,Highlighted at,Document tags
"Reef the mainsail, early.",On Sails,Ann Helm,B00SAILS,Before the squall.,yellow,\
"favorite, safety",location,150,2024-05-31 16:41:53+00:00,sea
Knead the dough well.,Bread,Ida Loaf,,,,,page,7,2024-06-01 08:00:00+00:00,
"""
CLIPPINGS = """\ufeffOn Sails (Helm, Ann)
- Ihre Markierung auf Seite 12 | Position 150-151 | Hinzugefügt am Freitag, 31. Mai 2024 16:40:00

Reef the mainsail,
==========
On Sails (Helm, Ann)
- Ihre Markierung auf Seite 12 | Position 150-152 | Hinzugefügt am Freitag, 31. Mai 2024 16:41:53

Reef the mainsail, early.
==========
On Sails (Helm, Ann)
- Ihre Notiz auf Seite 12 | Position 152 | Hinzugefügt am Freitag, 31. Mai 2024 16:42:10

Before the squall.
==========
Bread (Ida Loaf)
- Ihre Markierung auf Seite 7 | Hinzugefügt am Samstag, 1. Juni 2024 08:00:00

Knead the dough well.
==========
""".replace("\n", "\r\n")
NOTEBOOK = """<html><head><style>.bookTitle { font-size: 24px }</style></head><body>
<div class="notebookFor">Notebook for</div>
<div class="bookTitle">On Sails</div><div class="authors">Helm, Ann</div>
<div class="sectionHeading">Foul Weather</div>
<div class="noteHeading">Highlight(<span class="highlight_yellow">yellow</span>) - Page 12 ·
 Location 150</div><div class="noteText">Reef the mainsail, early.</div>
<div class="noteHeading">Note - Page 12 · Location 152</div>
<div class="noteText">Before the squall.</div>
<div class="noteHeading">Highlight(<span class="highlight_blue">blue</span>) - Page 80</div>
<div class="noteText">Scrub the deck.</div></body></html>
"""
HIGHLIGHT_AND_NOTE = "Reef the mainsail, early.\n\nBefore the squall."
HIGHLIGHT = {"content": HIGHLIGHT_AND_NOTE, "title": "On Sails", "author": "Ann Helm"}


async def find_first_hit(ctx: Context, query: str) -> dict[str, Any]:
    """Ingest the folder, run the jobs that new passages wait for, and search.

    Returns:
        The fields of the first hit and of its passage.
    """
    report = await run_ingest(ctx)
    assert report.failures == []
    assert report.note == ""
    await embed_all(ctx)
    await index_all(ctx)
    hit = (await search_kb(In(query=query, detail="full", limit=1), ctx)).results[0]
    chunk = await get_chunk(ChunkIn(chunk_id=hit.chunk_id), ctx)
    return hit.model_dump(mode="json") | chunk.model_dump(mode="json")


@pytest.mark.parametrize(
    ("file", "query", "expected"),
    [
        (
            ("saved.html", make_article_page()),
            "a reef taken early costs a minute",
            {
                "title": "Reefing early",
                "author": "Ann Helm, Bob Reef",
                "source_url": "https://sailing.example.com/reefing-early",
            },
        ),
        (
            ("seamanship.pdf", MANUAL),
            "practise the bowline that never slips",
            {
                "content": f"{KNOTS}\n\nPractise this.",
                "title": "Seamanship",
                "author": "Ann Helm",
                "date": "highlighted 2024-06-01",
                "page": 2,
                "chapter": "Knots",
            },
        ),
        (
            ("sails.epub", BOOK),
            "where does the tide turn first?",
            {
                "content": TIDES,
                "title": "A Handbook of Sails",
                "author": "Ann Helm, Bob Reef",
                "date": "published 2019-03-01",
                "chapter": "Tides",
            },
        ),
        (
            ("readwise-data.csv", CSV),
            "when to reef the mainsail",
            HIGHLIGHT
            | {
                "date": "highlighted 2024-05-31",
                "location": "150",
                "page": None,
                "tags": ["sea", "favorite", "safety"],
                "highlight_url": (
                    "https://readwise.io/to_kindle?action=open&asin=B00SAILS&location=150"
                ),
            },
        ),
        (
            ("Meine Clippings.txt", CLIPPINGS),
            "when to reef the mainsail",
            HIGHLIGHT
            | {
                "date": "highlighted 2024-05-31",
                "page": 12,
                "location": "150-152",
                "source": "kindle",
            },
        ),
        (
            ("On Sails - Notebook.html", NOTEBOOK),
            "when to reef the mainsail",
            HIGHLIGHT
            | {"page": 12, "chapter": "Foul Weather", "location": "150", "source": "kindle"},
        ),
    ],
    ids=["html", "pdf", "epub", "readwise csv", "clippings", "notebook"],
)
async def test_a_passage_of_a_file_is_found_with_its_fields(
    ctx: Context, tmp_path: Path, file: tuple[str, str], query: str, expected: dict[str, Any]
) -> None:
    write_file(tmp_path, *file)
    hit = await find_first_hit(ctx, query)
    assert {field: hit[field] for field in expected} == expected


async def test_a_readwise_note_about_a_book_is_found(ctx: Context, tmp_path: Path) -> None:
    """Its text has the words of the note, without a label."""
    note = "Lent to Bo, who crossed the Channel with it."
    url = "https://readwise.io/b/7"
    write_export(tmp_path, make_readwise_book(document_note=note, readwise_url=url))
    hit = await find_first_hit(ctx, "who borrowed it to cross the Channel?")
    fields = ("content", "title", "tags", "address")
    assert [hit[field] for field in fields] == [note, "Walden", ["book note"], url]


async def test_a_hit_has_the_page_of_the_words_that_matched(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "knots.pdf", make_pdf(["A title page."], ["The preface."], [KNOTS]))
    chunk = await find_first_hit(ctx, "the bowline that never slips")
    assert chunk["page"] == 1  # get_chunk shows the whole passage
    [hit] = (await search_kb(In(query="the bowline that never slips", limit=1), ctx)).results
    assert hit.page == 3
