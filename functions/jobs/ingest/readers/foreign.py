"""Recognizes exports of other programs, and data files, among the CSV, JSON and HTML files.

Readwise's exports share their extensions with any table and any JSON file. A folder may contain
such files: those of known programs are named, and the others are only counted. What counts as
Readwise's own is what no other program writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.tables import list_columns

if TYPE_CHECKING:
    from pathlib import PurePath

EXTENSIONS: Final = frozenset({".csv", ".json", ".html", ".htm"})
"""The extensions of files that may be foreign."""
_REQUIRED_COLUMNS: Final = frozenset({"highlight", "book title"})
"""The columns without which Readwise's CSV export cannot be read, in lower case."""
_OWN_COLUMNS: Final = frozenset({"amazon book id", "location type", "highlighted at"})
"""Columns that only Readwise's CSV export has. A table with two of them may be damaged."""
_OWN_KEYS: Final = re.compile(
    r'"(?:user_book_id|readwise_url|nextPageCursor)"\s*:|\A\s*\[\s*\]\s*\Z'
)
"""What only Readwise's JSON export contains; an empty list is an empty export."""


class _KnownExport(NamedTuple):
    """A file that another program exported.

    Attributes:
        pattern: A pattern that is found at the beginning of such a file.
    """

    name: str
    extensions: frozenset[str]
    pattern: re.Pattern[str]
    advice: str


def _csv(name: str, columns: str, advice: str) -> _KnownExport:
    """Return a table with these columns (regular expressions), in any order, quotes and case."""
    ahead = "".join(
        rf'(?=(?:[^\r\n]*[,;\t])?\s*"?(?:{column})"?\s*(?:[,;\t\r\n]|\Z))'
        for column in columns.split(",")
    )
    pattern = re.compile(rf"\A\s*{ahead}", re.IGNORECASE)
    return _KnownExport(name, frozenset({".csv"}), pattern, advice)


def _json(name: str, keys: str, advice: str) -> _KnownExport:
    """Return an export whose beginning contains these keys or values (regular expressions)."""
    ahead = "".join(rf'(?=.*"{key}")' for key in keys.split())
    return _KnownExport(name, frozenset({".json"}), re.compile(rf"\A{ahead}", re.DOTALL), advice)


_CONVERT: Final = "convert it to .md or .jsonl"
_NO_HIGHLIGHTS: Final = "it has no highlights"
_KNOWN: Final = (
    _csv("Goodreads' list of books", "Book Id,Title,Author", _NO_HIGHLIGHTS),
    _csv("StoryGraph's list of books", "Title,ISBN/UID,Read Status", _NO_HIGHLIGHTS),
    _csv("Zotero's list of documents", "Key,Item Type,Title", _NO_HIGHLIGHTS),
    _json("Zotero's list of documents", r'id"\s*:\s*"http://zotero\.org/[^"]*', _NO_HIGHLIGHTS),
    _json("Zotero's list of documents", r"Better\s*(?:BibTeX|CSL)\s*JSON", _NO_HIGHLIGHTS),
    _json("Bookcision's highlights of a Kindle book", "highlights isNoteOnly", _CONVERT),
    _json("Libby's journey through a book", "readingJourney", _CONVERT),
    _json("Calibre's annotations", "calibre_annotation_collection", _CONVERT),
    _json("a note of Google Keep", "isTrashed userEditedTimestampUsec", "save it as Markdown"),
    _csv("a table of a Kobo's bookmarks", "VolumeID,Text|Annotation", _CONVERT),
    # Programs without an entry of their own, such as Clippings.io
    _csv("a table of highlights that is not Readwise's", "Highlights?|Book Title", _CONVERT),
    _json("a file of highlights that is not Readwise's", "highlights", _CONVERT),
)
_CHATGPT: Final = re.compile(r"<title>\s*ChatGPT Data Export")
"""The page that repeats `conversations.json`."""


def describe_foreign(file: PurePath, text: str) -> str | None:
    """Return why a file is not read: "" if its format is unknown, None if it is read.

    Args:
        text: The beginning of the file.
    """
    extension = file.suffix.lower()
    if extension not in EXTENSIONS or _is_readwise(extension, text):
        return None
    for kind in _KNOWN:
        if extension in kind.extensions and kind.pattern.search(text):
            return f"is {kind.name}, which is not read yet: {kind.advice}"
    return "" if extension in {".csv", ".json"} or _CHATGPT.search(text) else None


def _is_readwise(extension: str, text: str) -> bool:
    """Return whether a file looks like an export of Readwise, which may be damaged."""
    if extension == ".json":
        return bool(_OWN_KEYS.search(text))
    columns = list_columns(text)
    is_damaged = len(columns & _OWN_COLUMNS) > 1
    return extension == ".csv" and (columns >= _REQUIRED_COLUMNS or is_damaged)
