"""PDF files: text with page numbers and chapters, and the user's highlights and notes.

PDFium, the PDF library of Chrome, reads them through pypdfium2 (BSD-3-Clause and Apache-2.0; a 4 MB
wheel without dependencies). On 300 pages of 3,200 characters it took 1.4 s; pypdf (BSD-3-Clause,
pure Python) took 4.6 s. PDFium marks words that are hyphenated at line ends, and `_join_words`
joins them. `pdf_program` describes the process in which PDFium runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers import pdf_program
from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    excess,
    validated,
)
from functions.jobs.ingest.readers.fields import DocumentMetadata, clean, headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.text_files import source_id_of
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

MAX_BYTES: Final = 100 * MEGABYTE
"""Larger files are refused. PDFium reads a file in parts, but in the cloud files are in memory."""
MAX_SECONDS: Final = 120.0
"""A file that takes longer is refused. A file of 5,000 pages takes about 25 seconds."""
_EDGE_LINES: Final = 2
"""The lines at the top and at the bottom of a page that may be running heads or page numbers."""
_MIN_REPEATS: Final = 3
"""A running head is on at least this many pages."""
_MIN_REPEAT_FRACTION: Final = 0.05
"""A running head is on at least this fraction of all pages. Each chapter may have its own."""
_SHORT_LINE_FRACTION: Final = 0.75
"""A line that ends a sentence also ends its paragraph if it is shorter than this fraction of the
median."""
_LINE_END_HYPHEN: Final = re.compile("-?\ufffe\r?\n?")
"""What PDFium writes for a hyphen and the line break after it."""
_SENTENCE_END: Final = re.compile(r"[.!?:…][\"'”’»)\]]*$")  # noqa: RUF001 - quotation marks
_NUMBER: Final = re.compile(r"\d+")
_MAX_DIGITS: Final = 9
"""A page number has fewer. Python refuses to parse thousands of digits."""
_DATE: Final = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?'?|Z.*)?"
)
"""A PDF date, such as D:20240601100000Z (ISO 32000-1, 7.9.4)."""
_APPLICATION_PREFIX: Final = re.compile(r"^Microsoft \w+ - ", re.IGNORECASE)
_PLACEHOLDER_TITLES: Final = frozenset({"", "untitled"})
_SCAN: Final = "is a scan without text: run OCR on it first"
_DAMAGED: Final = (
    "is damaged, or too large when unpacked: open it in a PDF viewer and save it again"
)
_SLOW: Final = f"takes longer than {MAX_SECONDS:.0f} seconds to read: split it"


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a PDF."""
    yield file.name, partial(_make_source, file)


def pdf_source(
    path: Path,
    *,
    source_id: str,
    title: str,
    url: str | None = None,
    written_at: datetime | None = None,
) -> Source:
    """Make a source of a PDF.

    Args:
        path: The file.
        source_id: The id of the source.
        title: The title if the PDF has none.
        url: The URL from which it was fetched. Passages then link to their pages there.
        written_at: The date if the PDF has none.

    Raises:
        Unreadable: The file is too large, encrypted, damaged or a scan.
        OSError: The file cannot be opened.
    """
    if reason := excess(path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    contents = _run_program(path)
    pages: list[str] = contents["pages"]
    text, starts = _join_pages(_remove_running_heads([_split_lines(page) for page in pages]))
    if not text:
        raise Unreadable(_SCAN)
    raw_metadata: dict[str, str] = contents["metadata"]
    metadata = _parse_metadata(raw_metadata, contents["language"], url)
    chapters = _find_chapters(contents["outline"], len(pages))
    locators = [
        Locator(page=number, chapter=chapter, url=_build_page_url(url, number))
        for number, chapter in enumerate(chapters, start=1)
    ]
    body = Section(
        text,
        locators=tuple((start, locators[index]) for start, index in starts),
        written_at=_parse_date(raw_metadata.get("CreationDate", "")) or written_at,
    )
    highlights = (_make_highlight(item, locators) for item in contents["annotations"])
    return Source(
        source_id=source_id,
        title=headline(metadata.title or title) or "Untitled",
        **metadata.source_fields,
        sections=(body, *(section for section in highlights if section.text)),
        warnings=_make_warnings(pages),
    )


def _make_source(file: SourceFile) -> Source:
    return pdf_source(
        file.path,
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=PurePosixPath(file.key).stem,
        url=file.url,
        written_at=file.modified_at,
    )


def _run_program(path: Path) -> dict[str, Any]:
    """Run `pdf_program`, and return what it found. Its environment has no keys and no tokens."""
    with path.open("rb"):  # an OSError now names the file
        pass
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if system_root := os.environ.get("SYSTEMROOT"):  # Windows starts no Python without it
        environment["SYSTEMROOT"] = system_root
    try:
        process = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", pdf_program.__name__, str(path.resolve())],
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
    return [" ".join(line.split()) for line in clean(_join_words(page)).split("\n")]


def _join_words(text: str) -> str:
    """Join words that a line break divides. Before a capital or a digit, the hyphen is kept."""
    first, *rest = _LINE_END_HYPHEN.split(text)
    return first + "".join(
        f"-{part}" if part[:1].isupper() or part[:1].isdigit() else part for part in rest
    )


def _remove_running_heads(pages: list[list[str]]) -> list[list[str]]:
    """Remove first and last lines that many pages have, apart from the page number in them."""
    counts = Counter(
        key
        for index, lines in enumerate(pages)
        for step in (1, -1)
        for key in {
            key
            for line in _first_lines(lines, step)
            for key in _running_head_keys(line, step, index)
        }
    )
    min_count = max(_MIN_REPEATS, _MIN_REPEAT_FRACTION * len(pages))

    def is_running_head(line: str, step: int, index: int) -> bool:
        return any(counts[key] >= min_count for key in _running_head_keys(line, step, index))

    return [
        _trim(_trim(lines, 1, index, is_running_head), -1, index, is_running_head)
        for index, lines in enumerate(pages)
    ]


def _trim(
    lines: list[str],
    step: int,
    page_index: int,
    is_running_head: Callable[[str, int, int], bool],
) -> list[str]:
    """Remove the running heads at the top of a page (step 1), or at the bottom (-1)."""
    rest = lines[::step]
    for _ in range(_EDGE_LINES):
        first = next((index for index, line in enumerate(rest) if line), None)
        if first is None or not is_running_head(rest[first], step, page_index):
            break
        rest = rest[first + 1 :]
    return rest[::step]


def _first_lines(lines: list[str], step: int) -> list[str]:
    """Return the lines at the top of a page (step 1), or at the bottom (-1)."""
    return [line for line in lines[::step] if line][:_EDGE_LINES]


def _running_head_keys(line: str, step: int, page_index: int) -> Iterator[tuple[int, str]]:
    """Yield keys that are the same for one running head on different pages.

    The line may be the same, or differ only in the page number, which is its first or its last
    number: `12 Sails`, `Page 3 of 90`.
    """
    yield step, line
    numbers = list(_NUMBER.finditer(line))
    for match in {numbers[0], numbers[-1]} if numbers else ():
        number_offset = int(match[0][:_MAX_DIGITS]) - page_index
        yield step, f"{line[: match.start()]}\0{number_offset}{line[match.end() :]}"


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
            # A paragraph may go on below the blank top of a page.
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


def _parse_metadata(
    raw_metadata: dict[str, str], language: str, url: str | None
) -> DocumentMetadata:
    title = _APPLICATION_PREFIX.sub("", clean(raw_metadata.get("Title", ""))).strip()
    fields = {
        "title": None if title.casefold() in _PLACEHOLDER_TITLES else title,
        "author": raw_metadata.get("Author"),
        "language": language,
        "url": url,
    }
    metadata, _ = validated(DocumentMetadata, fields, set(fields))
    return metadata


def _find_chapters(outline: list[tuple[str, int]], page_count: int) -> list[str | None]:
    """Return the title of the chapter of each page: the last that begins on it or before."""
    title_by_page = {number: title for name, number in outline if (title := headline(name))}
    chapters: list[str | None] = []
    current = None
    for number in range(1, page_count + 1):
        current = title_by_page.get(number, current)
        chapters.append(current)
    return chapters


def _make_highlight(item: dict[str, Any], locators: Sequence[Locator]) -> Section:
    """Return the section of a highlight and the note about it, or of a note alone.

    Some viewers store the highlighted text as the note, too.
    """
    text = " ".join(clean(_join_words(item["text"])).split())
    note = clean(item["note"]).strip()
    if " ".join(note.split()) == text:
        note = ""
    return Section(
        PARAGRAPH.join(filter(None, (text, note))),
        highlighted_at=_parse_date(item["date"]),
        locators=((0, locators[item["page"] - 1]),),
    )


def _build_page_url(url: str | None, number: int) -> str | None:
    """Return the URL of a page, with the fragment of RFC 8118, section 3."""
    return f"{url.partition('#')[0]}#page={number}" if url else None


def _parse_date(text: str) -> datetime | None:
    """Return a PDF date in UTC, or None if it is not valid."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    *numbers, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _make_warnings(pages: Sequence[str]) -> tuple[str, ...]:
    empty = sum(1 for page in pages if not page.strip())
    if empty <= len(pages) / 2:
        return ()
    return (f"{empty} of {len(pages)} pages have no text: they may be scans. The others are kept",)


FORMAT: Final = Format(
    name="PDF",
    endings=(".pdf",),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages, without running heads and page numbers",
        "page": "the page of a passage, from 1",
        "outline": "the chapter of a passage",
        "highlights, underlines, notes": "passages of their own, with their notes and dates",
        "Title": "the title; if missing, the file's name",
        "Author": "the author",
        "Lang": "the language",
        "CreationDate": "the date of a new text; if missing, the file's date",
    },
    example="Sails.pdf: 120 pages of text (not of scans), with highlights made in a PDF viewer\n",
)
