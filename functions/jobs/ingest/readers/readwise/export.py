"""Reads Readwise exports: a response of `GET /api/v2/export/`, or the list of books from all pages.

https://readwise.io/api_deets (Highlight EXPORT) describes the fields. A book becomes a source, and
each highlight a section, whether the book comes from a file or from Readwise itself. A note about
the whole book and the book's summary become sections before the highlights, with the date of the
earliest highlight and without a link.

A file may be one page of an export, or an export with `updatedAfter`, which contains only the
changed highlights. So a book or a highlight is deleted only if a file says so.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from pydantic import Field

from functions.jobs.ingest.readers.decoding import read_unicode_text
from functions.jobs.ingest.readers.fields import (
    DATES,
    Block,
    ExternalModel,
    Line,
    Moment,
    People,
    Tags,
    Title,
    to_headline,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.readwise.action_tags import (
    DISCARD_TAG,
    TaggedNote,
    group_parts,
    parse_note,
)
from functions.jobs.ingest.readers.source_file import MEGABYTE, Record, SourceFile, Unreadable
from functions.jobs.ingest.readers.validation import describe_faults, parse_json, validate
from shared.core.dates import localize
from shared.core.ids import IdKind, has_kind, make_id
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from functions.jobs.ingest.readers.validation import Fault

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file or response. Parsing it takes several times as much memory."""
BOOK_NOTE_TAG: Final = "book note"
"""The tag that marks a note about a whole book."""
SUMMARY_TAG: Final = "summary"
"""The tag that marks a book's summary."""
FAVORITE_TAG: Final = "favorite"
"""The tag that marks a favourite highlight."""
_MAX_NAME: Final = 80
"""The maximum length of a name in a message, in characters."""
_MAX_NAMES: Final = 10
"""The maximum number of unknown fields that a warning names."""
_MAX_LOCATION: Final = 10_000_000
"""Larger numbers are not positions: they only sort highlights."""
_READER_ID: Final = re.compile(r"[0-9a-z]{1,40}")
_TO_READER: Final = "https://read.readwise.io/read/"
_TO_KINDLE: Final = "https://readwise.io/to_kindle?"


class Highlight(ExternalModel):
    """A highlighted passage with the reader's note."""

    id: int = 0
    text: Block = ""
    note: Block = ""
    location: float | None = None
    end_location: float | None = None
    location_type: Line = None
    highlighted_at: Moment = None
    updated_at: Moment = None
    url: Line = None
    readwise_url: Line = None
    external_id: Line = None
    tags: Tags = ()
    is_favorite: bool | None = None
    is_deleted: bool | None = None
    is_discard: bool | None = None


class Book(ExternalModel):
    """A book, article, podcast ... with its highlights."""

    user_book_id: Block = Field(min_length=1)
    title: Title = None
    readable_title: Title = None
    author: People = None
    source: Line = None
    category: Line = None
    book_tags: Tags = ()
    document_note: Block = ""
    summary: Block = ""
    readwise_url: Line = None
    source_url: Line = None
    unique_url: Line = None
    external_id: Line = None
    asin: Line = None
    is_deleted: bool | None = None
    highlights: list[Highlight] | None = None


OPTIONAL_FIELDS: Final = DATES | {
    "updated_at",
    "location",
    "end_location",
    "location_type",
    "is_favorite",
    "document_note",
    "summary",
    "unique_url",
    "external_id",
    "asin",
}
"""Fields that are dropped from a book or a highlight if they are not valid."""
_UNUSED_BOOK_FIELDS: Final = {"cover_image_url"}
_UNUSED_HIGHLIGHT_FIELDS: Final = {"book_id", "color", "created_at"}


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file: a list of books, or an object with such a list in `results`.

    Raises:
        Unreadable: The file is neither.
    """
    export = parse_json(read_unicode_text(file.path, MAX_BYTES))
    books = export.get("results") if isinstance(export, dict) else export
    if not isinstance(books, list):
        raise Unreadable("is not a Readwise export: neither a list of books nor `results` with one")
    unknown = describe_unknown_fields(count_unknown_fields(books))
    for number, book in enumerate(books, start=1):
        name = parse_book_name(book) or f"book {number}"
        yield Record(
            f"{file.name}: {name}",
            partial(add_file_warnings, unknown, partial(parse_source, book)),
        )


def parse_book_name(book: Any) -> str | None:
    """Return the title, or else the id, of an unvalidated book."""
    fields = book if isinstance(book, dict) else {}
    for field in ("readable_title", "title", "user_book_id"):
        if isinstance(value := fields.get(field), str | int) and (name := str(value).strip()):
            return to_headline(name, _MAX_NAME)
    return None


def derive_book_source_id(book_id: str) -> str:
    """Return the source id of a book."""
    return make_id(IdKind.READWISE_BOOK, book_id)


def is_book(source_id: str) -> bool:
    """Return whether a source id belongs to a Readwise book."""
    return has_kind(source_id, IdKind.READWISE_BOOK)


def parse_source(raw: Any) -> Source:
    """Convert a book to a source; a deleted or emptied book has no sections.

    Raises:
        Unreadable: A required field of the book is missing or not valid.
    """
    book, faults = parse_book(raw)
    return make_source(book, describe_faults(faults))


def parse_book(raw: Any) -> tuple[Book, list[Fault]]:
    """Validate a book, and drop the optional fields that are not valid.

    Raises:
        Unreadable: A required field of the book is missing or not valid.
    """
    return validate(Book, raw, OPTIONAL_FIELDS)


def make_source(book: Book, warnings: Sequence[str] = ()) -> Source:
    """Make the source of a book.

    Raises:
        Unreadable: The book lacks its highlights, or all its highlights are empty.
    """
    sections = _to_sections(book)
    passage_urls = {section.readwise_url for section in sections}
    return Source(
        source_id=derive_book_source_id(book.user_book_id),
        title=to_headline(
            book.readable_title or book.title or f"Readwise book {book.user_book_id}"
        ),
        author=book.author,
        origin=book.source or "readwise",
        category=book.category or "documents",
        tags=book.book_tags,
        readwise_url=book.readwise_url,
        source_url=book.source_url or book.unique_url or _build_reader_url(book, book.external_id),
        sections=sections,
        is_deleted=bool(book.is_deleted),
        deleted_highlights=frozenset(
            highlight.readwise_url
            for highlight in book.highlights or ()
            if highlight.readwise_url
            and highlight.readwise_url not in passage_urls
            and (highlight.text or not _is_present(highlight))
        ),
        changed_at=max(
            (
                localize(highlight.updated_at, UTC)
                for highlight in book.highlights or ()
                if highlight.updated_at
            ),
            default=None,
        ),
        warnings=tuple(warnings),
    )


def count_unknown_fields(books: Iterable[Any]) -> Counter[str]:
    """Count the fields in unvalidated books that the documentation of Readwise does not name."""
    counts: Counter[str] = Counter()
    known_of_book = Book.model_fields.keys() | _UNUSED_BOOK_FIELDS
    known_of_highlight = Highlight.model_fields.keys() | _UNUSED_HIGHLIGHT_FIELDS
    for book in books:
        if isinstance(book, dict):
            counts.update(book.keys() - known_of_book)
            highlights = book.get("highlights")
            for highlight in highlights if isinstance(highlights, list) else ():
                if isinstance(highlight, dict):
                    names = highlight.keys() - known_of_highlight
                    counts.update(f"highlights.{name}" for name in names)
    return counts


def describe_unknown_fields(counts: Mapping[str, int]) -> list[str]:
    """Return a list of at most one warning, such as `... fields ...: color2 (3 times) ...`."""
    if not counts:
        return []
    ordered = sorted(counts.items(), key=lambda field: (-field[1], field[0]))
    names = [f"{to_headline(name, _MAX_NAME)} ({count:,} times)" for name, count in ordered]
    more = len(names) - _MAX_NAMES
    shortened = ", ".join(names[:_MAX_NAMES] + ([f"and {more} more"] if more > 0 else []))
    return [f"the export has fields that Carrel does not know: {shortened}; kept without them"]


def add_file_warnings(file_warnings: list[str], build: Callable[[], Source]) -> Source:
    """Build a source, and move the warnings about its file to it.

    The list is emptied, because only the first source of a file that can be built gets them.
    """
    source = build()
    warnings = (*source.warnings, *file_warnings)
    file_warnings.clear()
    return replace(source, warnings=warnings)


def _to_sections(book: Book) -> tuple[Section, ...]:
    """Return the note about the book, its summary, and its highlights in reading order.

    The note and the summary have no dates in the export, so they get the earliest highlight's date.
    Deleted highlights are left out. Saving a source without sections deletes it, so a book that
    lacks its list of highlights, or the texts of all highlights, is an error. A summary alone does
    not make a source, because Reader writes one for everything that it saves.
    """
    if book.is_deleted:
        return ()
    if book.highlights is None:
        raise Unreadable("has no `highlights`")
    present = [highlight for highlight in book.highlights if _is_present(highlight)]
    passages = [
        _to_section(highlight, chapter, book)
        for highlight, chapter in _apply_action_tags(sorted(present, key=_make_reading_order_key))
        if highlight.text or highlight.note
    ]
    dates = [section.highlighted_at for section in passages if section.highlighted_at]
    earliest = min(dates, key=partial(localize, zone=UTC), default=None)
    about_book = partial(Section, written_at=earliest)
    about = [about_book(book.document_note, tags=(BOOK_NOTE_TAG,))] if book.document_note else []
    has_text = any(highlight.text or highlight.note for highlight in present)
    if present and not has_text and not about:
        raise Unreadable("has no text: all its highlights are empty")
    if book.summary and (passages or about):
        about.append(about_book(book.summary, tags=(SUMMARY_TAG,)))
    return (*about, *passages)


def _is_present(highlight: Highlight) -> bool:
    """Return whether a highlight was neither deleted nor discarded."""
    is_discarded = highlight.is_discard
    if is_discarded is None:  # a CSV export has only the tag
        is_discarded = DISCARD_TAG in map(str.casefold, highlight.tags)
    is_typed = parse_note(highlight.note, ()).is_discarded
    return not (highlight.is_deleted or is_discarded or is_typed)


def _make_reading_order_key(highlight: Highlight) -> tuple[float, int]:
    return (math.inf if highlight.location is None else highlight.location, highlight.id)


def _apply_action_tags(
    highlights: Sequence[Highlight],
) -> Iterator[tuple[Highlight, str | None]]:
    """Yield the passages, each with its chapter.

    A heading to which the reader wrote a note stays a passage, because the note would be lost.
    """
    notes = [parse_note(highlight.note, highlight.tags) for highlight in highlights]
    heading: Highlight | None = None
    for group in group_parts(note.part for note in notes):
        first, note = highlights[group[0]], notes[group[0]]
        if heading and first.location is None and heading.location is not None:
            heading = None  # where it stands is unknown
        if note.is_heading:
            heading = first
        if note.text or not note.is_heading:
            chapter = to_headline(heading.text) or None if heading else None
            joined = _join_parts([highlights[i] for i in group], [notes[i] for i in group])
            yield joined, chapter


def _join_parts(highlights: Sequence[Highlight], notes: Sequence[TaggedNote]) -> Highlight:
    """Return one highlight for the parts of a quotation, whose omissions are marked."""
    last = highlights[-1]
    return highlights[0].model_copy(
        update={
            "text": " … ".join(filter(None, (highlight.text for highlight in highlights))),
            "note": _join_paragraphs(*(note.text for note in notes)),
            "tags": tuple(dict.fromkeys(tag for note in notes for tag in note.tags)),
            "end_location": last.end_location or last.location,
            "is_favorite": any(highlight.is_favorite for highlight in highlights),
        }
    )


def _to_section(highlight: Highlight, chapter: str | None, book: Book) -> Section:
    """Return a section of the highlighted text and the reader's note, so that both are searched."""
    locator = replace(_to_locator(highlight, book), chapter=chapter)
    favorite = (FAVORITE_TAG,) if highlight.is_favorite else ()
    return Section(
        _join_paragraphs(highlight.text, highlight.note),
        tags=tuple(dict.fromkeys(highlight.tags + favorite)),
        readwise_url=highlight.readwise_url,
        highlight_url=highlight.url or _build_reader_url(book, highlight.external_id),
        highlighted_at=highlight.highlighted_at,
        locators=((0, locator),) if locator != Locator() else (),
    )


def _join_paragraphs(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _to_locator(highlight: Highlight, book: Book) -> Locator:
    """Return a highlight's position; empty if its location is only a number for sorting."""
    number = int(highlight.location or 0)
    if not 0 < number < _MAX_LOCATION:
        return Locator()
    match highlight.location_type:
        case "page":
            return Locator(page=number)
        case "location":
            end = int(highlight.end_location or 0)
            location = f"{number}-{end}" if number < end < _MAX_LOCATION else str(number)
            query = urlencode({"action": "open", "asin": book.asin, "location": number})
            return Locator(location=location, url=_TO_KINDLE + query if book.asin else None)
        case "time_offset":
            return Locator(location=f"{timedelta(seconds=number)}")
    return Locator()


def _build_reader_url(book: Book, external_id: str | None) -> str | None:
    """Return the URL of a document or a highlight in Reader; None if it is not from Reader."""
    if book.source != "reader" or not _READER_ID.fullmatch(external_id or ""):
        return None
    return f"{_TO_READER}{external_id}"


FORMAT: Final = Format(
    name="Readwise export",
    extensions=(".json",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "user_book_id": "the id of the source",
        "readable_title, title": "the title",
        "author": "the author",
        "source": "the origin, such as kindle or reader",
        "category": "the category",
        "book_tags": "tags of the source",
        "document_note": "a passage tagged `book note`, dated as the earliest highlight",
        "summary": "a passage tagged `summary`, dated as the earliest highlight",
        "readwise_url": "its page in Readwise",
        "source_url, unique_url": "the original; of a document of Reader else by `external_id`",
        "highlights.text, highlights.note": "a passage: the text, an empty line, the note",
        "highlights.tags": "tags of the passage",
        "`.h1`, `.c1`, `.d`, `.word` in a note": "Readwise's action tags: a chapter of the passages"
        " after it, a part of one passage, a passage that is left out, a tag",
        "highlights.is_favorite": "the tag `favorite` of the passage",
        "highlights.is_discard": "left out",
        "highlights.location, highlights.end_location, highlights.location_type": "the order; the"
        " page, the location in a Kindle book, or the time in a podcast",
        "highlights.highlighted_at": "the date of the passage",
        "highlights.readwise_url": "the highlight in Readwise",
        "highlights.url": "the highlight in the original; else by `external_id` in Reader, or by"
        " `asin` and location in the Kindle app",
    },
    example='{"results": [{"user_book_id": 7, "title": "On tests", "document_note": "Read again.",'
    ' "highlights": [{"id": 1, "text": "A flaky test is worse than none.", "note": "So true.",'
    ' "location": 12, "location_type": "page", "is_favorite": true}]}]}\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
