"""A notebook that a Kindle app exported is one source; other HTML is not taken for one."""

from pathlib import Path

import pytest

from functions.jobs.ingest.readers.kindle.notebook import recognizes
from shared.knowledge.source import Locator, Source
from tests.support.source_files import read_only_source, read_problems, write_file

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "XHTML1-s.dtd">
<html xmlns="http://www.w3.org/TR/1999/REC-html-in-xml"><head><style>
.bookTitle { font-size: 24px; } .noteHeading { color: #333 } .highlight_yellow { color: #f7ce00 }
</style></head><body><div class="bodyContainer">
<div class="notebookFor">Notebook for</div>
<div class="bookTitle">On Sails &amp;
    Anchors</div>
<div class="authors">
    Helm, Ann; Bo Sea
</div>
<div class="citation">Helm, A. (2020). <i>On Sails</i> [Kindle Android version].</div><hr />
"""


def make_chapter(title: str) -> str:
    return f'<div class="sectionHeading">\n{title}\n</div>'


def make_item(heading: str, text: str) -> str:
    """Return a highlight, a note or a bookmark, as its heading says."""
    return f'<div class="noteHeading">\n{heading}\n</div>\n<div class="noteText">\n{text}\n</div>'


def make_highlight(location: str, text: str) -> str:
    heading = f'Highlight(<span class="highlight_yellow">yellow</span>) - {location}'
    return make_item(heading, text)


def read_notebook(folder: Path, *parts: str) -> Source:
    content = HEAD + "\n".join(parts) + "\n</div></body></html>\n"
    return read_only_source(write_file(folder, "On Sails - Notebook.html", content))


def list_passages(source: Source) -> list[tuple[str, Locator]]:
    return [(section.text, section.find_locator(0)) for section in source.sections]


def test_a_notebook_becomes_a_source_with_chapters_and_locations(tmp_path: Path) -> None:
    source = read_notebook(
        tmp_path,
        make_chapter("PROLOGUE: Wind"),
        make_highlight("Page 1 · Location 205", "Reef\n  early &#8212; always."),
        make_highlight("Location 274", "Heave to.<br/>Wait."),
        make_chapter("Part Two"),
        make_highlight("3. The Rise &gt; Page 88 · Location 1536", "Anchor deep."),
        make_item("Bookmark - Page 90 · Location 1600", ""),
    )
    assert source.title == "On Sails & Anchors"
    assert source.author == "Ann Helm, Bo Sea"
    assert source.origin == "kindle"
    assert source.category == "books"
    assert list_passages(source) == [
        ("Reef early — always.", Locator(1, "PROLOGUE: Wind", "205")),
        ("Heave to.\nWait.", Locator(None, "PROLOGUE: Wind", "274")),
        ("Anchor deep.", Locator(88, "3. The Rise", "1536")),
    ]


def test_a_note_joins_the_highlight_before_it(tmp_path: Path) -> None:
    source = read_notebook(
        tmp_path,
        make_item("Note - Page 3 · Location 40", "Before all."),
        make_highlight("Page 12 · Location 180", "Reef early."),
        make_item("Note - Page 12 · Location 182", "So true."),
        make_item("Note - Page 60 · Location 900", "Far away."),
        make_highlight("Page 70", "No location."),
        make_item("Note - Page 71", "Mine."),
        make_item("Note - Page 72", "Too far."),
        make_chapter("Next"),
        make_item("Note - Page 71", "Of the next chapter."),
    )
    assert [text for text, _ in list_passages(source)] == [
        "Before all.",
        "Reef early.\n\nSo true.",
        "Far away.",
        "No location.\n\nMine.",
        "Too far.",
        "Of the next chapter.",
    ]


@pytest.mark.parametrize(
    ("colour", "highlight", "note", "locator"),
    [
        ("blau", "Markierung", "Notiz - Seite 5 · Position 1968", Locator(5, location="1968")),
        ("rosa", "Subrayado", "Nota - Página 5 · Posición 1968", Locator(5, location="1968")),
        ("orange", "Surlignement", "Note - Page 5 · Emplacement 19", Locator(5, location="19")),
        ("黄", "ハイライト", "メモ - ページ 61 · 位置No. 900", Locator(61, location="900")),
        ("żółty", "Zakreślenie", "Notatka - Strona 6 · Lokalizacja 9", Locator(6, location="9")),
        ("keltainen", "Korostus", "Muistiinpano - Sivu 61 · Sijainti 9", Locator()),
    ],
)
def test_notebooks_are_read_in_several_languages(
    tmp_path: Path, colour: str, highlight: str, note: str, locator: Locator
) -> None:
    """In a language that Carrel does not know, the colour tells a highlight from a note."""
    place = note.partition(" - ")[2]
    heading = f"{highlight} (<span class='highlight_blue'>{colour}</span>) - {place}"
    source = read_notebook(tmp_path, make_item(heading, "Theirs."), make_item(note, "Mine."))
    assert list_passages(source) == [("Theirs.\n\nMine.", locator)]


def test_elements_with_wrong_closing_tags_are_read(tmp_path: Path) -> None:
    source = read_notebook(
        tmp_path,
        "<h2 class='sectionHeading'>One</h2><h3 class='noteHeading'>Highlight(<span"
        " class='highlight_yellow'>yellow</span>) - Page 2</div><div class='noteText'>Reef</h3>"
        "<h3 class='noteHeading'>Note - Page 2</h3><div class='noteText'>Mine</div>",
    )
    assert list_passages(source) == [("Reef\n\nMine", Locator(2, "One"))]


def test_other_html_is_not_recognized_as_a_notebook() -> None:
    page = '<p class="bookTitle">Title</p><p>&lt;div class="noteHeading"&gt; is a heading.</p>'
    assert not recognizes(page)


def test_a_notebook_without_highlights_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, "empty.html", HEAD + "</div></body></html>")
    assert read_problems(path) == [("empty.html", "has no highlights and no notes")]


@pytest.mark.parametrize("repeated", ["<!--", "<div ", "&", "<![", "</"])
def test_a_megabyte_of_broken_markup_is_read(tmp_path: Path, repeated: str) -> None:
    """A parser that searches for the end of each tag again would need hours."""
    broken = repeated * (1_000_000 // len(repeated))
    source = read_notebook(tmp_path, make_highlight("Page 1", "Reef early."), broken)
    assert source.text.startswith("Reef early.")
