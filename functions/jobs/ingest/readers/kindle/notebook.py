"""Reads a book's notebook, which Kindle apps export as an HTML page with highlights and notes.

The markup is often broken: elements are closed by the wrong tags. So an element's text is taken to
end where the next element with a known class begins.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.decoding import read_unicode_text
from functions.jobs.ingest.readers.fields import clean, to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.kindle.annotation import (
    Annotation,
    AnnotationKind,
    format_authors,
    make_section,
    parse_kind,
    parse_position,
)
from functions.jobs.ingest.readers.source_file import MEGABYTE, Record, SourceFile, Unreadable
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.knowledge.source import Section

MAX_BYTES: Final = 16 * MEGABYTE
"""The maximum size of a file."""
_TITLE, _AUTHORS, _CHAPTER = "booktitle", "authors", "sectionheading"
_HEADING, _TEXT = "noteheading", "notetext"
_CLASSES: Final = frozenset(
    {"bodycontainer", "notebookfor", "citation", _TITLE, _AUTHORS, _CHAPTER, _HEADING, _TEXT}
)
_MARKS: Final = tuple(
    re.compile(rf"<\w+[^<>]{{0,200}}\bclass\s*=\s*[\"'](?:{names})[\"']", re.IGNORECASE)
    for names in (_TITLE, f"notebookfor|{_CHAPTER}|{_HEADING}")
)
"""The elements by which a notebook is recognized: the book's title, and another that only notebooks
have."""
_TAG: Final = re.compile(r"<[^<>]*>")
_CLASS: Final = re.compile(r"\bclass\s*=\s*[\"']([^\"'<>]*)", re.IGNORECASE)
_PAGE_ALONE: Final = re.compile(r"\w+\s+\d+")
"""A page, such as `Page 4`, in place of a chapter's title."""
_CHARACTERS_PER_LOCATION: Final = 100
"""The assumed number of characters in a location, from which a highlight's end is estimated."""
_SLACK: Final = 10
"""A note may be at most this many locations after the estimated end of its highlight."""


class _AnnotationWithNotes(NamedTuple):
    """A highlight with the notes about it, or a lone note."""

    annotation: Annotation
    notes: list[Annotation]


def recognizes(beginning: str) -> bool:
    """Return whether an HTML page that begins like this is a Kindle notebook."""
    return all(mark.search(beginning) for mark in _MARKS)


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield Record(file.name, partial(_read_source, file))


def _read_source(file: SourceFile) -> Source:
    text = read_unicode_text(file.path, MAX_BYTES)
    parts = _parse_parts(text)
    fields = dict(reversed(parts))  # the first element of each class wins
    title = fields.get(_TITLE) or PurePosixPath(file.relative_path).stem
    sections = [
        replace(section, saved_at=file.modified_at)
        for section in make_sections(list(_parse_annotations(parts)))
    ]
    if not sections:
        raise Unreadable("has no highlights and no notes")
    return Source(
        source_id=file.source_id,
        title=to_headline(title) or "Untitled",
        author=format_authors(to_one_line(fields.get(_AUTHORS, ""))),
        origin="kindle",
        category="books",
        sections=tuple(sections),
    )


def _parse_parts(text: str) -> list[tuple[str, str]]:
    """Return the class and the text of each element with a known class, in linear time.

    The standard library's parser takes quadratic time for a file of unclosed comments.
    """
    parts: list[tuple[str, list[str]]] = []
    is_code = False
    for piece in _split_at_tags(text):
        if tag := _TAG.fullmatch(piece):
            element = tag[0].strip("</> \t\n").partition(" ")[0].casefold()
            is_code = element in {"script", "style"} and not piece.startswith("</")
            attribute = _CLASS.search(piece)
            names = attribute[1].casefold().split() if attribute else []
            if part_names := _CLASSES.intersection(names):
                parts.append((min(part_names), []))
            elif parts and element in {"br", "p"}:
                parts[-1][1].append("\n")
        elif parts and not is_code:
            parts[-1][1].append(re.sub(r"\s+", " ", unescape(piece)))
    return [(name, _clean_lines("".join(pieces))) for name, pieces in parts]


def _split_at_tags(text: str) -> Iterator[str]:
    """Yield the tags of a page, and the texts between them."""
    end = 0
    for tag in _TAG.finditer(text):
        yield text[end : tag.start()]
        yield tag[0]
        end = tag.end()
    yield text[end:]


def _clean_lines(text: str) -> str:
    lines = (" ".join(line.split()) for line in clean(text).split("\n"))
    return "\n".join(lines).strip()


def _parse_annotations(parts: Sequence[tuple[str, str]]) -> Iterator[Annotation]:
    """Yield the highlights and the notes. Bookmarks are left out."""
    section = heading = ""
    for name, text in parts:
        if name == _CHAPTER:
            section = to_one_line(text)
        elif name == _HEADING:
            heading = to_one_line(text)
        elif name == _TEXT:
            annotation = _parse_annotation(heading, section, text)
            heading = ""
            if text and annotation.kind is not AnnotationKind.BOOKMARK:
                yield annotation


def _parse_annotation(heading: str, section: str, text: str) -> Annotation:
    """Parse a heading such as `Highlight(yellow) - Chapter > Page 4 · Location 274`.

    In a language whose words are not known, an annotation with a colour is a highlight.
    """
    beginning, _, rest = heading.partition(" - ")
    kind_name, has_colour, _ = beginning.partition("(")
    kind = parse_kind(kind_name) or (
        AnnotationKind.HIGHLIGHT if has_colour else AnnotationKind.NOTE
    )
    chapter, _, place = rest.rpartition(" > ")
    if _PAGE_ALONE.fullmatch(chapter):
        chapter, place = "", rest
    position = parse_position(place)
    return Annotation(kind, text, position, chapter=to_headline(chapter or section) or None)


def make_sections(annotations: Sequence[Annotation]) -> list[Section]:
    """Return the sections of highlights, each joined with the notes that follow it."""
    return [
        make_section(annotation, [note.text for note in notes])
        for annotation, notes in _join_notes(annotations)
    ]


def _join_notes(annotations: Sequence[Annotation]) -> list[_AnnotationWithNotes]:
    """Join each note to the highlight before it, unless the note is too far away."""
    joined: list[_AnnotationWithNotes] = []
    for annotation in annotations:
        is_note = annotation.kind is AnnotationKind.NOTE
        if is_note and joined and _is_about(annotation, joined[-1].annotation):
            joined[-1].notes.append(annotation)
        else:
            joined.append(_AnnotationWithNotes(annotation, []))
    return joined


def _is_about(note: Annotation, highlight: Annotation) -> bool:
    """Return whether a note may belong to a highlight, whose end the notebook does not give."""
    if highlight.kind is AnnotationKind.NOTE or note.chapter != highlight.chapter:
        return False
    start, location = highlight.position.first_location, note.position.first_location
    if start is not None and location is not None:
        length = len(highlight.text) // _CHARACTERS_PER_LOCATION + _SLACK
        return start <= location <= start + length
    start_page, page = highlight.position.page, note.position.page
    if start_page is not None and page is not None:
        return start_page <= page <= max(highlight.position.end, start_page + 1)
    return True


FORMAT: Final = Format(
    name="Kindle notebook",
    extensions=(".html", ".htm"),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    adds_only=True,
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
