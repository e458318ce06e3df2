"""Parses a page that Notion exported as Markdown, with its properties below the title.

# Keel

Tags: oak, sea
Created: May 31, 2024 4:41 PM
Boat: Gull (../Boats%200123456789abcdef0123456789abcdef/Gull%20fedcba....md)

A keel of oak ...
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.fields import parse_moment
from functions.jobs.ingest.readers.readwise.vault_note import VaultNote
from shared.knowledge.source import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIELDS: Final = {
    word: field
    for field, words in {
        "tags": "tags tag labels topics",
        "author": "author authors autor auteur autore",
        "url": "url link source website",
        "date": "date datum fecha data",
        "created": "created created_time created_at date_created erstellt erstellt_am creado créé",
        "updated": "updated last_edited last_edited_time",
    }.items()
    for word in words.split()
}
"""The fields that are read, by common names of properties."""
_TITLE: Final = re.compile(r"\A\s*# [^\n]*\n+")
_PROPERTY: Final = re.compile(r"(?P<key>[^\s:][^\n:]{0,60}): (?P<value>[^\n]*)(?:\n|\Z)")
_ADDRESS: Final = r"\(((?:[^()\s]|\([^()\s]*\))*+)\)"
_LINK: Final = re.compile(rf"!?\[([^\[\]\n]*+)\]{_ADDRESS}")
_RELATION: Final = re.compile(rf" {_ADDRESS}")
"""The path that follows the title of a linked page in a property."""
_ASIDE: Final = re.compile(r"^</?aside>[ \t]*(?:\n|\Z)", re.MULTILINE)
_ID: Final = re.compile(r"[0-9a-f]{32}")


def parse(text: str) -> VaultNote:
    """Parse the text of a page."""
    title = _TITLE.match(text)
    end = title.end() if title else 0
    pairs: list[tuple[str, str]] = []
    while title and (line := _PROPERTY.match(text, end)):
        pairs.append((line["key"], _RELATION.sub(_link_relation, line["value"])))
        end = line.end()
    fields, rest = read_properties(pairs)
    paragraphs = (title[0] if title else "", "\n".join(rest), text[end:])
    body = "\n\n".join(filter(None, map(str.strip, paragraphs)))
    return VaultNote(fields, [Section(body)], origin="notion")


def read_properties(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, Any], list[str]]:
    """Return the properties that are fields, and the lines of the others.

    A date that cannot be parsed and a source that is not an address stay lines.
    """
    fields: dict[str, Any] = {}
    lines: list[str] = []
    for key, value in pairs:
        field = _FIELDS.get("_".join(key.casefold().split()), "")
        content = _parse_value(field, value.strip())
        if content and field not in fields:
            fields[field] = content
        elif value.strip():
            lines.append(f"{key}: {value.strip()}")
    return fields, lines


def _parse_value(field: str, value: str) -> str | None:
    match field:
        case "tags" | "author":
            return value
        case "url":
            return value if value.startswith(("http://", "https://")) else None
        case "date" | "created" | "updated":
            start = value.partition(" → ")[0]
            with suppress(ValueError):
                return start if parse_moment(start) else None
    return None


def _link_relation(match: re.Match[str]) -> str:
    return f"[]({match[1]})" if _ID.search(match[1]) else match[0]


def drop_addresses(text: str) -> str:
    """Replace links to pages and files with their words, and remove pictures and callout tags."""

    def replace(link: re.Match[str]) -> str:
        is_web = "://" in link[2] or not _ID.search(unquote(link[2]))
        return link[0] if is_web else "" if link[0].startswith("!") else link[1]

    return _ASIDE.sub("", _LINK.sub(replace, text))
