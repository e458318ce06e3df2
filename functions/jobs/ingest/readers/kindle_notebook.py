"""The notebook of a book, as the Kindle apps export it: an HTML page with highlights and notes.

Its markup is often broken: elements are closed by the wrong tags. So the text of an element ends
where the next one of a known class begins.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import kindle
from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    read_text,
)
from functions.jobs.ingest.readers.fields import clean, headline, to_one_line
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.kindle import Annotation, Kind
from functions.jobs.ingest.readers.text_files import source_id_of
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    AnnotationWithNotes = tuple[Annotation, list[Annotation]]

MAX_BYTES: Final = 16 * MEGABYTE
_TITLE, _AUTHORS, _CHAPTER = "booktitle", "authors", "sectionheading"
_HEADING, _TEXT = "noteheading", "notetext"
_CLASSES: Final = frozenset(
    {"bodycontainer", "notebookfor", "citation", _TITLE, _AUTHORS, _CHAPTER, _HEADING, _TEXT}
)
_MARKS: Final = tuple(
    re.compile(rf"<\w+[^<>]{{0,200}}\bclass\s*=\s*[\"'](?:{names})[\"']".encode(), re.IGNORECASE)
    for names in (_TITLE, f"notebookfor|{_CHAPTER}|{_HEADING}")
)
_PAGE_ALONE: Final = re.compile(r"\w+\s+\d+")
_CHARACTERS_PER_LOCATION: Final = 100
_SLACK: Final = 10
"""How many locations after the estimated end of its highlight a note may be."""


def recognizes(beginning: bytes) -> bool:
    """Return whether an HTML page that begins like this is such a notebook."""
    return all(mark.search(beginning) for mark in _MARKS)


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield file.name, partial(_source, file)


def _source(file: SourceFile) -> Source:
    text = read_text(file.path, MAX_BYTES)
    parts = _parse_parts(text)
    fields = dict(reversed(parts))
    title = fields.get(_TITLE) or PurePosixPath(file.key).stem
    sections = [
        replace(kindle.make_section(annotation, notes), written_at=file.modified_at)
        for annotation, notes in _join_notes(list(_annotations(parts)))
    ]
    if not sections:
        raise Unreadable("has no highlights and no notes")
    return Source(
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=headline(title) or "Untitled",
        author=kindle.parse_authors(to_one_line(fields.get(_AUTHORS, ""))),
        origin="kindle",
        category="books",
        sections=tuple(sections),
    )


class _NotebookParser(HTMLParser):
    """Collects the texts of elements with known classes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a part, or a line."""
        names = (dict(attrs).get("class") or "").casefold().split()
        known = _CLASSES.intersection(names)
        if known:
            self.parts.append((min(known), []))
        elif tag in {"br", "p"} and self.parts:
            self.parts[-1][1].append("\n")

    def handle_data(self, data: str) -> None:
        """Add text to the part; a line break in the markup is a space."""
        if self.parts:
            self.parts[-1][1].append(re.sub(r"\s+", " ", data))


def _parse_parts(text: str) -> list[tuple[str, str]]:
    """Return the class and the text of each part.

    Raises:
        Unreadable: The markup is too broken for the parser.
    """
    parser = _NotebookParser()
    try:
        parser.feed(text)
        parser.close()
    except AssertionError as error:  # the parser's answer to some declarations
        raise Unreadable(f"is not valid HTML: {error}; export it again") from error
    return [(name, _clean_lines("".join(pieces))) for name, pieces in parser.parts]


def _clean_lines(text: str) -> str:
    lines = (" ".join(line.split()) for line in clean(text).split("\n"))
    return "\n".join(lines).strip()


def _annotations(parts: Sequence[tuple[str, str]]) -> Iterator[Annotation]:
    """Yield the highlights and the notes. Bookmarks are left out."""
    section = heading = ""
    for name, text in parts:
        if name == _CHAPTER:
            section = to_one_line(text)
        elif name == _HEADING:
            heading = to_one_line(text)
        elif name == _TEXT:
            annotation = _annotation(heading, section, text)
            heading = ""
            if text and annotation.kind is not Kind.BOOKMARK:
                yield annotation


def _annotation(heading: str, section: str, text: str) -> Annotation:
    """Return what a heading such as `Highlight(yellow) - Chapter > Page 4 · Location 274` says.

    In a language without known words, only a highlight has a colour.
    """
    beginning, _, rest = heading.partition(" - ")
    kind_name, has_colour, _ = beginning.partition("(")
    kind = kindle.parse_kind(kind_name) or (Kind.HIGHLIGHT if has_colour else Kind.NOTE)
    chapter, _, place = rest.rpartition(" > ")
    if _PAGE_ALONE.fullmatch(chapter):
        chapter, place = "", rest
    position = kindle.parse_position(place)
    return Annotation(kind, text, position, chapter=headline(chapter or section) or None)


def _join_notes(annotations: Sequence[Annotation]) -> list[AnnotationWithNotes]:
    """Join each note to the highlight before it, unless it is too far from it."""
    joined: list[AnnotationWithNotes] = []
    for annotation in annotations:
        if annotation.kind is Kind.NOTE and joined and _is_about(annotation, joined[-1][0]):
            joined[-1][1].append(annotation)
        else:
            joined.append((annotation, []))
    return joined


def _is_about(note: Annotation, highlight: Annotation) -> bool:
    """Return whether a note is where the highlight ends, which the notebook does not say."""
    if highlight.kind is Kind.NOTE or note.chapter != highlight.chapter:
        return False
    start, end = highlight.position, note.position
    if start.start is not None and end.start is not None:
        length = len(highlight.text) // _CHARACTERS_PER_LOCATION + _SLACK
        return start.start <= end.start <= start.start + length
    if start.page is not None and end.page is not None:
        return start.page <= end.page <= start.page + 1
    return True


FORMAT: Final = Format(
    name="Kindle notebook",
    endings=(".html", ".htm"),
    read=records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "bookTitle, authors": "the title and the author",
        "sectionHeading": "the chapter of the passages; a more exact one in `noteHeading` counts",
        "noteHeading": "the page and the location; colours and bookmarks are left out",
        "noteText": "a passage; a note is joined to the highlight before it, after an empty line",
    },
    example='<div class="bookTitle">On tests</div><div class="authors">Helm, Ann</div>\n'
    '<div class="noteHeading">Highlight(<span class="highlight_yellow">yellow</span>) - Page 12 ·'
    " Location 150</div>\n"
    '<div class="noteText">A flaky test is worse than none.</div>\n',
)
