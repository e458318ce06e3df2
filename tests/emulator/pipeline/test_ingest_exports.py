"""Passages from the exports of reading applications are found by `search_kb`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from functions.jobs.ingest.job import ingest
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.settings import Settings
from shared.runtime.context import Context
from tests.support.jobs import make_ample_budget
from tests.support.source_files import make_readwise_book, write_export, write_file

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


@pytest.fixture
def settings(project: str, tmp_path: Path) -> Settings:
    """Settings by which ingest reads a folder of the test."""
    return Settings(google_cloud_project=project, ingest_path=str(tmp_path))


async def find_first_hit(ctx: Context, query: str) -> dict[str, Any]:
    """Ingest the folder, run the jobs that new passages wait for, and search."""
    report = await ingest(ctx, make_ample_budget())
    assert report.failures == []
    await embed(ctx, make_ample_budget())
    await index(ctx, make_ample_budget())
    results = (await search_kb(In(query=query, detail="full"), ctx)).results
    return results[0].model_dump(mode="json")


def select_fields(hit: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the main fields of a hit, and those with these names, that are not empty."""
    fields = ("content", "title", "author", "date", "page", "chapter", "location", *names)
    return {name: hit[name] for name in fields if hit[name] is not None}


async def test_a_highlight_of_a_readwise_csv_is_found(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "readwise-data.csv", CSV)
    hit = await find_first_hit(ctx, "when to reef the mainsail")
    assert select_fields(hit, "tags", "highlight_url") == {
        "content": HIGHLIGHT_AND_NOTE,
        "title": "On Sails",
        "author": "Ann Helm",
        "date": "2024-05-31",
        "location": "150",
        "tags": ["sea", "favorite", "safety"],
        "highlight_url": "https://readwise.io/to_kindle?action=open&asin=B00SAILS&location=150",
    }


async def test_a_readwise_note_about_a_book_is_found(ctx: Context, tmp_path: Path) -> None:
    """Its snippet has the words of the note, without a label."""
    note = "Lent to Bo, who crossed the Channel with it."
    write_export(
        tmp_path, make_readwise_book(document_note=note, readwise_url="https://readwise.io/b/7")
    )
    hit = await find_first_hit(ctx, "who borrowed it to cross the Channel?")
    fields = select_fields(hit, "snippet", "tags", "readwise_url")
    assert fields == {
        "content": note,
        "snippet": note,
        "title": "Walden",
        "tags": ["book note"],
        "readwise_url": "https://readwise.io/b/7",
    }


async def test_a_highlight_of_kindle_clippings_is_found(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "Meine Clippings.txt", CLIPPINGS)
    hit = await find_first_hit(ctx, "when to reef the mainsail")
    assert select_fields(hit, "source") == {
        "content": HIGHLIGHT_AND_NOTE,
        "title": "On Sails",
        "author": "Ann Helm",
        "date": "2024-05-31",
        "page": 12,
        "location": "150-152",
        "source": "kindle",
    }


async def test_a_highlight_of_a_kindle_notebook_is_found(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "On Sails - Notebook.html", NOTEBOOK)
    hit = await find_first_hit(ctx, "when to reef the mainsail")
    fields = select_fields(hit, "source")
    del fields["date"]  # that of the file, which the test wrote
    assert fields == {
        "content": HIGHLIGHT_AND_NOTE,
        "title": "On Sails",
        "author": "Ann Helm",
        "page": 12,
        "chapter": "Foul Weather",
        "location": "150",
        "source": "kindle",
    }
