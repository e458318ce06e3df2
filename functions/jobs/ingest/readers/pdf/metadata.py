"""Reads PDF metadata, without placeholders that a program filled in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from functions.jobs.ingest.readers.fields import DocumentMetadata, clean
from functions.jobs.ingest.readers.validation import validate

_DATE: Final = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(([+-])(\d\d)'?(\d\d)?'?|Z.*)?"
)
"""A PDF date, such as D:20240601100000Z (ISO 32000-1, 7.9.4)."""
_APPLICATION: Final = re.compile(r"^Microsoft \w+ - ", re.IGNORECASE)
"""The prefix that Microsoft Office adds to the title of a document that is printed to a PDF."""
_FILE_NAME: Final = re.compile(
    r".+\.(?:doc[xm]?|ppt[xm]?|xls[xm]?|od[tps]|rtf|txt|tex|dvi|e?ps|pdf|indd|qxd|pages|html?)",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"(?:untitled|unbenannt|document|dokument|documento|presentation|slide|folie|book)[ -]?\d*"
    r"|microsoft (?:word|powerpoint|excel)"
    r"|powerpoint[ -]pr[äe]sentation|présentation powerpoint"
    r"|presentación de powerpoint|presentazione (?:standard )?di powerpoint",
    re.IGNORECASE,
)
"""A default title of a program."""
_ACCOUNTS: Final = frozenset(
    [
        *("", "(anonymous)", "admin", "administrator", "anonymous", "author", "benutzer", "guest"),
        *("microsoft account", "microsoft office user", "owner", "root", "unknown", "user"),
        *("usuario", "utente", "utilisateur", "windows user"),
    ]
)
"""Account names, which programs enter as the author."""


def parse_metadata(
    raw_metadata: dict[str, str], language: str, url: str | None
) -> DocumentMetadata:
    """Return the metadata of a document, without placeholders that a program filled in.

    Args:
        raw_metadata: The entries of the PDF's document information dictionary.
        language: The language in the PDF's document catalog.
    """
    title = _APPLICATION.sub("", clean(raw_metadata.get("Title", "")).strip())
    author = clean(raw_metadata.get("Author", "")).strip()
    is_placeholder = _FILE_NAME.fullmatch(title) or _PLACEHOLDER.fullmatch(title)
    fields = {
        "title": None if is_placeholder else title,
        "author": None if author.casefold() in _ACCOUNTS else author,
        "language": language,
        "url": url,
    }
    metadata, _ = validate(DocumentMetadata, fields, set(fields))
    return metadata


def parse_date(text: str) -> datetime | None:
    """Return a PDF date, in UTC or without a zone if it names none; None if it is not valid."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    *numbers, offset, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    distance = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-distance if sign == "-" else distance) if offset else None
        moment = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=zone)
        return moment.astimezone(UTC) if offset else moment
    except (ValueError, OverflowError):
        return None
