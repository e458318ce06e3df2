"""Reads PDF files: text with page numbers and chapters, and the user's highlights and notes.

PDFium, the PDF library of Chrome, parses the files through pypdfium2 (BSD-3-Clause and Apache-2.0;
a 4 MB wheel without dependencies). It read 300 pages of 3,200 characters in 1.4 s; pypdf
(BSD-3-Clause, pure Python) took 4.6 s. The module `program` describes the process in which PDFium
runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.fields import clean, to_headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.pdf import program
from functions.jobs.ingest.readers.pdf.chapters import find_chapters
from functions.jobs.ingest.readers.pdf.hyphens import (
    count_spellings,
    join_words,
    mark_hyphens,
)
from functions.jobs.ingest.readers.pdf.metadata import parse_date, parse_metadata
from functions.jobs.ingest.readers.pdf.running_heads import remove_running_heads
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from shared.knowledge.source import PAGE_FRAGMENT, Locator, Section, Source

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

MAX_BYTES: Final = 100 * MEGABYTE
"""The maximum size. PDFium reads a file in parts, but in the cloud the file is in memory."""
MAX_SECONDS: Final = 120.0
"""The time limit for reading a file. A file of 5,000 pages takes about 25 seconds."""
_SHORT_LINE_FRACTION: Final = 0.75
"""A line that ends a sentence also ends its paragraph if it is shorter than this fraction of the
median."""
_LEADER: Final = re.compile(r" ?(?:\. ?){5,}")
"""The dots between a title and its page number in a table of contents."""
_MIN_EMPTY: Final = 3
"""As many pages without text, or more than half of the pages, are named in a warning."""
_MAX_RANGES: Final = 20
"""The maximum number of ranges of pages that a warning names."""
_MATCHED_WORDS: Final = 8
"""A highlight is found in the text of its page by this many words."""
_SENTENCE_END: Final = re.compile(r"[.!?:…][\"'”’»)\]]*$")  # noqa: RUF001 - quotation marks
_SCAN: Final = "is a scan without text: run OCR on it first"
_DAMAGED: Final = (
    "is damaged, or too large when unpacked: open it in a PDF viewer and save it again"
)
_SLOW: Final = f"takes longer than {MAX_SECONDS:.0f} seconds to read: split it"


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a PDF."""
    yield Record(file.name, partial(_make_source, file))


def make_pdf_source(
    path: Path,
    *,
    source_id: str,
    title: str,
    url: str | None = None,
    saved_at: datetime | None = None,
) -> Source:
    """Make a source from a PDF.

    Args:
        title: The title if the PDF has none.
        url: The URL from which the PDF was fetched. Passages then link to their pages there.
        saved_at: When it was saved.

    Raises:
        Unreadable: The file is too large, encrypted, damaged or a scan.
        OSError: The file cannot be opened.
    """
    if reason := describe_excess(path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    contents = _run_program(path)
    pages: list[str] = contents["pages"]
    spellings = count_spellings(pages)
    lines = join_words(remove_running_heads(list(map(_split_lines, pages))), spellings)
    text, locators = _join_pages(lines, find_chapters(contents["outline"], lines), url)
    locators = _add_labels(locators, contents["labels"])
    if not text:
        raise Unreadable(_SCAN)
    unread = _describe_empty_pages(pages)
    raw_metadata: dict[str, str] = contents["metadata"]
    metadata = parse_metadata(raw_metadata, contents["language"], url)
    body = Section(
        text,
        locators=locators,
        written_at=parse_date(raw_metadata.get("CreationDate", "")),
        saved_at=saved_at,
    )
    highlights = (_make_highlight(item, spellings, body, url) for item in contents["annotations"])
    return Source(
        source_id=source_id,
        title=to_headline(metadata.title or title) or "Untitled",
        **metadata.source_fields,
        sections=(body, *(section for section in highlights if section.text)),
        unread=unread,
        warnings=(f"{unread}; the others are kept",) if unread else (),
    )


def _make_source(file: SourceFile) -> Source:
    return make_pdf_source(
        file.path,
        source_id=file.source_id,
        title=PurePosixPath(file.relative_path).stem,
        url=file.url,
        saved_at=file.modified_at,
    )


def _run_program(path: Path) -> dict[str, Any]:
    """Run `program` without keys and tokens in its environment, and return its JSON output."""
    with path.open("rb"):  # raises an OSError that names the file
        pass
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if system_root := os.environ.get("SYSTEMROOT"):  # Python on Windows does not start without it
        environment["SYSTEMROOT"] = system_root
    try:
        process = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", program.__name__, str(path.resolve())],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unreadable(_SLOW) from error
    try:
        contents: dict[str, Any] = json.loads(process.stdout)
    except ValueError as error:  # the process crashed or ran out of memory
        raise Unreadable(_DAMAGED) from error
    if refusal := contents.get("refusal"):
        raise Unreadable(refusal)
    return contents


def _split_lines(page: str) -> list[str]:
    lines = (" ".join(line.split()) for line in clean(mark_hyphens(page)).split("\n"))
    return [_LEADER.sub(" … ", line) for line in lines]


def _join_pages(
    pages: Sequence[list[str]], chapters: Sequence[Mapping[int, str]], url: str | None
) -> tuple[str, tuple[tuple[int, Locator], ...]]:
    """Join the lines of pages into paragraphs.

    Args:
        chapters: The chapter titles of each page, by the index of the line at which they begin, or
            by the number of lines if they begin after the page.

    Returns:
        The text, and the locators with the offsets at which they begin: one for each page that has
        text, and one for each chapter.
    """
    lengths = [len(line) for lines in pages for line in lines if line]
    median_length = median(lengths) if lengths else 0
    parts: list[str] = []
    locators: list[tuple[int, Locator]] = []
    chapter: str | None = None
    offset = 0
    previous = ""  # the line before
    for number, (lines, titles) in enumerate(zip(pages, chapters, strict=True), start=1):
        is_first = True
        after_blank = False
        for index, line in enumerate(lines or [""]):
            chapter = titles.get(index, chapter)
            if not line:
                after_blank = True
                continue
            begins_chapter = index in titles
            # A blank line at the top of a page does not end the paragraph from the page before.
            is_divided = (after_blank and not is_first) or begins_chapter
            separator = (
                _choose_separator(previous, median_length, is_divided=is_divided) if parts else ""
            )
            offset += len(separator) + len(line)
            parts += (separator, line)
            if is_first or begins_chapter:
                locator = Locator(page=number, chapter=chapter, url=_build_page_url(url, number))
                locators.append((offset - len(line), locator))
            is_first = after_blank = False
            previous = line
        chapter = titles.get(len(lines), chapter)
    return "".join(parts), tuple(locators)


def _add_labels(
    locators: Sequence[tuple[int, Locator]], labels: Sequence[str]
) -> tuple[tuple[int, Locator], ...]:
    """Add the labels of pages, such as `page xii`, that differ from their numbers."""
    named = {
        number: f"page {label}"
        for number, label in enumerate(map(to_headline, labels), start=1)
        if label and label != str(number)
    }
    return tuple(
        (start, replace(locator, location=named.get(locator.page or 0)))
        for start, locator in locators
    )


def _choose_separator(previous: str, median_length: float, *, is_divided: bool) -> str:
    """Return what separates a line from the previous one: a line break or a paragraph break."""
    is_short = len(previous) < _SHORT_LINE_FRACTION * median_length
    ends_paragraph = is_short and _SENTENCE_END.search(previous)
    return PARAGRAPH if is_divided or ends_paragraph else "\n"


def _make_highlight(
    item: dict[str, Any], spellings: Counter[str], body: Section, url: str | None
) -> Section:
    """Return the section of a highlight with the note about it, or of a lone note.

    A note that repeats the highlighted text is left out, because some viewers store one.
    """
    [lines] = join_words([_split_lines(item["text"])], spellings)
    text = " ".join(filter(None, lines))
    note = clean(item["note"]).strip()
    if " ".join(note.split()) == text:
        note = ""
    locator = _find_locator(text, item["page"], body)
    return Section(
        PARAGRAPH.join(filter(None, (text, note))),
        highlighted_at=parse_date(item["date"]),
        locators=(
            (0, locator or Locator(page=item["page"], url=_build_page_url(url, item["page"]))),
        ),
    )


def _find_locator(highlight: str, page: int, body: Section) -> Locator | None:
    """Return the locator of a highlight: of its text if that is found, or else of its page.

    None means that the page has no text.
    """
    on_page = [(start, locator) for start, locator in body.locators if locator.page == page]
    if not on_page:
        return None
    words = highlight.split()[:_MATCHED_WORDS]
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    match = pattern.search(body.text, on_page[0][0]) if words else None
    position = match.start() if match else on_page[0][0]
    return [locator for start, locator in on_page if start <= position][-1]


def _build_page_url(url: str | None, number: int) -> str | None:
    return f"{url.partition('#')[0]}{PAGE_FRAGMENT}{number}" if url else None


def _describe_empty_pages(pages: Sequence[str]) -> str | None:
    empty = [number for number, page in enumerate(pages, start=1) if not page.strip()]
    if len(empty) < _MIN_EMPTY and 2 * len(empty) <= len(pages):  # a book has blank pages
        return None
    counts = f"{len(empty)} of {len(pages)} pages have no text"
    return f"{counts} and may be scans ({_format_pages(empty)})"


def _format_pages(numbers: Sequence[int]) -> str:
    """Format page numbers as ranges: `pages 2-4, 9`."""
    present = set(numbers)
    starts = [number for number in numbers if number - 1 not in present]
    ends = [number for number in numbers if number + 1 not in present]
    ranges = [
        str(start) if start == end else f"{start}-{end}"
        for start, end in zip(starts, ends, strict=True)
    ]
    more = [f"and {len(ranges) - _MAX_RANGES} more ranges"] * (len(ranges) > _MAX_RANGES)
    return f"page{'s' * (len(numbers) > 1)} {', '.join(ranges[:_MAX_RANGES] + more)}"


FORMAT: Final = Format(
    name="PDF",
    extensions=(".pdf",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages, without page numbers and repetitions of running heads",
        "page": "the page of a passage, from 1; its label, such as `page xii`, if it has another",
        "outline": "the chapter of a passage, from the line with its title",
        "highlights, underlines, notes": "passages of their own, with their notes and dates; so are"
        " drawings and struck-out text if they have a note",
        "text in form fields": "a passage for each page",
        "Title": "the title; if it is missing or comes from a program, such as"
        " `PowerPoint Presentation` or `Report.docx`, the file's name",
        "Author": "the author; account names such as `Administrator` are left out",
        "Lang": "the language",
        "CreationDate": "the date of a new text; if missing, the file's date",
    },
    example="Sails.pdf: 120 pages of text (not of scans), with highlights made in a PDF viewer\n",
)
