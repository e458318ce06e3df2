"""PDF files: text with page numbers, chapters, and the highlights and notes of the reader.

PDFium reads them, through pypdfium2: BSD-3-Clause and Apache-2.0, a wheel of 4 MB without
dependencies, the library of Chrome. On 300 pages of 3,200 characters it took 1.4 s, where pypdf
(BSD-3-Clause, Python) took 4.6 s. It joins words hyphenated at line ends by itself. See
`pdf_program` for the process in which it runs.
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
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_BYTES: Final = 100 * MEGABYTE
"""Larger files are refused. PDFium reads parts of them, but in the cloud files are in memory."""
MAX_SECONDS: Final = 120.0
"""A file that takes longer is refused. At 5 ms a page, 5,000 pages take 25 seconds."""
_EDGE_LINES: Final = 2
"""The lines at the top and at the bottom of a page that may be running heads or page numbers."""
_MIN_REPEATS: Final = 3
_REPEATED_PART: Final = 0.05
"""A running head is on three pages at least, and on this part of all: chapters have their own."""
_SHORT_LINE: Final = 0.75
"""A line shorter than this part of the usual length, after the end of a sentence, ends its
paragraph."""
_BROKEN_WORD: Final = re.compile("-?\ufffe\r?\n?")
"""What PDFium writes for a hyphen at the end of a line, in place of the line end."""
_SENTENCE_END: Final = re.compile(r"[.!?:…][\"'”’»)\]]*$")  # noqa: RUF001 - quotation marks
_NUMBER: Final = re.compile(r"\d+")
_DATE: Final = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?'?|Z.*)?"
)
"""A date of ISO 32000-1, 7.9.4: D:YYYYMMDDHHmmSSOHH'mm."""
_PROGRAM_IN_TITLE: Final = re.compile(r"^Microsoft \w+ - ", re.IGNORECASE)
_NO_TITLES: Final = frozenset({"", "untitled"})
_SCAN: Final = "is a scan without text: recognise its text (OCR) first"
_HOSTILE: Final = (
    "is damaged, or unpacks to more than fits in memory: open it in a PDF viewer and save it again"
)
_SLOW: Final = f"takes longer than {MAX_SECONDS:.0f} seconds to read: split it"


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield file.name, partial(_source, file)


def pdf_source(
    path: Path,
    *,
    source_id: str,
    title: str,
    url: str | None = None,
    written_at: datetime | None = None,
) -> Source:
    """Make a source of a PDF, from a folder or fetched from an address.

    Args:
        path: The file.
        source_id: The id of the source.
        title: The title if its metadata have none.
        url: Its address. Chunks then link to their pages there.
        written_at: The date if its metadata have none.

    Raises:
        Unreadable: It is too large, encrypted, damaged or a scan.
        OSError: It cannot be opened.
    """
    if reason := excess(path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    contents = _read(path)
    pages: list[str] = contents["pages"]
    text, starts = _join_pages(_without_running_heads([_lines(page) for page in pages]))
    if not text:
        raise Unreadable(_SCAN)
    metadata: dict[str, str] = contents["metadata"]
    about = _metadata(metadata, contents["language"], url)
    chapters = _chapter_of_pages(contents["outline"], len(pages))
    places = [
        Locator(page=number, chapter=chapter, url=_page_url(url, number))
        for number, chapter in enumerate(chapters, start=1)
    ]
    body = Section(
        text,
        locators=tuple((start, places[page]) for start, page in starts),
        written_at=_date(metadata.get("CreationDate", "")) or written_at,
    )
    highlights = (_highlight(item, places) for item in contents["annotations"])
    return Source(
        source_id=source_id,
        title=headline(about.title or title) or "Untitled",
        **about.source_fields,
        sections=(body, *(section for section in highlights if section.text)),
        warnings=_warnings(pages),
    )


def _source(file: SourceFile) -> Source:
    return pdf_source(
        file.path,
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=PurePosixPath(file.key).stem,
        url=file.url,
        written_at=file.modified_at,
    )


def _read(path: Path) -> dict[str, Any]:
    """Run the program, which has no environment but the path of modules: no key, no token."""
    with path.open("rb"):  # raises OSError here, for the name of the file
        pass
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if root := os.environ.get("SYSTEMROOT"):  # Windows starts no Python without it
        environment["SYSTEMROOT"] = root
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
    except ValueError as error:  # it was stopped, out of memory or by a fault
        raise Unreadable(_HOSTILE) from error
    if refusal := contents.get("refusal"):
        raise Unreadable(refusal)
    return contents


def _lines(page: str) -> list[str]:
    return [" ".join(line.split()) for line in clean(_join_words(page)).split("\n")]


def _join_words(text: str) -> str:
    """Join words that a line end divides; before a capital or a digit the hyphen is the word's."""
    parts = _BROKEN_WORD.split(text)
    joined = parts[0]
    return joined + "".join(
        f"-{part}" if part[:1].isupper() or part[:1].isdigit() else part for part in parts[1:]
    )


def _without_running_heads(pages: list[list[str]]) -> list[list[str]]:
    """Leave out the lines at the edges of pages that many pages have, but for their numbers."""
    counts = Counter(
        key
        for number, lines in enumerate(pages)
        for edge in (1, -1)
        for key in {key for line in _edge(lines, edge) for key in _keys(line, edge, number)}
    )
    enough = max(_MIN_REPEATS, _REPEATED_PART * len(pages))

    def is_running(line: str, edge: int, number: int) -> bool:
        return any(counts[key] >= enough for key in _keys(line, edge, number))

    return [
        _trim(_trim(lines, 1, number, is_running), -1, number, is_running)
        for number, lines in enumerate(pages)
    ]


def _trim(lines: list[str], edge: int, number: int, is_running: Any) -> list[str]:
    rest = lines[::edge]
    for _ in range(_EDGE_LINES):
        first = next((index for index, line in enumerate(rest) if line), None)
        if first is None or not is_running(rest[first], edge, number):
            break
        rest = rest[first + 1 :]
    return rest[::edge]


def _edge(lines: list[str], edge: int) -> list[str]:
    """Return the first lines of a page (edge 1), or the last (-1)."""
    return [line for line in lines[::edge] if line][:_EDGE_LINES]


def _keys(line: str, edge: int, number: int) -> Iterator[tuple[int, str]]:
    """What lines of a running head have in common on pages of different numbers.

    A line may be the same, or contain the number of its page, first or last: `12 Sails`,
    `Page 3 of 90`.
    """
    yield edge, line
    numbers = list(_NUMBER.finditer(line))
    for match in {numbers[0], numbers[-1]} if numbers else ():
        distance = int(match[0][:9]) - number
        yield edge, f"{line[: match.start()]}\0{distance}{line[match.end() :]}"


def _join_pages(pages: Sequence[list[str]]) -> tuple[str, list[tuple[int, int]]]:
    """Join the lines of pages to paragraphs.

    Returns:
        The text, and the offsets in it at which pages begin, each with the index of the page. Pages
        without text have none.
    """
    lengths = [len(line) for lines in pages for line in lines if line]
    usual = median(lengths) if lengths else 0
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    offset, previous = 0, ""
    for page, lines in enumerate(pages):
        begins, gap = True, False
        for line in lines:
            if not line:
                gap = True
                continue
            separator = _separator(previous, usual, gap=gap and not begins) if parts else ""
            offset += len(separator) + len(line)
            parts += (separator, line)
            if begins:
                starts.append((offset - len(line), page))
            begins, gap, previous = False, False, line
    return "".join(parts), starts


def _separator(previous: str, usual: float, *, gap: bool) -> str:
    """Return what separates a line from the one before: a line end, or that of a paragraph."""
    is_last = len(previous) < _SHORT_LINE * usual and _SENTENCE_END.search(previous)
    return PARAGRAPH if gap or is_last else "\n"


def _metadata(metadata: dict[str, str], language: str, url: str | None) -> DocumentMetadata:
    title = _PROGRAM_IN_TITLE.sub("", clean(metadata.get("Title", ""))).strip()
    fields = {
        "title": None if title.casefold() in _NO_TITLES else title,
        "author": metadata.get("Author"),
        "language": language,
        "url": url,
    }
    about, _ = validated(DocumentMetadata, fields, set(fields))
    return about


def _chapter_of_pages(outline: list[tuple[str, int]], count: int) -> list[str | None]:
    """Return the title of the chapter of each page: the last that begins on it or before."""
    begins = {page: headline(title) for title, page in outline if headline(title)}
    chapters: list[str | None] = []
    current = None
    for page in range(1, count + 1):
        current = begins.get(page, current)
        chapters.append(current)
    return chapters


def _highlight(item: dict[str, Any], places: Sequence[Locator]) -> Section:
    """Return a highlighted text with the note about it; a note by itself is one too."""
    text = " ".join(clean(_join_words(item["text"])).split())
    note = clean(item["note"]).strip()
    parts = (text, f"Note: {note}" if note else "")
    return Section(
        PARAGRAPH.join(part for part in parts if part),
        highlighted_at=_date(item["date"]),
        locators=((0, places[item["page"] - 1]),),
    )


def _page_url(url: str | None, number: int) -> str | None:
    """Return the address of a page, by the fragment of RFC 8118, section 3."""
    return f"{url.partition('#')[0]}#page={number}" if url else None


def _date(text: str) -> datetime | None:
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


def _warnings(pages: Sequence[str]) -> tuple[str, ...]:
    empty = sum(1 for page in pages if not page.strip())
    if 2 * empty <= len(pages):
        return ()
    return (f"{empty} of {len(pages)} pages have no text: they may be scans; kept without them",)


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
        "Title": "the title; else the file's name",
        "Author": "the author",
        "Lang": "the language",
        "CreationDate": "the date, when the text is first stored; else the file's own",
    },
    example="Sails.pdf: 120 pages of text (not of scans), with highlights made in a PDF viewer\n",
)
