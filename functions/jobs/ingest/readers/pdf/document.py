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
from functools import partial
from pathlib import PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    check_size,
)
from functions.jobs.ingest.readers.fields import clean, to_headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.pdf import program
from functions.jobs.ingest.readers.pdf.hyphens import count_spellings, join_words
from functions.jobs.ingest.readers.pdf.metadata import parse_date, parse_metadata
from functions.jobs.ingest.readers.pdf.running_heads import remove_running_heads
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

MAX_BYTES: Final = 100 * MEGABYTE
"""The maximum size. PDFium reads a file in parts, but in the cloud the file is in memory."""
MAX_SECONDS: Final = 120.0
"""The time limit for reading a file. A file of 5,000 pages takes about 25 seconds."""
_SHORT_LINE_FRACTION: Final = 0.75
"""A line that ends a sentence also ends its paragraph if it is shorter than this fraction of the
median."""
_SENTENCE_END: Final = re.compile(r"[.!?:…][\"'”’»)\]]*$")  # noqa: RUF001 - quotation marks
_SCAN: Final = "is a scan without text: run OCR on it first"
_DAMAGED: Final = (
    "is damaged, or too large when unpacked: open it in a PDF viewer and save it again"
)
_SLOW: Final = f"takes longer than {MAX_SECONDS:.0f} seconds to read: split it"


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a PDF."""
    yield file.name, partial(_make_source, file)


def make_pdf_source(
    path: Path,
    *,
    source_id: str,
    title: str,
    url: str | None = None,
    written_at: datetime | None = None,
) -> Source:
    """Make a source from a PDF.

    Args:
        path: The file.
        source_id: The id of the source.
        title: The title if the PDF has none.
        url: The URL from which the PDF was fetched. Passages then link to their pages there.
        written_at: The date if the PDF has none.

    Raises:
        Unreadable: The file is too large, encrypted, damaged or a scan.
        OSError: The file cannot be opened.
    """
    if reason := check_size(path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    contents = _run_program(path)
    pages: list[str] = contents["pages"]
    spellings = count_spellings(pages)
    lines = [_split_lines(join_words(page, spellings)) for page in pages]
    text, starts = _join_pages(remove_running_heads(lines))
    if not text:
        raise Unreadable(_SCAN)
    raw_metadata: dict[str, str] = contents["metadata"]
    metadata = parse_metadata(raw_metadata, contents["language"], url)
    chapters = _find_chapters(contents["outline"], len(pages))
    locators = [
        Locator(page=number, chapter=chapter, url=_build_page_url(url, number))
        for number, chapter in enumerate(chapters, start=1)
    ]
    body = Section(
        text,
        locators=tuple((start, locators[index]) for start, index in starts),
        written_at=parse_date(raw_metadata.get("CreationDate", "")) or written_at,
    )
    highlights = (_make_highlight(item, spellings, locators) for item in contents["annotations"])
    return Source(
        source_id=source_id,
        title=to_headline(metadata.title or title) or "Untitled",
        **metadata.source_fields,
        sections=(body, *(section for section in highlights if section.text)),
        warnings=_make_warnings(pages),
    )


def _make_source(file: SourceFile) -> Source:
    return make_pdf_source(
        file.path,
        source_id=file.source_id,
        title=PurePosixPath(file.key).stem,
        url=file.url,
        written_at=file.modified_at,
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
    return [" ".join(line.split()) for line in clean(page).split("\n")]


def _join_pages(pages: Sequence[list[str]]) -> tuple[str, list[tuple[int, int]]]:
    """Join the lines of pages into paragraphs.

    Returns:
        The text, and a pair for each page that has text: the offset at which it begins, and the
        index of the page.
    """
    lengths = [len(line) for lines in pages for line in lines if line]
    median_length = median(lengths) if lengths else 0
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    offset, previous = 0, ""
    for index, lines in enumerate(pages):
        is_first, after_blank = True, False
        for line in lines:
            if not line:
                after_blank = True
                continue
            # A blank line at the top of a page does not end the paragraph from the page before.
            is_divided = after_blank and not is_first
            separator = (
                _choose_separator(previous, median_length, is_divided=is_divided) if parts else ""
            )
            offset += len(separator) + len(line)
            parts += (separator, line)
            if is_first:
                starts.append((offset - len(line), index))
            is_first, after_blank, previous = False, False, line
    return "".join(parts), starts


def _choose_separator(previous: str, median_length: float, *, is_divided: bool) -> str:
    """Return what separates a line from the previous one: a line break or a paragraph break."""
    is_short = len(previous) < _SHORT_LINE_FRACTION * median_length
    ends_paragraph = is_short and _SENTENCE_END.search(previous)
    return PARAGRAPH if is_divided or ends_paragraph else "\n"


def _find_chapters(outline: list[tuple[str, int]], page_count: int) -> list[str | None]:
    """Return each page's chapter: the last chapter that begins on this page or before it."""
    title_by_page = {number: title for name, number in outline if (title := to_headline(name))}
    chapters: list[str | None] = []
    current = None
    for number in range(1, page_count + 1):
        current = title_by_page.get(number, current)
        chapters.append(current)
    return chapters


def _make_highlight(
    item: dict[str, Any], spellings: Counter[str], locators: Sequence[Locator]
) -> Section:
    """Return the section of a highlight with the note about it, or of a lone note.

    A note that repeats the highlighted text is left out, because some viewers store one.
    """
    text = " ".join(clean(join_words(item["text"], spellings)).split())
    note = clean(item["note"]).strip()
    if " ".join(note.split()) == text:
        note = ""
    return Section(
        PARAGRAPH.join(filter(None, (text, note))),
        highlighted_at=parse_date(item["date"]),
        locators=((0, locators[item["page"] - 1]),),
    )


def _build_page_url(url: str | None, number: int) -> str | None:
    """Return the URL of a page in a PDF, with the fragment of RFC 8118, section 3."""
    return f"{url.partition('#')[0]}#page={number}" if url else None


def _make_warnings(pages: Sequence[str]) -> tuple[str, ...]:
    empty = sum(1 for page in pages if not page.strip())
    if empty <= len(pages) / 2:
        return ()
    return (f"{empty} of {len(pages)} pages have no text and may be scans; the others are kept",)


FORMAT: Final = Format(
    name="PDF",
    extensions=(".pdf",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages, without page numbers and repetitions of running heads",
        "page": "the page of a passage, from 1",
        "outline": "the chapter of a passage",
        "highlights, underlines, notes": "passages of their own, with their notes and dates",
        "Title": "the title; if it is missing or comes from a program, such as"
        " `PowerPoint Presentation` or `Report.docx`, the file's name",
        "Author": "the author; account names such as `Administrator` are left out",
        "Lang": "the language",
        "CreationDate": "the date of a new text; if missing, the file's date",
    },
    example="Sails.pdf: 120 pages of text (not of scans), with highlights made in a PDF viewer\n",
)
