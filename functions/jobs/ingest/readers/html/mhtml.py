"""Reads web pages that a browser saved as one file (MHTML, RFC 2557): `.mhtml`, `.mht`.

The file is a message whose first HTML part is the page. Its other parts are pictures, styles and
frames, which are not read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from email import message_from_bytes
from email.errors import CloseBoundaryNotFoundDefect, HeaderParseError
from email.header import decode_header, make_header
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.html.decoding import choose_codec
from functions.jobs.ingest.readers.html.page import (
    MAX_FILE_BYTES,
    WEB_SCHEMES,
    make_article_source,
    read_page,
)
from functions.jobs.ingest.readers.source_file import Record, SourceFile, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from email.message import Message

    from shared.knowledge.source import Source

_PAGE_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_CUT_OFF: Final = "is cut off: what is left of the page is kept; save it again"


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a page."""
    yield Record(file.name, partial(_make_source, file))


def _make_source(file: SourceFile) -> Source:
    message = message_from_bytes(read_page(file))
    part = next((part for part in message.walk() if part.get_content_type() in _PAGE_TYPES), None)
    if part is None:
        raise Unreadable("is not a saved page: it has no HTML part")
    is_cut_off = any(isinstance(fault, CloseBoundaryNotFoundDefect) for fault in message.defects)
    source = make_article_source(
        _decode_part(part),
        source_id=file.source_id,
        url=_find_url(message, part),
        title=_decode_header(message, "Subject") or PurePosixPath(file.relative_path).stem,
        saved_at=_parse_date(message) or file.modified_at,
    )
    return replace(source, warnings=(_CUT_OFF, *source.warnings)) if is_cut_off else source


def _decode_part(part: Message) -> bytes:
    """Return a page. If only the part names its encoding, the page is converted to UTF-8."""
    content = part.get_payload(decode=True)
    html = content if isinstance(content, bytes) else b""
    try:
        html.decode()
    except UnicodeDecodeError:
        if codec := choose_codec(part.get_content_charset() or ""):
            return html.decode(codec, "replace").encode("utf-8-sig")
    return html


def _find_url(message: Message, part: Message) -> str | None:
    urls = (
        _decode_header(message, "Snapshot-Content-Location"),
        _decode_header(part, "Content-Location"),
        _decode_header(message, "Content-Location"),
    )
    return next((url for url in urls if url.lower().startswith(WEB_SCHEMES)), None)


def _decode_header(message: Message, name: str) -> str:
    value = str(message.get(name, ""))
    with suppress(LookupError, UnicodeError, HeaderParseError):  # otherwise it stays as written
        value = str(make_header(decode_header(value)))
    return to_one_line(value)


def _parse_date(message: Message) -> datetime | None:
    """Return when the page was saved. The zone `-0000` means UTC (RFC 5322, 3.3)."""
    try:
        date = parsedate_to_datetime(str(message.get("Date", "")))
        return date.astimezone(UTC) if date.tzinfo else date.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


FORMAT: Final = Format(
    name="Saved page (MHTML)",
    extensions=(".mhtml", ".mht"),
    read=read_records,
    max_bytes=MAX_FILE_BYTES,
    fields={
        "the first HTML part": "read as an HTML page; frames and pictures are left out",
        "Subject": "the title, if the page has none",
        "Snapshot-Content-Location, Content-Location": "the URL of the original, if the page names"
        " no canonical one",
        "Date": "the date on which the page was saved, used if the page has no publication date",
    },
    example="Snapshot-Content-Location: https://example.com/reefing\nSubject: Reefing early\n"
    "Date: Fri, 31 May 2024 16:41:53 -0000\nContent-Type: text/html\n\n"
    "<article><h1>Reefing early</h1><p>A reef taken early costs a minute ...</p></article>\n",
)
