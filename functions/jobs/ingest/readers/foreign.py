"""Recognizes exports of other programs, and data files, among the CSV, JSON and HTML files.

Readwise's exports share their extensions with any table and any JSON file. A folder may contain
such files: those of known programs are named, and the others are only counted.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import PurePath

EXTENSIONS: Final = frozenset({".csv", ".json", ".html", ".htm"})
"""The extensions of files that may be foreign."""
_READWISE_COLUMNS: Final = frozenset({"highlight", "book title"})
"""Columns of Readwise's CSV export, in lower case. A table with one of them may be damaged."""
_READWISE_JSON: Final = re.compile(
    r'"(?:user_book_id|highlights|results)"\s*:|\A\s*(?:\[\s*(?:\]|\Z)|\Z)'
)
"""What the beginning of Readwise's JSON export contains; an empty list is an empty export."""


class _KnownExport(NamedTuple):
    """A file that another program exported.

    Attributes:
        name: What it is.
        extensions: Its extensions.
        pattern: Matches in its beginning, or in its name if `by_name`.
        advice: What to do instead.
    """

    name: str
    extensions: frozenset[str]
    pattern: re.Pattern[str]
    advice: str
    by_name: bool = False


def _csv(name: str, header: str, advice: str) -> _KnownExport:
    """Return an export that begins with these columns, in any spelling of quotes and case."""
    columns = (rf'"?{re.escape(column)}"?' for column in header.split(","))
    pattern = re.compile(r"\A\s*" + r"\s*[,;\t]\s*".join(columns), re.IGNORECASE)
    return _KnownExport(name, frozenset({".csv"}), pattern, advice)


def _json(name: str, keys: str, advice: str) -> _KnownExport:
    """Return an export whose beginning contains these keys or values."""
    ahead = "".join(rf'(?=.*"{re.escape(key)}")' for key in keys.split())
    return _KnownExport(name, frozenset({".json"}), re.compile(rf"\A{ahead}", re.DOTALL), advice)


_LINKS: Final = "add the links that you want to keep with save_link"
_MARKDOWN: Final = "export it as Markdown or HTML"
_KNOWN: Final = (
    _csv(
        "the table of notes that the Kindle app exports",
        "Your Kindle Notes For:",
        "export the notebook as HTML, or use `My Clippings.txt` of the device",
    ),
    _csv(
        "Readwise Reader's list of documents",
        "Title,URL,ID,Document tags",
        f"{_LINKS}, and export the highlights at readwise.io/export",
    ),
    _csv("Raindrop's list of bookmarks", "id,title,note,excerpt,url", _LINKS),
    _csv("Pocket's list of saved pages", "title,url,time_added", _LINKS),
    _csv("Instapaper's list of saved pages", "URL,Title,Selection,Folder", _LINKS),
    _csv("Goodreads' list of books", "Book Id,Title,Author", "it has no highlights"),
    _KnownExport(
        "a table of a Notion database",
        frozenset({".csv"}),
        re.compile(r".* [0-9a-f]{32}(?:_all)?\.csv", re.IGNORECASE),
        "Notion's Markdown export has the pages of its rows beside it",
        by_name=True,
    ),
    _json(
        "a KOReader export in JSON",
        "entries sort time",
        "export as Markdown, or as `My Clippings.txt`, in KOReader",
    ),
    _json(
        "ChatGPT's export of conversations",
        "mapping create_time",
        "save the conversations that you want to keep as Markdown",
    ),
    _json(
        "Claude's export of conversations",
        "chat_messages uuid",
        "save the conversations that you want to keep as Markdown",
    ),
    _json("a browser's bookmarks", "roots bookmark_bar", _LINKS),
    _json("a browser's bookmarks", "text/x-moz-place-container", _LINKS),
    _KnownExport(
        "a browser's bookmarks",
        frozenset({".html", ".htm"}),
        re.compile(r"\A\s*<!DOCTYPE NETSCAPE-Bookmark-file-1", re.IGNORECASE),
        _LINKS,
    ),
)


def describe_known_export(file: PurePath, beginning: bytes) -> str | None:
    """Return what to tell the owner of a known program's export; None for any other file."""
    text = _decode(beginning)
    extension = file.suffix.lower()
    for kind in _KNOWN:
        subject = file.name if kind.by_name else text
        if extension in kind.extensions and kind.pattern.match(subject):
            return f"is {kind.name}, which is not read yet: {kind.advice}"
    return None


def is_foreign(file: PurePath, beginning: bytes) -> bool:
    """Return whether a CSV or JSON file does not look like an export of Readwise at all."""
    text = _decode(beginning)
    match file.suffix.lower():
        case ".csv":
            cells = re.split(r"[,;\t]", text.lstrip().partition("\n")[0])
            columns = {" ".join(cell.strip().strip('"').split()).casefold() for cell in cells}
            return columns.isdisjoint(_READWISE_COLUMNS)
        case ".json":
            return not _READWISE_JSON.search(text)
    return False


def _decode(beginning: bytes) -> str:
    is_utf16 = beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return beginning.decode("utf-16" if is_utf16 else "utf-8", "ignore").removeprefix("\ufeff")
